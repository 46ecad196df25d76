package timeline

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// artifact is a kind of value that is derived from the rows of a UTC day: segments, and usage. A value comes from
// memory, from disk, or from the bucket if one of them has that of the day's present rows. Otherwise it is derived.
type artifact[T any] struct {
	cache   *dayCache
	kind    string // lower-case letters
	version int    // of the encoding: values of other versions are ignored
	encode  func(T) []byte
	bytes   func(T) int // live memory of a value

	// resumable values are written to disk also while their day grows, so that another process resumes them.
	resumable bool
}

// entry is a value with the rows that it was derived from. It is never changed.
type entry[T any] struct {
	value    T
	known    snapshots.Known
	identity string // identity of the rows, "" if it was not needed

	unwritten int  // derivations since the value was written to disk
	growing   bool // derived before the day was finished, and not shared yet
	size      int
}

func (e *entry[T]) bytes() int { return e.size }

// request is a UTC day in a state of the source, and how the day's value is read and derived.
type request[T any] struct {
	state    snapshots.State
	date     int32
	identity string // identity of the rows, "" if it is not known
	stats    *loadStats

	// decode reads the output of encode. The bytes are valid during the call only.
	decode func(encoded []byte) (T, error)

	// derive derives the value from all rows, or from an earlier entry and the rows since; nil if there is none.
	derive func(ctx context.Context, earlier *entry[T]) (T, snapshots.Reading, error)
}

// loadStats counts where values came from, and collects warnings. It is safe for concurrent use.
type loadStats struct {
	memory, disk, shared, derived atomic.Int64 // values
	rows                          atomic.Int64 // rows that values were derived from
	warnings                      warnings
}

// blob names the value of a day.
func (a *artifact[T]) blob(date int32) segcache.Blob {
	return segcache.Blob{Kind: a.kind, Version: a.version, Date: date}
}

// inMemory returns the day's entry in memory, nil if there is none. It may be of other rows than the present ones.
func (a *artifact[T]) inMemory(date int32) *entry[T] {
	held, _ := a.cache.memory.GetIfPresent(a.blob(date))
	e, _ := held.(*entry[T])
	return e
}

// get returns the value of a day's present rows. Calls for the same day wait for each other. Errors: the day cannot be
// read; snapshots.ErrStale; ctx's.
func (a *artifact[T]) get(ctx context.Context, r request[T]) (*entry[T], error) {
	unlock, err := a.cache.lock(ctx, a.blob(r.date))
	if err != nil {
		return nil, err
	}
	defer unlock()
	e, err := a.find(ctx, &r)
	if err != nil {
		a.cache.memory.Invalidate(a.blob(r.date))
		return nil, err
	}
	a.cache.memory.Set(a.blob(r.date), e)
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
	identity := r.identity
	if identity == "" {
		if identity, err = a.cache.identity(ctx, r.state, r.date); err != nil {
			return nil, err
		}
	}
	if !valid {
		shared, err := a.fromBucket(ctx, r, identity)
		if shared != nil || err != nil {
			return shared, err
		}
		if e, err = a.derive(ctx, r, e, identity); err != nil {
			return nil, err
		}
	}
	if identity == "" { // the day is still growing, or there is no bucket
		return e, nil
	}
	finished := *e
	finished.identity, finished.growing = identity, false
	_ = a.upload(ctx, &finished, r.date) // the health check reports failures
	return &finished, ctx.Err()
}

