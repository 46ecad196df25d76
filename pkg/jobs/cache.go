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
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
)

// Ads come late: adstash polls every 20 minutes. So missing ads are requested again, often while the run is fresh,
// rarely afterwards; and an answer counts as complete only after ads have had time to arrive.
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
	// Answers that were replaced by different ones, and the newest version of an answer.
	replaced, newest atomic.Uint64
}

type cacheKey struct {
	source unique.Handle[string] // cheaper to hash and compare than its text
	key    string
}

// entry is a source's answer about one job, or about one machine on one day.
type entry struct {
	ads     []Ad
	newest  Date   // RecordTime of the last of them, once it is kept
	version uint64 // the same as long as the ads are
	asked   time.Time
	remark  *remark // nil when the answer was complete and without notices
}

// remark has the notices of an answer of the source; all its entries share it.
type remark struct {
	partial bool
	notices []string
}

// replace keeps an entry that takes the place of an earlier one; the zero entry is none.
func (c *Cache) replace(key cacheKey, held *entry, by entry) {
	if n := len(by.ads); n > 0 {
		by.newest = by.ads[n-1].RecordTime
	}
	switch {
	case held.asked.IsZero():
		by.version = c.newest.Add(1)
	case reflect.DeepEqual(held.ads, by.ads):
		by.ads, by.version = held.ads, held.version
	default:
		by.version = c.newest.Add(1)
		defer c.replaced.Add(1)
	}
	*held = by
	c.entries.Set(key, by)
}

// NewCache returns an empty cache of maxBytes; now is the clock.
func NewCache(maxBytes uint64, now func() time.Time) *Cache {
	return &Cache{now: now, entries: otter.Must(&otter.Options[cacheKey, entry]{
		InitialCapacity: 1 << 16, // about 1 MB, for the jobs of a month
		MaximumWeight:   max(maxBytes, 1),
		Weigher:         func(key cacheKey, e entry) uint32 { return uint32(min(e.bytes(key), 1<<31)) },
	})}
}

// Bytes is the estimated size of the cached entries.
func (c *Cache) Bytes() uint64 { return c.entries.WeightedSize() }

const (
	entryBytes = 250 // of an entry without ads, with the cache's own records
	adBytes    = 410 // of an Ad, without its texts
)

func (e entry) bytes(key cacheKey) int {
	n := entryBytes + len(key.key)
	for i := range e.ads {
		n += adBytes + e.ads[i].textBytes()
	}
	return n
}

// textBytes is the size of the ad's texts, as if it shared none with others: users can write a new one into each job.
func (a *Ad) textBytes() int {
	n := len(a.GlobalJobID)
	for _, text := range a.sharedTexts() {
		n += len(*text)
	}
	for _, id := range a.GPUs {
		n += 16 + len(id)
	}
	return n
}

// Key makes a source's key for [Cache.Source] from its identity: URL, indexes, credentials. It reveals none of them.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Source returns source with the cache before it. Sources with the same key share cached ads. Its answers about
// finished days are also kept on disk, for use after a restart, unless disk is nil. Closing the source closes the disk.
//
// Requests to the source are sent one after another, so that concurrent panels cause one request. When the source
// fails, cached ads are returned, with a notice; without any, the source's error. A failing source gets no request for
// 30 seconds.
func (c *Cache) Source(source Source, key string, disk *segcache.Disk) Source {
	return c.SharedSource(source, key, disk, Sharing{})
}

// SharedSource is Source, with the answers about finished days shared with other processes; the zero Sharing
// shares nothing.
func (c *Cache) SharedSource(source Source, key string, disk *segcache.Disk, with Sharing) Source {
	s := &cached{Source: source, cache: c, key: key, disk: disk, turn: semaphore.NewWeighted(1)}
	if with.Through != nil {
		s.shared = &sharing{Sharing: with, looked: map[segcache.Blob]time.Time{}}
	}
	return s
}

