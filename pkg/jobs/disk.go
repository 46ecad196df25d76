package jobs

import (
	"context"
	"maps"
	"slices"
	"time"
	"unique"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/segcache"
)

// A source's answers about finished days are also kept on disk, next to the segments, so that the first query after a
// restart requests nothing that a query before would not have requested: an entry records when it was requested, and is
// due again at the same time as without the restart.

// adsVersion is the version of encode's format, and of how ParseAd reads an ad. Files of another version are ignored.
const adsVersion = 3

// lookupKind is the kind of a lookup. Files are named after it.
type lookupKind string

const (
	ofJobs     lookupKind = "jobads"
	onMachines lookupKind = "machineads"
	ofEpochs   lookupKind = "epochads"
)

// blob names the answers about a day.
func (k lookupKind) blob(day int32) segcache.Blob {
	return segcache.Blob{Kind: string(k), Version: adsVersion, Date: day}
}

// sourceID names the source whose answers a file holds.
type sourceID struct {
	Source   string `json:"source"`   // its key
	Revision string `json:"revision"` // of its contents, if it knows them
}

// dayOf is the UTC day of a moment; ok is false for the zero time.
func dayOf(t time.Time) (day int32, ok bool) {
	return int32(t.Unix() / secondsOfDay), !t.IsZero()
}

// restore fills in the missing positions from the disk. Its entries may be due to be requested again.
func (s *cached) restore(ctx context.Context, missing []int, found []entry, q lookup) {
	if s.disk == nil {
		return
	}
	byDay := q.byDay(missing, func(i int, _ time.Time) bool { return found[i].asked.IsZero() })
	days := slices.Collect(maps.Keys(byDay))
	name, id := unique.Make(s.name()), s.id()
	_ = parallel.Each(ctx, len(days), func(_ *struct{}, n int) { // entries that are not read are requested
		kept := s.load(id, q.kind, days[n])
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

// finished returns the complete answers about finished days, by day: the only ones that are shared and written to disk.
func (q *lookup) finished(answered []int, found []entry) map[int32][]int {
	return q.byDay(answered, func(i int, ended time.Time) bool {
		return !found[i].partial() && found[i].asked.Sub(ended) > arriveIn
	})
}

// save keeps finished answers of a source by day, in addition to the days' other entries.
func (s *cached) save(ctx context.Context, id sourceID, byDay map[int32][]int, found []entry, q lookup) {
	if s.disk == nil {
		return
	}
	days := slices.Collect(maps.Keys(byDay))
	_ = parallel.Each(ctx, len(days), func(_ *struct{}, n int) { // unwritten ones are requested after a restart
		kept := s.load(id, q.kind, days[n])
		if kept == nil {
			kept = map[string]*entry{}
		}
		for _, i := range byDay[days[n]] {
			kept[q.key(i)] = &found[i]
		}
		s.disk.Write(q.kind.blob(days[n]), id, encode(kept))
	})
}

// id identifies the source in its current state.
func (s *cached) id() sourceID {
	id := sourceID{Source: s.key}
	if r, ok := s.Source.(revisioned); ok {
		id.Revision = r.Revision()
	}
	return id
}

// load reads the entries of a source and day on disk, by key; nil if there are none.
func (s *cached) load(id sourceID, kind lookupKind, day int32) map[string]*entry {
	var by sourceID
	body, ok := s.disk.Read(kind.blob(day), &by)
	if !ok || by != id {
		return nil
	}
	kept, _ := s.entriesOf(body) // damaged entries are requested
	return kept
}

// entriesOf decodes entries. It omits those from the future, because a clock is or was ahead.
func (s *cached) entriesOf(body func(take func([]byte) error) error) (entries map[string]*entry, err error) {
	if err = body(func(written []byte) (err error) {
		entries, err = decode(written)
		return err
	}); err != nil {
		return nil, err
	}
	now := s.cache.now()
	maps.DeleteFunc(entries, func(_ string, e *entry) bool { return e.asked.After(now) })
	return entries, err
}