// fromMemory returns the day's entry in memory, nil if there is none, and whether it is of the present rows.
func (a *artifact[T]) fromMemory(ctx context.Context, r *request[T]) (e *entry[T], valid bool, err error) {
	if e = a.inMemory(r.date); e == nil {
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
	r.stats.memory.Add(1)
	return e, true, nil
}

// description is the cache directory's description of a value.
type description struct {
	snapshots.Key
	Identity string `json:"identity,omitempty"`
}

// fromDisk returns the day's entry in the cache directory, nil if there is none that can be used, and whether it is of
// the present rows. If it is not, the day has grown since.
func (a *artifact[T]) fromDisk(ctx context.Context, r *request[T]) (e *entry[T], valid bool, err error) {
	disk := a.cache.disk
	if disk == nil {
		return nil, false, nil
	}
	release, err := a.cache.slot(ctx)
	if err != nil {
		return nil, false, err
	}
	defer release()
	var about description
	body, ok := disk.Read(a.blob(r.date), &about)
	if !ok {
		return nil, false, nil
	}
	e = &entry[T]{known: snapshots.Known{Key: about.Key}, identity: about.Identity}
	if valid, err = r.state.Holds(ctx, r.date, e.known); err != nil || !valid && (!a.resumable || about.Mark == "") {
		return nil, false, err
	}
	err = body(func(encoded []byte) (err error) {
		if e.value, err = r.decode(encoded); err == nil && valid {
			a.renew(r, about, encoded)
		}
		return err
	})
	if err != nil {
		return nil, false, nil // the disk has dropped it
	}
	e.size = a.bytes(e.value)
	if valid {
		e.known.State = r.state
		r.stats.disk.Add(1)
	} else {
		e.unwritten = worthWriting // written immediately, because a command may end before the day has grown more often
	}
	return e, valid, nil
}

// renew writes the value of a finished day again that was compared with its rows, so that the next process need not
// compare it.
func (a *artifact[T]) renew(r *request[T], about description, encoded []byte) {
	witness := r.state.Witness(r.date)
	if witness != "" && witness != about.Witness && r.state.Finished(r.date) {
		about.Witness = witness
		a.cache.disk.Write(a.blob(r.date), about, encoded)
	}
}

// fromBucket takes the day's value out of the bucket and writes it to disk. Returns nil if it is not there or cannot be
// used.
func (a *artifact[T]) fromBucket(ctx context.Context, r *request[T], identity string) (*entry[T], error) {
	if identity == "" {
		return nil, nil
	}
	key, err := r.state.Key(ctx, r.date)
	if err != nil {
		return nil, err
	}
	e := &entry[T]{known: snapshots.Known{Key: key, State: r.state}, identity: identity}
	found, err := a.fetch(ctx, r, e)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		r.stats.warnings.addBucket(err)
		return nil, nil
	case !found:
		return nil, nil
	}
	e.size = a.bytes(e.value)
	r.stats.shared.Add(1)
	return e, nil
}

// fetch reads the value of an entry out of the bucket. Errors: the bucket failed; the object is invalid; ctx's.
func (a *artifact[T]) fetch(ctx context.Context, r *request[T], e *entry[T]) (found bool, err error) {
	body, _, err := a.cache.shared.Read(ctx, a.blob(r.date), e.identity)
	if body == nil || err != nil {
		return false, err
	}
	release, err := a.cache.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	return true, body(func(encoded []byte) (err error) {
		if e.value, err = r.decode(encoded); err == nil && a.cache.disk != nil {
			a.cache.disk.Write(a.blob(r.date), description{e.known.Key, e.identity}, encoded)
		}
		return err
	})
}

// worthWriting is after how many derivations a value that still grows is written to disk again.
const worthWriting = 8

// derive derives the day's value from the source, and writes it to disk.
func (a *artifact[T]) derive(ctx context.Context, r *request[T], earlier *entry[T], identity string) (*entry[T],
	error) {
	release, err := a.cache.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	value, reading, err := r.derive(ctx, earlier)
	if err != nil {
		return nil, err
	}
	r.stats.derived.Add(1)
	r.stats.rows.Add(reading.Rows)
	e := &entry[T]{value: value, known: snapshots.Known{Key: reading.Key, State: r.state}, identity: identity,
		growing: !r.state.Finished(r.date), size: a.bytes(value)}
	if earlier != nil {
		e.unwritten = earlier.unwritten + 1
	}
	due := !e.growing || a.resumable && (earlier == nil || e.unwritten >= worthWriting)
	if a.cache.disk != nil && due && reading.Rows > 0 {
		a.cache.disk.Write(a.blob(r.date), description{reading.Key, identity}, a.encode(value))
		e.unwritten = 0
	}
	return e, nil
}

// upload puts a value into the bucket unless it is there. Returns snapshots.ErrStale if the day's rows are no longer
// those that the value was derived from. The rows may have been edited after their identity was read and before they
// were read.
func (a *artifact[T]) upload(ctx context.Context, e *entry[T], date int32) error {
	now, err := a.cache.source.Look(ctx)
	if err != nil {
		return err
	}
	if unchanged, err := now.Holds(ctx, date, e.known); err != nil || !unchanged {
		return cmp.Or(err, snapshots.ErrStale)
	}
	_, err = a.cache.shared.Write(ctx, a.blob(date), e.identity, "", a.encode(e.value))
	return err
}

// inBucket reports whether the bucket has the value of rows with an identity.
func (a *artifact[T]) inBucket(ctx context.Context, date int32, identity string) (bool, error) {
	return a.cache.shared.Has(ctx, a.blob(date), identity)
}

// build puts the value of a finished day into the bucket unless it is there, and returns it. The request names the
// identity. Errors: as of get; the bucket failed.
func (a *artifact[T]) build(ctx context.Context, r request[T]) (value T, err error) {
	e, err := a.get(ctx, r)
	if err != nil {
		return value, err
	}
	there, err := a.inBucket(ctx, r.date, r.identity)
	if !there && err == nil {
		entry := *e // from disk: it has never been uploaded
		entry.identity = r.identity
		err = a.upload(ctx, &entry, r.date)
	}
	return e.value, err
}
