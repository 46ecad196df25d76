package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/memory"
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

// Cache keeps ads that were looked up in a bounded number of bytes. Each data source has one.
type Cache struct {
	entries memory.Cache[cacheKey, *entry]
	now     func() time.Time
	// Answers that were replaced by different ones, and the newest version of an answer.
	replaced, newest atomic.Uint64

	mu        sync.Mutex
	texts     map[string][]string // of the ads, one copy of each, in a list
	textBytes int                 // that the map takes, up to mostText
	mostText  int
}

type cacheKey struct {
	source unique.Handle[string]
	key    string
}

// entry is a source's answer about one job, or about one machine on one day. Disk and bucket hold it as gob writes it.
type entry struct {
	Ads     []Ad
	Asked   time.Time // zero: there is no answer
	Partial bool
	Notices []string
	newest  time.Time // of the ads' RecordTimes
	version uint64    // the same as long as the ads are
}

// textBytes is the memory of a text that is kept for the next ads, apart from its bytes.
const textBytes = 100

// share makes the ads use one copy of each text that many of them repeat: they take less memory, and comparing them is
// quick.
func (c *Cache) share(ads []Ad) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.textBytes > c.mostText || c.texts == nil {
		c.texts, c.textBytes = map[string][]string{}, 0
	}
	for i := range ads {
		a := &ads[i]
		for _, text := range [...]*string{&a.AccessPoint, &a.User, &a.Owner, &a.Machine, &a.Slot, &a.ChtcProjects,
			&a.NumVacatesByReason, &a.NumVacatesByReasonPreExecution} {
			*text = c.copyOf(*text)[0]
		}
		for g, id := range a.GPUs {
			a.GPUs[g] = c.copyOf(id)[0]
		}
		if len(a.GPUs) == 1 {
			a.GPUs = c.copyOf(a.GPUs[0])
		}
		if i > 0 && a.GlobalJobID == ads[i-1].GlobalJobID {
			a.GlobalJobID = ads[i-1].GlobalJobID
		}
	}
}

// copyOf returns a list of the one copy of a text.
func (c *Cache) copyOf(text string) []string {
	kept, known := c.texts[text]
	if !known {
		kept = []string{strings.Clone(text)}
		c.texts[kept[0]] = kept
		c.textBytes += len(text) + textBytes
	}
	return kept
}

// replace keeps and returns an entry that takes the place of an earlier one; the zero entry is none.
func (c *Cache) replace(key cacheKey, held *entry, by entry) *entry {
	if n := len(by.Ads); n > 0 {
		by.newest = by.Ads[n-1].RecordTime.Time()
		if job := by.Ads[0].GlobalJobID; job == key.key {
			key.key = job // one text for the key and its ads
		}
	}
	c.share(by.Ads)
	by.version = c.newest.Add(1)
	switch {
	case held.Asked.IsZero():
	case reflect.DeepEqual(held.Ads, by.Ads):
		by.Ads, by.version = held.Ads, held.version
	default:
		defer c.replaced.Add(1)
	}
	c.entries.Set(key, &by)
	return &by
}

// NewCache returns an empty cache of maxBytes, of which texts that ads repeat have a sixteenth; now is the clock.
func NewCache(maxBytes uint64, now func() time.Time) *Cache {
	texts := maxBytes / 16
	return &Cache{now: now, mostText: int(texts),
		entries: memory.New(maxBytes-texts, func(key cacheKey, e *entry) int { return e.bytes(key) })}
}

const (
	entryBytes = 250 // of an entry without ads, with the cache's own records
	adBytes    = 440 // of an Ad, without its texts
)

func (e *entry) bytes(key cacheKey) int {
	n := entryBytes + len(key.key)
	for i := range e.Ads {
		a := &e.Ads[i]
		n += adBytes + len(a.GlobalJobID) + len(a.AccessPoint) + len(a.User) + len(a.Machine) + len(a.Slot) + len(a.Owner) +
			len(a.ChtcProjects) + len(a.NumVacatesByReason) + len(a.NumVacatesByReasonPreExecution)
		for _, id := range a.GPUs {
			n += 16 + len(id)
		}
	}
	return n
}