type cached struct {
	Source // Newest, Health
	cache  *Cache
	key    string
	disk   *segcache.Disk // nil: none
	shared *sharing       // nil: none
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
		kind: ofJobs,
		key:  func(i int) string { return wanted[i].Job },
		day:  func(i int) (int32, bool) { return dayOf(wanted[i].LastSeen) },
		expiresAt: func(i int, e entry, now time.Time) time.Time {
			if e.final(wanted[i].LastSeen) {
				return forever
			}
			return e.expiresAt(wanted[i].LastSeen, now)
		},
		missing: "job ads of %d jobs",
		ask:     func(missing []int) (Result, error) { return s.Source.Ads(ctx, pick(wanted, missing)) },
	})
}

// AdsOnMachines implements [Source].
func (s *cached) AdsOnMachines(ctx context.Context, days []MachineDay) (Result, error) {
	q := aboutDays(days, func(missing []MachineDay) (Result, error) { return s.Source.AdsOnMachines(ctx, missing) })
	q.kind, q.missing = onMachines, "job ads of %d days of machines"
	return s.lookup(ctx, len(days), q)
}

// Epochs implements [Source].
func (s *cached) Epochs(ctx context.Context, days []EpochDay) (Result, error) {
	q := aboutDays(days, func(missing []EpochDay) (Result, error) { return s.Source.Epochs(ctx, missing) })
	q.kind, q.missing = ofEpochs, "epoch ads of %d days of machines"
	return s.lookup(ctx, len(days), q)
}

// aboutDays is the part of a lookup that all questions about days of machines share.
func aboutDays[D interface {
	Key() string
	End() time.Time
}](days []D, ask func([]D) (Result, error)) lookup {
	return lookup{
		key:       func(i int) string { return days[i].Key() },
		day:       func(i int) (int32, bool) { return dayOf(days[i].End()) },
		expiresAt: func(i int, e entry, now time.Time) time.Time { return e.expiresAt(days[i].End(), now) },
		ask:       func(missing []int) (Result, error) { return ask(pick(days, missing)) },
	}
}

// pick returns the elements at positions.
func pick[T any](all []T, positions []int) []T {
	picked := make([]T, len(positions))
	for j, i := range positions {
		picked[j] = all[i]
	}
	return picked
}

// final reports whether the entry holds all ads there will be of runs up to lastSeen.
func (e entry) final(lastSeen time.Time) bool {
	if len(e.ads) == 0 || e.partial() {
		return false
	}
	newest := e.newest.Time()
	return !newest.Before(lastSeen.Add(-clockError)) && e.asked.Sub(newest) >= arriveIn
}

// expiresAt is when it is time to ask again.
func (e entry) expiresAt(lastSeen, now time.Time) time.Time {
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

func (e entry) partial() bool { return e.remark != nil && e.remark.partial }

// lookup is one question in terms of positions: the key and day of each, until when an entry answers it, and how to ask
// for some.
type lookup struct {
	kind      lookupKind
	key       func(i int) string
	day       func(i int) (day int32, ok bool) // the UTC day that it is about; ok is false if none is known
	expiresAt func(i int, e entry, now time.Time) time.Time
	missing   string
	ask       func(missing []int) (Result, error)
}

func (s *cached) lookup(ctx context.Context, n int, q lookup) (Result, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports link", trace.WithAttributes(attribute.Int("keys", n)))
	defer span.End()
	source, replaced := unique.Make(s.name()), s.cache.replaced.Load()
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
		result.Holds = s.holds(source, replaced, found, q)
		return result
	}
	if len(missing) > 0 {
		s.restore(ctx, missing, found, q)
		missing = s.expired(missing, found, q)
		notices = s.adopt(ctx, missing, found, q)
		missing = s.expired(missing, found, q)
	}
	if len(missing) == 0 {
		return answer(), nil
	}
	missing, err = s.fetchOne(ctx, source, missing, found, q)
	if err != nil {
		known := slices.ContainsFunc(found, func(e entry) bool { return !e.asked.IsZero() })
		if !known || pool.FaultOf(err) != pool.FaultSource {
			return Result{}, err
		}
		result := answer()
		result.Partial, result.Holds = true, nil
		result.Notices = append(result.Notices, fmt.Sprintf(q.missing+" could not be fetched; using earlier results. "+
			"%v", len(missing), err))
		return result, nil
	}
	return answer(), nil
}

