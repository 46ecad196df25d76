package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// Ads come late: adstash polls every 20 minutes. So what was not (yet) there is asked for again, often while the run
// is fresh, rarely afterwards; and ads are taken for all there will be only when they had time to arrive.
const (
	freshFor   = 2 * time.Hour   // since the run was last seen
	askFresh   = 5 * time.Minute // when the run is fresh, or the answer was incomplete
	askOld     = 6 * time.Hour   // later
	settled    = 7 * 24 * time.Hour
	askSettled = 24 * time.Hour   // when the answer came so long after the run
	arriveIn   = time.Hour        // ads of the same end have arrived
	askFailed  = 30 * time.Second // after an error of the source
	clockError = 2 * time.Minute  // of access points
)

// Cache keeps ads that were looked up, for all sources of the process, in a bounded number of bytes.
type Cache struct {
	entries *otter.Cache[cacheKey, entry]
	now     func() time.Time
	changes journal
	newest  atomic.Uint64 // version of ads
}

type cacheKey struct {
	source unique.Handle[string] // cheaper to hash and compare than its text
	key    string
}

// entry is what a source said about one job, or about one machine on one day.
type entry struct {
	ads     []Ad
	newest  Date   // RecordTime of the last of them, once it is kept
	version uint64 // of the ads, see Standing
	asked   time.Time
	remark  *Remark // nil when the answer was complete and without notices
}

// replace keeps an entry that takes the place of an earlier one; the zero entry is none. It returns 1 if the earlier
// one was different, else 0.
func (c *Cache) replace(key cacheKey, held *entry, by entry) int {
	replaced := 0
	if n := len(by.ads); n > 0 {
		by.newest = by.ads[n-1].RecordTime
	}
	switch {
	case held.asked.IsZero():
		by.version = c.newest.Add(1)
	case reflect.DeepEqual(held.ads, by.ads):
		by.ads, by.version = held.ads, held.version
	default:
		by.version, replaced = c.newest.Add(1), 1
	}
	*held = by
	c.entries.Set(key, by)
	if replaced > 0 {
		c.changes.add(key)
	}
	return replaced
}

// NewCache returns an empty cache of maxBytes; now is the clock.
func NewCache(maxBytes uint64, now func() time.Time) *Cache {
	return &Cache{now: now, entries: otter.Must(&otter.Options[cacheKey, entry]{
		InitialCapacity: 1 << 16, // some 1 MB, for the jobs of a month
		MaximumWeight:   max(maxBytes, 1),
		Weigher:         func(key cacheKey, e entry) uint32 { return uint32(min(e.bytes(key), 1<<31)) },
	})}
}

// Bytes is the estimated size of what the cache holds.
func (c *Cache) Bytes() uint64 { return c.entries.WeightedSize() }

const (
	entryBytes = 250 // of an entry without ads, with the cache's own records
	adBytes    = 336 // of an Ad, without its texts
)

func (e entry) bytes(key cacheKey) int {
	n := entryBytes + len(key.key)
	for i := range e.ads {
		n += adBytes + len(e.ads[i].GlobalJobID) + 24*len(e.ads[i].GPUs)
	}
	return n
}

// Key makes a source's key for [Cache.Source] of what identifies it: URL, indexes, credentials. It reveals none of
// them.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Source returns source with the cache before it. Sources with the same key share what is cached. What it says about
// finished days is kept on disk, too, and found there after a restart; a nil disk is none. Closing the source closes
// the disk.
//
// Lookups that must ask the source do so one after the other: many panels at once ask once. When the source fails, ads
// that are known from before are returned, with a notice; without any, the source's error. A failing source is left
// alone for 30 seconds.
func (c *Cache) Source(source Source, key string, disk *keep.Disk) Remembering {
	return c.SharedSource(source, key, disk, Sharing{})
}

// SharedSource is Source, with what the source says about finished days shared with other processes; the zero Sharing
// shares nothing.
func (c *Cache) SharedSource(source Source, key string, disk *keep.Disk, with Sharing) Remembering {
	s := &cached{Source: source, cache: c, key: key, disk: disk, turn: semaphore.NewWeighted(1)}
	if with.Through != nil {
		s.shared = &sharing{Sharing: with, looked: map[keep.Blob]time.Time{}}
	}
	return s
}

type cached struct {
	Source // Newest, Health
	cache  *Cache
	key    string
	disk   *keep.Disk // nil: none
	shared *sharing   // nil: none
	turn   *semaphore.Weighted

	// The last failure, under turn.
	failure  error
	failedAt time.Time
}

// Close implements [Source].
func (s *cached) Close() error {
	err := s.Source.Close()
	if s.disk != nil {
		err = errors.Join(err, s.disk.Close())
	}
	return err
}

// revisioned is a source that knows when its contents have changed.
type revisioned interface{ Revision() string }

