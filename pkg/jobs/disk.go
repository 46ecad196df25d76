package jobs

import (
	"context"
	"maps"
	"slices"
	"time"
	"unique"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// What a source said about finished days is kept on disk as well, beside the segments, so that the first answer after
// a restart asks for nothing that an answer before would not have asked for: an entry says when it was asked, and is
// asked for again at the same time as if the process had gone on.

// adsVersion is that of the form that coder writes, and of how ParseAd reads an ad.
const adsVersion = 1

// question is what a lookup asks about, as its files are named.
type question string

const (
	ofJobs     question = "jobads"
	onMachines question = "machineads"
	ofEpochs   question = "epochads"
)

func (q question) on(day int32) keep.Blob {
	return keep.Blob{Kind: string(q), Version: adsVersion, Date: day}
}

// saidBy is whose answers a file holds.
type saidBy struct {
	Source   string `json:"source"`   // its key
	Revision string `json:"revision"` // of its contents, where it knows them
}

// dayOf is the UTC day of a moment; ok is false for the zero time.
func dayOf(t time.Time) (day int32, ok bool) {
	return int32(t.Unix() / secondsOfDay), !t.IsZero()
}

// restore fills in what the disk holds of the missing positions. What is there may be due to be asked for again.
func (s *cached) restore(ctx context.Context, missing []int, found []entry, q lookup) {
	if s.disk == nil {
		return
	}
	byDay := q.byDay(missing, func(i int, _ time.Time) bool { return found[i].asked.IsZero() })
	days := slices.Collect(maps.Keys(byDay))
	name := unique.Make(s.name())
	_ = parallel.Each(ctx, len(days), func(_ *struct{}, n int) { // what is not read is asked for
		kept := s.load(q.about, days[n])
		for _, i := range byDay[days[n]] {
			if e, ok := kept[q.key(i)]; ok {
				s.cache.replace(cacheKey{name, q.key(i)}, &found[i], *e)
			}
		}
	})
}

// byDay sorts those positions by their days that are wanted; ended is the end of a position's day.
func (q *lookup) byDay(positions []int, wanted func(i int, ended time.Time) bool) map[int32][]int {
	byDay := map[int32][]int{}
	for _, i := range positions {
		if day, ok := q.day(i); ok && wanted(i, (MachineDay{Day: day}).End()) {
			byDay[day] = append(byDay[day], i)
		}
	}
	return byDay
}

// finished are the answers about finished days that are complete: what is kept for others, and for later.
func (q *lookup) finished(answered []int, found []entry) map[int32][]int {
	return q.byDay(answered, func(i int, ended time.Time) bool {
		return !found[i].partial() && found[i].asked.Sub(ended) > arriveIn
	})
}

// save keeps finished answers by day, beside what is known of them.
func (s *cached) save(ctx context.Context, byDay map[int32][]int, found []entry, q lookup) {
	if s.disk == nil {
		return
	}
	days := slices.Collect(maps.Keys(byDay))
	_ = parallel.Each(ctx, len(days), func(_ *struct{}, n int) { // what is not kept is asked for after a restart
		kept := s.load(q.about, days[n])
		if kept == nil {
			kept = map[string]*entry{}
		}
		for _, i := range byDay[days[n]] {
			kept[q.key(i)] = &found[i]
		}
		s.disk.Write(q.about.on(days[n]), s.said(), encode(kept))
	})
}

// said names the source as it is now.
func (s *cached) said() saidBy {
	said := saidBy{Source: s.key}
	if r, ok := s.Source.(revisioned); ok {
		said.Revision = r.Revision()
	}
	return said
}

// load reads what the disk holds of a day, by key; nil: nothing that can be used.
func (s *cached) load(about question, day int32) map[string]*entry {
	var said saidBy
	body, ok := s.disk.Read(about.on(day), &said)
	if !ok || said != s.said() {
		return nil
	}
	kept, err := s.entriesOf(body)
	if err != nil {
		return nil
	}
	return kept
}

// entriesOf reads what encode wrote, but for entries from the future: a clock is or was ahead.
func (s *cached) entriesOf(body func(take func([]byte) error) error) (entries map[string]*entry, err error) {
	err = body(func(written []byte) (err error) {
		entries, err = decode(written)
		return err
	})
	now := s.cache.now()
	maps.DeleteFunc(entries, func(_ string, e *entry) bool { return e.asked.After(now) })
	return entries, err
}

// keyed is an entry with its key, as the disk holds it.
type keyed struct {
	key string
	entry
}

// keyed walks over an entry's key, the nanoseconds from 1970 until it was asked, its notices and its ads.
func (c *coder) keyed(s *keyed) {
	c.text(&s.key)
	asked, notices := int64(0), []string(nil)
	if !c.reading {
		asked = s.asked.UnixNano()
		if s.remark != nil {
			notices = s.remark.Notices
		}
	}
	c.signed(&asked)
	members(c, &notices, c.text)
	members(c, &s.ads, c.ad)
	if c.reading {
		s.asked, s.remark = time.Unix(0, asked), c.remark(notices)
	}
}

// remark returns the remark of what was read with these notices, one for all that have the same; nil without.
func (c *coder) remark(notices []string) *Remark {
	if notices == nil {
		return nil
	}
	for _, r := range c.remarks {
		if slices.Equal(r.Notices, notices) {
			return r
		}
	}
	r := &Remark{Notices: notices}
	c.remarks = append(c.remarks, r)
	return r
}

// encode writes entries, by key.
func encode(entries map[string]*entry) []byte {
	c := newCoder()
	c.count(len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		c.keyed(&keyed{key, *entries[key]})
	}
	return c.bytes
}

// decode reads what encode wrote. Error: keep.ErrDamaged.
func decode(written []byte) (map[string]*entry, error) {
	c := coder{reading: true, bytes: written, texts: make([]string, 0, len(written)/perText)}
	var all []keyed
	members(&c, &all, c.keyed)
	if c.damaged || c.at < len(c.bytes) {
		return nil, keep.ErrDamaged
	}
	entries := make(map[string]*entry, len(all))
	for i := range all {
		entries[all[i].key] = &all[i].entry
	}
	return entries, nil
}

// perText is about how many bytes are written for each different text, with the ads that it is in.
const perText = 64
