package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/memory"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// artifact is a kind of value that is derived from the rows of a UTC day: segments, and usage. A value comes from
// memory, from disk, or from the bucket if one of them has that of the day's present rows. Otherwise it is derived.
type artifact[T value] struct {
	*dayCache
	kind    string // lower-case letters
	version int    // how values are encoded: those of other versions are ignored
	encode  func(T) []byte

	// resumable values are written to disk also while their day grows, so that another process resumes them.
	resumable bool
}

// value is a value of an artifact, or an entry with it.
type value interface {
	Bytes() int // live memory
}

// entry is a value with the rows that it was derived from. It is never changed.
type entry[T value] struct {
	value   T
	known   snapshots.Known
	growing bool // derived before the day was finished, and not shared yet
}

// Bytes implements value.
func (e *entry[T]) Bytes() int { return e.value.Bytes() }

// request is a UTC day in a state of the source, and how the day's value is read and derived.
type request[T value] struct {
	state snapshots.State
	date  int32
	left  []Incomplete // snapshots that the value is derived without
	stats *loadStats

	// decode reads the output of encode.
	decode func(encoded []byte) (T, error)

	// derive derives the value from all rows, or from an earlier value and the rows since; without, both are zero.
	derive func(ctx context.Context, earlier T, from snapshots.Known) (T, snapshots.Reading, error)
}

// blob names the value of a day, derived without some snapshots of it.
func (a *artifact[T]) blob(date int32, left []Incomplete) segcache.Blob {
	b := segcache.Blob{Kind: a.kind, Version: a.version, Date: date}
	if len(left) > 0 {
		b.Variant = fmt.Sprintf("%016x", xxhash.Sum64String(pool.Key(left)))
	}
	return b
}

// inMemory returns the entry of a name in memory, nil if there is none. It may be of other rows than the present ones.
func (a *artifact[T]) inMemory(name segcache.Blob) *entry[T] {
	held, _ := a.memory.GetIfPresent(name)
	e, _ := held.(*entry[T])
	return e
}

// get returns the value of a day's present rows. Errors: the day cannot be read; snapshots.ErrStale; ctx's.
func (a *artifact[T]) get(ctx context.Context, r request[T]) (*entry[T], error) {
	lock, _ := a.locks.LoadOrStore(a.blob(r.date, r.left), semaphore.NewWeighted(1))
	turn := lock.(*semaphore.Weighted)
	if err := turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer turn.Release(1)
	e, err := a.find(ctx, &r)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, snapshots.ErrStale) { // otherwise others can still use the day
			a.memory.Invalidate(a.blob(r.date, r.left))
		}
		return nil, err
	}
	a.memory.Set(a.blob(r.date, r.left), e)
	return e, nil
}

func (a *artifact[T]) find(ctx context.Context, r *request[T]) (*entry[T], error) {
	e, valid, err := a.fromMemory(ctx, r)
	if e == nil && err == nil {
		e, valid, err = a.fromDisk(ctx, r)
	}
	if err != nil || valid && !e.growing {
		return e, err
	}
	shared := a.shared != nil && r.state.Finished(r.date)
	if !valid && shared {
		if found, err := a.fromBucket(ctx, r); found != nil || err != nil {
			return found, err
		}
		e = nil // what is shared is of rows that were all read at once
	}
	if !valid {
		if e == nil {
			e = new(entry[T])
		}
		// The key is that of the very rows that were read: an edit may have come since the day was looked for.
		value, reading, err := r.derive(ctx, e.value, e.known)
		if err != nil {
			return nil, err
		}
		atomic.AddInt64(&r.stats.Read, 1)
		atomic.AddInt64(&r.stats.Rows, reading.Rows)
		e = a.write(r, value, reading)
	}
	if !shared {
		return e, nil
	}
	finished := *e
	finished.growing = false
	_ = a.upload(ctx, &finished, r) // the health check reports failures
	return &finished, ctx.Err()
}