// Ads implements [Source].
func (s *cached) Ads(ctx context.Context, wanted []Wanted) (Result, error) {
	return s.lookup(ctx, len(wanted), lookup{
		about: ofJobs,
		key:   func(i int) string { return wanted[i].Job },
		day:   func(i int) (int32, bool) { return dayOf(wanted[i].LastSeen) },
		until: func(i int, e entry, now time.Time) time.Time {
			if e.describes(wanted[i].LastSeen) {
				return forever
			}
			return e.until(wanted[i].LastSeen, now)
		},
		missing: "job ads of %d jobs",
		ask: func(missing []int) (Result, error) {
			part := make([]Wanted, len(missing))
			for j, i := range missing {
				part[j] = wanted[i]
			}
			return s.Source.Ads(ctx, part)
		},
	})
}

// AdsOnMachines implements [Source].
func (s *cached) AdsOnMachines(ctx context.Context, days []MachineDay) (Result, error) {
	return s.lookup(ctx, len(days), lookup{
		about:   onMachines,
		day:     func(i int) (int32, bool) { return days[i].Day, true },
		key:     func(i int) string { return days[i].Key() },
		until:   func(i int, e entry, now time.Time) time.Time { return e.until(days[i].End(), now) },
		missing: "job ads of %d days of machines",
		ask: func(missing []int) (Result, error) {
			part := make([]MachineDay, len(missing))
			for j, i := range missing {
				part[j] = days[i]
			}
			return s.Source.AdsOnMachines(ctx, part)
		},
	})
}

// Epochs implements [Source].
func (s *cached) Epochs(ctx context.Context, days []EpochDay) (Result, error) {
	return s.lookup(ctx, len(days), lookup{
		about:   ofEpochs,
		day:     func(i int) (int32, bool) { return days[i].Day, true },
		key:     func(i int) string { return days[i].Key() },
		until:   func(i int, e entry, now time.Time) time.Time { return e.until(days[i].End(), now) },
		missing: "epoch ads of %d days of machines",
		ask: func(missing []int) (Result, error) {
			part := make([]EpochDay, len(missing))
			for j, i := range missing {
				part[j] = days[i]
			}
			return s.Source.Epochs(ctx, part)
		},
	})
}

// describes reports whether the entry holds all ads there will be of runs up to lastSeen.
func (e entry) describes(lastSeen time.Time) bool {
	if len(e.ads) == 0 || e.partial() {
		return false
	}
	newest := e.newest.Time()
	return !newest.Before(lastSeen.Add(-clockError)) && e.asked.Sub(newest) >= arriveIn
}

// until is when it is time to ask again.
func (e entry) until(lastSeen, now time.Time) time.Time {
	wait := askOld
	if lastSeen.IsZero() || now.Sub(lastSeen) < freshFor || e.partial() {
		wait = askFresh
	} else if e.asked.Sub(lastSeen) >= settled {
		wait = askSettled
	}
	return e.asked.Add(wait)
}

// forever is later than any clock shows.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (e entry) partial() bool { return e.remark != nil && e.remark.Partial }

// lookup is one question in terms of positions: the key and day of each, until when an entry answers it, and how to ask
// for some.
type lookup struct {
	about   question
	key     func(i int) string
	day     func(i int) (day int32, ok bool) // the UTC day that it is about; ok is false if none is known
	until   func(i int, e entry, now time.Time) time.Time
	missing string
	ask     func(missing []int) (Result, error)
}

func (s *cached) lookup(ctx context.Context, n int, q lookup) (Result, error) {
	source, changes := unique.Make(s.name()), s.cache.changes.position()
	found := make([]entry, n)
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	missing, err := s.known(ctx, source, all, found, q)
	if err != nil {
		return Result{}, fmt.Errorf("looking for job ads: %w", err)
	}
	var notices []string
	answer := func() Result {
		result := merge(found)
		result.Notices = append(result.Notices, notices...)
		return result
	}
	if len(missing) > 0 {
		s.restore(ctx, missing, found, q)
		missing = s.due(missing, found, q)
		var adopted int
		adopted, notices = s.adopt(ctx, missing, found, q)
		changes += uint64(adopted) // by this question
		missing = s.due(missing, found, q)
	}
	if len(missing) == 0 {
		return s.standing(answer(), source, changes, found, q), nil
	}
	missing, replaced, err := s.inTurn(ctx, source, missing, found, q)
	if err != nil {
		known := slices.ContainsFunc(found, func(e entry) bool { return !e.asked.IsZero() })
		if !known || pool.FaultOf(err) != pool.FaultSource {
			return Result{}, err
		}
		result := answer()
		result.Partial = true
		result.Notices = append(result.Notices, fmt.Sprintf(q.missing+" could not be asked for; what was known before is "+
			"used. %v", len(missing), err))
		return result, nil
	}
	changes += uint64(replaced) // by this question
	return s.standing(answer(), source, changes, found, q), nil
}