// Source returns source with the cache before it. Sources with the same key, as segcache.Key makes it, share cached
// ads. Its answers about finished days are also kept on disk, for use after a restart, unless disk is nil. Closing the
// source closes the disk.
//
// Requests to the source are sent one after another, so that concurrent panels cause one request. When the source
// fails, cached ads are returned, with a notice; without any, the source's error. A failing source gets no request for
// 30 seconds.
func (c *Cache) Source(source Source, key string, disk *segcache.Disk) Source {
	return &cached{Source: source, cache: c, key: key, disk: disk, turn: semaphore.NewWeighted(1)}
}

type cached struct {
	Source // Newest, Health
	cache  *Cache
	key    string
	disk   *segcache.Disk // nil: none
	turn   *semaphore.Weighted

	// The last failure, under turn.
	failure  error
	failedAt time.Time
}

// Close closes the disk, and a source that holds something open.
func (s *cached) Close() (err error) {
	if source, ok := s.Source.(io.Closer); ok {
		err = source.Close()
	}
	if s.disk != nil {
		err = errors.Join(err, s.disk.Close())
	}
	return err
}

// contents names the source and the revision of its contents, if it knows when they have changed.
func (s *cached) contents() string {
	if r, ok := s.Source.(interface{ Revision() string }); ok {
		return s.key + " " + r.Revision()
	}
	return s.key + " "
}

// The kinds of lookups.
var (
	ofJobs     = lookupKind{"jobads", "job ads of %d jobs"}
	onMachines = lookupKind{"machineads", "job ads of %d days of machines"}
	ofShort    = lookupKind{"epochads", "epoch ads of %d days of machines"}
)

type lookupKind struct {
	name    string // of its blobs
	missing string // names the lacking ads, in a notice
}

func (s *cached) Ads(ctx context.Context, wanted []Wanted) (Result, error) {
	return lookUp(ctx, s, ofJobs, wanted, s.Source.Ads)
}

func (s *cached) AdsOnMachines(ctx context.Context, days []MachineDay) (Result, error) {
	kind := onMachines
	if len(days) > 0 && days[0].Longest > 0 {
		kind = ofShort
	}
	return lookUp(ctx, s, kind, days, s.Source.AdsOnMachines)
}

// lookup is one question in terms of positions: the key and end of each, its entry, and how to ask for some.
type lookup struct {
	kind   lookupKind
	source unique.Handle[string] // as contents names it
	keys   []string
	ends   []time.Time // the last moment that each is about; zero if it is not known
	found  []*entry    // never nil
	ask    func(missing []int) (Result, error)
}

// final reports whether an entry holds all ads there will be of runs up to lastSeen.
func (e *entry) final(lastSeen time.Time) bool {
	if len(e.Ads) == 0 || e.Partial {
		return false
	}
	return !e.newest.Before(lastSeen.Add(-clockError)) && e.Asked.Sub(e.newest) >= arriveIn
}

// forever is later than any clock shows.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// expiresAt is when it is time to ask again about a position.
func (q *lookup) expiresAt(i int, now time.Time) time.Time {
	e, end, wait := q.found[i], q.ends[i], askOld
	switch {
	case q.kind == ofJobs && e.final(end):
		return forever
	case end.IsZero() || now.Sub(end) < freshFor || e.Partial:
		wait = askFresh
	case e.Asked.Sub(end) >= settled:
		wait = askSettled
	}
	return e.Asked.Add(wait)
}

// lookUp answers a question out of the cache, and asks about the rest.
func lookUp[W interface {
	Key() string
	End() time.Time
}](ctx context.Context, s *cached, kind lookupKind, wanted []W, ask func(context.Context, []W) (Result, error)) (
	Result, error) {
	// Describe the lookup.
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports link",
		trace.WithAttributes(attribute.Int("keys", len(wanted))))
	defer span.End()
	q := &lookup{kind: kind, source: unique.Make(s.contents()), keys: Keys(wanted),
		ends: make([]time.Time, len(wanted)), found: slices.Repeat([]*entry{{}}, len(wanted))}
	all := make([]int, len(wanted))
	for i, w := range wanted {
		q.ends[i], all[i] = w.End(), i
	}
	q.ask = func(missing []int) (Result, error) {
		some := make([]W, len(missing))
		for j, i := range missing {
			some[j] = wanted[i]
		}
		return ask(ctx, some)
	}
	// Look into memory, then on disk, and ask about the rest.
	replaced := s.cache.replaced.Load()
	missing := s.restore(ctx, q, s.recall(q, all))
	var err error
	if len(missing) > 0 {
		missing, err = s.fetchOne(ctx, q, missing)
	}
	// Answer from earlier results if the source fails.
	known := func(e *entry) bool { return !e.Asked.IsZero() }
	if err != nil && (pool.FaultOf(err) != pool.FaultSource || !slices.ContainsFunc(q.found, known)) {
		return Result{}, err
	}
	result := merge(q.found)
	if err != nil {
		result.Partial = true
		result.Notices = append(result.Notices, fmt.Sprintf(q.kind.missing+" could not be fetched; using earlier results. "+
			"%v", len(missing), err))
		return result, nil
	}
	result.Holds = s.holds(q, replaced)
	return result, nil
}