// fromMemory returns the day's entry in memory, nil if there is none, and whether it is of the present rows.
func (a *artifact[T]) fromMemory(ctx context.Context, r *request[T]) (e *entry[T], valid bool, err error) {
	if e = a.inMemory(a.blob(r.date, r.left)); e == nil {
		return nil, false, nil
	}
	if e.known.State != r.state {
		if valid, err = r.state.Holds(ctx, r.date, e.known); err != nil || !valid {
			return e, false, err
		}
		checked := *e
		checked.known.State = r.state
		e = &checked
	}
	atomic.AddInt64(&r.stats.Kept, 1)
	return e, true, nil
}

// fromDisk returns the day's entry in the cache directory, nil if there is none that can be used, and whether it is of
// the present rows. If it is not, the day has grown since.
func (a *artifact[T]) fromDisk(ctx context.Context, r *request[T]) (e *entry[T], valid bool, err error) {
	if a.disk == nil {
		return nil, false, nil
	}
	if err := a.slots.Acquire(ctx, 1); err != nil {
		return nil, false, err
	}
	defer a.slots.Release(1)
	var key snapshots.Key
	encoded, ok := a.disk.Read(a.blob(r.date, r.left), &key)
	if !ok {
		return nil, false, nil
	}
	e = &entry[T]{known: snapshots.Known{Key: key}}
	if valid, err = r.state.Holds(ctx, r.date, e.known); err != nil || !valid && (!a.resumable || key.Mark == "") {
		return nil, false, err
	}
	if e.value, err = r.decode(encoded); err != nil {
		return nil, false, nil // it is derived and written again
	}
	if valid {
		a.renew(r, key, encoded)
		e.known.State = r.state
		atomic.AddInt64(&r.stats.OnDisk, 1)
	}
	return e, valid, nil
}

// renew writes a finished day's value again that was compared with its rows: the next process need not compare it.
func (a *artifact[T]) renew(r *request[T], key snapshots.Key, encoded []byte) {
	version := r.state.Version(r.date)
	if version != "" && version != key.Version && r.state.Finished(r.date) {
		key.Version = version
		a.disk.Write(a.blob(r.date, r.left), key, encoded)
	}
}