// due returns the positions that no entry answers any more.
func (s *cached) due(positions []int, found []entry, q lookup) []int {
	now := s.cache.now()
	return slices.DeleteFunc(positions, func(i int) bool { return found[i].stands(i, now, q) })
}

// name is the source's key, and what distinguishes its contents now from earlier ones.
func (s *cached) name() string {
	if r, ok := s.Source.(revisioned); ok {
		return s.key + " " + r.Revision()
	}
	return s.key
}

// standing adds how long the result and its entries hold: the result until one of its entries is asked for again, the
// source's contents change, or an answer to somebody else replaces a different one.
func (s *cached) standing(r Result, source unique.Handle[string], changes uint64, found []entry, q lookup) Result {
	now, until := s.cache.now(), forever
	r.Standing = make([]Standing, len(found))
	for i, e := range found {
		r.Standing[i] = Standing{Until: q.until(i, e, now), Version: e.version, Remark: e.remark}
		if t := r.Standing[i].Until; t.Before(until) {
			until = t
		}
	}
	r.Holds = func() bool {
		return s.cache.now().Before(until) && s.cache.changes.position() == changes && s.name() == source.Value()
	}
	return r
}

// inTurn asks the source for the missing positions when no other lookup does, and returns those that it asked for;
// replaced as fetch.
func (s *cached) inTurn(ctx context.Context, source unique.Handle[string], missing []int, found []entry,
	q lookup) (asked []int, replaced int, err error) {
	limited, cancel := Limited(ctx)
	defer cancel()
	if err := s.turn.Acquire(limited, 1); err != nil {
		if ctx.Err() != nil {
			return missing, 0, fmt.Errorf("waiting for job ads: %w", ctx.Err())
		}
		return missing, 0, pool.SourceError("the source of the job ads has not answered another query yet: try " +
			"again later")
	}
	defer s.turn.Release(1)
	missing, err = s.known(ctx, source, missing, found, q) // somebody else may have asked meanwhile
	if len(missing) == 0 || err != nil {
		return nil, 0, err
	}
	if replaced, err = s.fetch(source, missing, found, q); err == nil {
		finished := q.finished(missing, found)
		s.save(ctx, finished, found, q)
		s.share(ctx, finished, found, q)
	}
	return missing, replaced, err
}

// known fills found from the cache, stale entries too, and returns the positions that must be asked for.
func (s *cached) known(ctx context.Context, source unique.Handle[string], positions []int, found []entry,
	q lookup) (missing []int, err error) {
	const together = 1000
	err = parallel.Chunks(ctx, len(positions), together, func(_ *struct{}, from, end int) {
		for _, i := range positions[from:end] {
			if e, ok := s.cache.entries.GetIfPresent(cacheKey{source, q.key(i)}); ok {
				found[i] = e
			}
		}
	})
	return s.due(positions, found, q), err
}

// stands reports whether an entry answers a position without asking again.
func (e entry) stands(i int, now time.Time, q lookup) bool {
	return !e.asked.IsZero() && now.Before(q.until(i, e, now))
}

// fetch asks the source for the missing positions; replaced is how many answers took the place of different ones.
func (s *cached) fetch(source unique.Handle[string], missing []int, found []entry, q lookup) (replaced int, err error) {
	now := s.cache.now()
	if s.failure != nil && now.Sub(s.failedAt) < askFailed {
		return 0, s.failure
	}
	result, err := q.ask(missing)
	s.failure = nil
	if err != nil {
		if pool.FaultOf(err) == pool.FaultSource && !errors.Is(err, context.Canceled) {
			s.failure, s.failedAt = err, s.cache.now()
		}
		return 0, err
	}
	var remark *Remark
	if result.Partial || len(result.Notices) > 0 {
		remark = &Remark{result.Partial, result.Notices}
	}
	for j, i := range missing {
		said := entry{ads: result.Ads[j], asked: now, remark: remark}
		replaced += s.cache.replace(cacheKey{source, q.key(i)}, &found[i], said)
	}
	return replaced, nil
}

// merge makes a result of entries.
func merge(found []entry) Result {
	result := Result{Ads: make([][]Ad, len(found))}
	remarks := map[*Remark]bool{}
	for i, e := range found {
		result.Ads[i] = e.ads
		if e.remark == nil || remarks[e.remark] {
			continue
		}
		remarks[e.remark] = true
		result.Partial = result.Partial || e.remark.Partial
		for _, notice := range e.remark.Notices {
			if !slices.Contains(result.Notices, notice) {
				result.Notices = append(result.Notices, notice)
			}
		}
	}
	return result
}