// expired returns the positions that no entry answers anymore.
func (s *cached) expired(positions []int, found []entry, q lookup) []int {
	now := s.cache.now()
	return slices.DeleteFunc(positions, func(i int) bool { return found[i].fresh(i, now, q) })
}

// name is the source's key, and the revision of its contents.
func (s *cached) name() string {
	if r, ok := s.Source.(revisioned); ok {
		return s.key + " " + r.Revision()
	}
	return s.key
}

// holds returns a function that reports whether entries still answer a question: until one of them is due to be
// requested again, the source's contents change, or an answer replaces a different one.
func (s *cached) holds(source unique.Handle[string], replaced uint64, found []entry, q lookup) func() bool {
	now, until := s.cache.now(), forever
	for i, e := range found {
		if t := q.expiresAt(i, e, now); t.Before(until) {
			until = t
		}
	}
	return func() bool {
		return s.cache.now().Before(until) && s.cache.replaced.Load() == replaced && s.name() == source.Value()
	}
}

// fetchOne requests the missing positions from the source while no other lookup does so, and returns those that
// it requested.
func (s *cached) fetchOne(ctx context.Context, source unique.Handle[string], missing []int, found []entry,
	q lookup) (asked []int, err error) {
	limited, cancel := Limited(ctx)
	defer cancel()
	if err := parallel.Acquire(limited, s.turn); err != nil {
		if ctx.Err() != nil {
			return missing, fmt.Errorf("waiting for job ads: %w", ctx.Err())
		}
		return missing, pool.SourceError("the source of the job ads has not answered another query yet: try " +
			"again later")
	}
	defer s.turn.Release(1)
	missing, err = s.known(ctx, source, missing, found, q) // another lookup may have fetched them in the meantime
	if len(missing) == 0 || err != nil {
		return nil, err
	}
	id := s.id() // before asking: ads that arrive meanwhile need not be in the answer
	if err = s.fetch(source, missing, found, q); err == nil {
		finished := q.finished(missing, found)
		s.save(ctx, id, finished, found, q)
		s.upload(ctx, id, finished, found, q)
	}
	return missing, err
}

// known fills found from the cache, stale entries too, and returns the positions that must be requested.
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
	return s.expired(positions, found, q), err
}

// fresh reports whether an entry answers a position without asking again.
func (e entry) fresh(i int, now time.Time, q lookup) bool {
	return !e.asked.IsZero() && now.Before(q.expiresAt(i, e, now))
}

// fetch asks the source for the missing positions.
func (s *cached) fetch(source unique.Handle[string], missing []int, found []entry, q lookup) error {
	now := s.cache.now()
	if s.failure != nil && now.Sub(s.failedAt) < askFailed {
		return s.failure
	}
	result, err := q.ask(missing)
	s.failure = nil
	if err != nil {
		if pool.FaultOf(err) == pool.FaultSource && !errors.Is(err, context.Canceled) {
			s.failure, s.failedAt = err, s.cache.now()
		}
		return err
	}
	var about *remark
	if result.Partial || len(result.Notices) > 0 {
		about = &remark{result.Partial, result.Notices}
	}
	for j, i := range missing {
		s.cache.replace(cacheKey{source, q.key(i)}, &found[i], entry{ads: result.Ads[j], asked: now, remark: about})
	}
	return nil
}

// merge makes a result of entries.
func merge(found []entry) Result {
	result := Result{Ads: make([][]Ad, len(found)), Version: 14695981039346656037}
	remarks := map[*remark]bool{}
	for i, e := range found {
		result.Ads[i] = e.ads
		result.Version = (result.Version ^ e.version) * 1099511628211 // FNV-1a, by words
		if e.remark == nil || remarks[e.remark] {
			continue
		}
		remarks[e.remark] = true
		result.Partial = result.Partial || e.remark.partial
		for _, notice := range e.remark.notices {
			if !slices.Contains(result.Notices, notice) {
				result.Notices = append(result.Notices, notice)
			}
		}
	}
	return result
}