// expired returns the positions that no entry answers anymore.
func (s *cached) expired(q *lookup, positions []int) []int {
	now := s.cache.now()
	return slices.DeleteFunc(positions, func(i int) bool {
		return !q.found[i].Asked.IsZero() && now.Before(q.expiresAt(i, now))
	})
}

// holds returns a function that reports whether entries still answer a question: until one of them is due to be
// requested again, the source's contents change, or an answer replaces a different one.
func (s *cached) holds(q *lookup, replaced uint64) func() bool {
	now, until, source := s.cache.now(), forever, q.source
	for i := range q.found {
		if t := q.expiresAt(i, now); t.Before(until) {
			until = t
		}
	}
	return func() bool {
		return s.cache.now().Before(until) && s.cache.replaced.Load() == replaced &&
			s.contents() == source.Value()
	}
}

// fetchOne requests the missing positions from the source while no other lookup does so, and returns those that
// it requested.
func (s *cached) fetchOne(ctx context.Context, q *lookup, missing []int) (asked []int, err error) {
	limited, cancel := Limited(ctx, math.MaxInt64)
	defer cancel()
	if err := parallel.Acquire(limited, s.turn); err != nil {
		if ctx.Err() != nil {
			return missing, fmt.Errorf("waiting for job ads: %w", ctx.Err())
		}
		return missing, pool.SourceError("the source of the job ads has not answered another query yet: try " +
			"again later")
	}
	defer s.turn.Release(1)
	if missing = s.recall(q, missing); len(missing) == 0 { // another lookup fetched them in the meantime
		return nil, nil
	}
	// Ask the source, unless it has just failed.
	now := s.cache.now()
	if s.failure != nil && now.Sub(s.failedAt) < askFailed {
		return missing, s.failure
	}
	contents := s.contents() // before asking: ads that arrive meanwhile need not be in the answer
	result, err := q.ask(missing)
	s.failure = nil
	if err != nil {
		if pool.FaultOf(err) == pool.FaultSource && !errors.Is(err, context.Canceled) {
			s.failure, s.failedAt = err, s.cache.now()
		}
		return missing, err
	}
	for j, i := range missing {
		q.found[i] = s.cache.replace(q.cacheKey(i), q.found[i], entry{Ads: result.Ads[j], Asked: now,
			Partial: result.Partial, Notices: result.Notices})
	}
	s.store(ctx, q, missing, contents)
	return missing, nil
}

// recall fills found from the cache, stale entries too, and returns the positions that must be requested.
func (s *cached) recall(q *lookup, positions []int) (missing []int) {
	for _, i := range positions {
		if e, ok := s.cache.entries.GetIfPresent(q.cacheKey(i)); ok {
			q.found[i] = e
		}
	}
	return s.expired(q, positions)
}

func (q *lookup) cacheKey(i int) cacheKey { return cacheKey{q.source, q.keys[i]} }

// merge makes a result of entries.
func merge(found []*entry) Result {
	result := Result{Ads: make([][]Ad, len(found)), Version: 14695981039346656037}
	said := map[string]bool{}
	for i, e := range found {
		result.Ads[i] = e.Ads
		result.Version = (result.Version ^ e.version) * 1099511628211 // FNV-1a, by words
		result.Partial = result.Partial || e.Partial
		for _, notice := range e.Notices {
			if !said[notice] {
				said[notice], result.Notices = true, append(result.Notices, notice)
			}
		}
	}
	return result
}