// fromBucket takes the day's value out of the bucket and writes it to disk; nil if it is not there or cannot be used.
func (a *artifact[T]) fromBucket(ctx context.Context, r *request[T]) (*entry[T], error) {
	key, err := a.key(ctx, r.state, r.date)
	identity := r.state.Identity(key)
	switch {
	case ctx.Err() != nil || errors.Is(err, snapshots.ErrStale):
		return nil, cmp.Or(ctx.Err(), err)
	case identity == "": // reading the rows reports the same error
		return nil, nil
	}
	e := &entry[T]{known: snapshots.Known{Key: key, State: r.state}}
	there, err := a.shared.Read(ctx, a.blob(r.date, r.left), identity, func(unpack func() ([]byte, error)) error {
		if err := a.slots.Acquire(ctx, 1); err != nil {
			return err
		}
		defer a.slots.Release(1)
		encoded, err := unpack()
		if err != nil {
			return err
		}
		if e.value, err = r.decode(encoded); err == nil && a.disk != nil {
			a.disk.Write(a.blob(r.date, r.left), key, encoded)
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		r.stats.addBucket(err)
		return nil, nil
	case !there:
		return nil, nil
	}
	atomic.AddInt64(&r.stats.Shared, 1)
	return e, nil
}

// write returns the entry of a value that was derived, and writes it to disk.
func (a *artifact[T]) write(r *request[T], value T, reading snapshots.Reading) *entry[T] {
	e := &entry[T]{value: value, known: snapshots.Known{Key: reading.Key, State: r.state},
		growing: !r.state.Finished(r.date)}
	if a.disk != nil && (!e.growing || a.resumable) && reading.Rows > 0 {
		a.disk.Write(a.blob(r.date, r.left), reading.Key, a.encode(value))
	}
	return e
}

// keep keeps a value that was derived beside another one, before a question needs it: on disk, in the bucket, and while
// its day grows or half of the memory is free, in memory.
func (a *artifact[T]) keep(ctx context.Context, r request[T], value T, reading snapshots.Reading) {
	e := a.write(&r, value, reading)
	if e.growing || a.memory.WeightedSize() < a.memory.GetMaximum()/2 {
		a.memory.Set(a.blob(r.date, r.left), e)
	}
	if a.shared != nil && !e.growing {
		_ = a.upload(ctx, e, &r) // the health check reports failures
	}
}

// upload puts a value into the bucket unless it is there. Error: snapshots.ErrStale if it is not of the present rows.
func (a *artifact[T]) upload(ctx context.Context, e *entry[T], r *request[T]) error {
	now, err := a.source.Look(ctx)
	if err != nil {
		return err
	}
	if unchanged, err := now.Holds(ctx, r.date, e.known); err != nil || !unchanged {
		return cmp.Or(err, snapshots.ErrStale)
	}
	identity := r.state.Identity(e.known.Key)
	if identity == "" { // the rows are damaged
		return nil
	}
	return a.shared.Write(ctx, a.blob(r.date, r.left), identity, a.encode(e.value))
}

// build puts the value of a finished day into the bucket unless it is there. Errors: as of get; the bucket failed.
func (a *artifact[T]) build(ctx context.Context, r request[T]) (value T, err error) {
	e, err := a.get(ctx, r)
	if err != nil {
		return value, err
	}
	there, err := a.shared.Has(ctx, a.blob(r.date, r.left), r.state.Identity(e.known.Key))
	if !there && err == nil { // from disk: it has never been uploaded
		err = a.upload(ctx, e, &r)
	}
	return e.value, err
}

// requestsAtOnce is how many days are requested from a bucket at the same time, where most of the time is waiting.
// Values that need computing wait for a slot.
const requestsAtOnce = 16

// all returns the entries of n days, the last one first, because usually only the newest is read from the source. A day
// that cannot be read has none; stats has a warning. Errors: snapshots.ErrStale; ctx's.
func (a *artifact[T]) all(ctx context.Context, n int, stats *loadStats, of func(i int) request[T]) ([]*entry[T],
	error) {
	entries := make([]*entry[T], n)
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(max(requestsAtOnce, runtime.GOMAXPROCS(0)))
	for i := n - 1; i >= 0 && inner.Err() == nil; i-- {
		group.Go(func() (err error) {
			r := of(i)
			entries[i], err = a.get(inner, r)
			if err != nil && inner.Err() == nil && !errors.Is(err, snapshots.ErrStale) {
				stats.addDay(r.date, err)
				return nil
			}
			return err
		})
	}
	return entries, cmp.Or(group.Wait(), ctx.Err())
}

// dayCache keeps values that are derived from the rows of one UTC day: in memory, in the cache directory, and in a
// bucket that servers share. The latter two only save time: no answer depends on them. It is safe for concurrent use.
type dayCache struct {
	source snapshots.Source
	disk   *segcache.Disk   // nil without a cache directory
	shared *segcache.Shared // nil without a bucket

	memory memory.Cache[segcache.Blob, value]
	locks  sync.Map            // segcache.Blob → *semaphore.Weighted, held while a value is looked up, derived or checked
	slots  *semaphore.Weighted // limits how many values are decoded or derived at the same time
}

// newDayCache returns an empty cache of maxBytes for values that are derived from a source. disk and shared may be nil.
func newDayCache(source snapshots.Source, maxBytes int64, disk *segcache.Disk, shared *segcache.Shared) *dayCache {
	return &dayCache{source: source, disk: disk, shared: shared,
		slots:  semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
		memory: memory.New(uint64(maxBytes), func(_ segcache.Blob, e value) int { return e.Bytes() })}
}

// key returns the key of a day's rows, which may have to be read for it.
func (c *dayCache) key(ctx context.Context, state snapshots.State, date int32) (snapshots.Key, error) {
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return snapshots.Key{}, err
	}
	defer c.slots.Release(1)
	return state.Key(ctx, date)
}
