package timeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/keep"
	"github.com/chtc/gpureports/pkg/timeline/usage"
)

// What is made of a finished day is shared through a bucket, under the identity of its rows: whoever needs what nobody
// made yet makes it, and puts it there unless somebody else was faster. A bucket that fails costs time, never an
// answer.

// remarks collects what went wrong with the bucket, each once.
type remarks struct {
	mu    sync.Mutex
	texts []string
}

func (r *remarks) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text := err.Error(); !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
}

func (r *remarks) notices() (notices []snapshots.Notice) {
	slices.Sort(r.texts)
	for _, text := range r.texts {
		notices = append(notices, snapshots.Notice{
			Text: "finished days that are not at hand are made of the snapshots, which takes longer: " + text,
		})
	}
	return notices
}

// about is what the cache directory says of a day.
type about struct {
	snapshots.Key
	Identity string `json:"identity,omitempty"` // of the rows, where it is known
}

// requestsAtOnce is how many days are asked for at the same time where most of the time is waiting for a bucket.
const requestsAtOnce = 16

// atOnce is how many days are loaded at the same time. Those that take computing wait for a slot.
func (t *Timeline) atOnce() int {
	if t.shared != nil {
		return max(requestsAtOnce, cap(t.slots))
	}
	return cap(t.slots)
}

// identity returns the identity of a day that is shared, "" for one that is not.
func (t *Timeline) identity(ctx context.Context, state snapshots.State, date int32) (string, error) {
	if t.shared == nil || !state.Finished(date) {
		return "", nil
	}
	release, err := t.slot(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	identity, err := state.Identity(ctx, date)
	if err != nil && ctx.Err() == nil && !errors.Is(err, snapshots.ErrStale) {
		return "", nil // what cannot be read shows where it is read
	}
	return identity, err
}

// fromBucket takes a day out of the bucket, and keeps it on disk; nil if it is not there, or not believed.
func (t *Timeline) fromBucket(ctx context.Context, state snapshots.State, date int32, identity string,
	work *tally) (*entry, error) {
	if identity == "" {
		return nil, nil
	}
	key, err := state.Key(ctx, date)
	if err != nil {
		return nil, err
	}
	e := &entry{known: snapshots.Known{Key: key, State: state}}
	found, err := t.fetch(ctx, segmentOf(date), identity, &work.unshared, func(segment []byte) (err error) {
		if e.day, err = decodeOf(date, segment, t.names); err == nil && t.disk != nil {
			t.disk.Write(segmentOf(date), about{key, identity}, segment)
		}
		return err
	})
	if !found || err != nil {
		return nil, err
	}
	e.day.key, e.day.identity, e.written = key, identity, len(e.day.Times)
	work.shared.Add(1)
	return e, nil
}

// fetch hands what the bucket has of a blob to take. What take refuses is not believed.
func (t *Timeline) fetch(ctx context.Context, b keep.Blob, identity string, said *remarks,
	take func([]byte) error) (found bool, err error) {
	body, err := t.shared.Read(ctx, b, identity)
	if err == nil && body != nil {
		var release func()
		if release, err = t.slot(ctx); err != nil {
			return false, err
		}
		defer release()
		err = body(take)
	}
	if err != nil && ctx.Err() == nil {
		said.add(err)
		return false, nil
	}
	return err == nil && body != nil, ctx.Err()
}

// share puts a day into the bucket that was read from the source. Where another process was faster, its segment is
// used.
func (t *Timeline) share(ctx context.Context, state snapshots.State, e *entry, identity string, work *tally) (*entry,
	error) {
	date := e.day.Date
	won, err := t.offer(ctx, e.known, segmentOf(date), identity, func() []byte { return encode(e.day, t.names) })
	if err != nil || won {
		return e, err
	}
	if theirs, err := t.fromBucket(ctx, state, date, identity, work); theirs != nil || err != nil {
		return theirs, err
	}
	return e, nil
}

// offer puts a blob into the bucket for others. The answer does not depend on it: the health check reports what fails.
// won is false if another process' is there.
func (t *Timeline) offer(ctx context.Context, known snapshots.Known, b keep.Blob, identity string,
	body func() []byte) (won bool, err error) {
	won, err = t.put(ctx, known, b, identity, body)
	return won || err != nil, ctx.Err()
}

// put puts a blob into the bucket unless it is there. Errors: snapshots.ErrStale if the day's rows are not the known
// ones any more: rows that were edited while they were read are not what their identity says; what Look or the bucket
// says; ctx's.
func (t *Timeline) put(ctx context.Context, known snapshots.Known, b keep.Blob, identity string,
	body func() []byte) (won bool, err error) {
	now, err := t.source.Look(ctx)
	if err != nil {
		return false, err
	}
	if holds, err := now.Holds(ctx, b.Date, known); err != nil || !holds {
		return false, cmp.Or(err, snapshots.ErrStale)
	}
	return t.shared.Write(ctx, b, identity, body())
}

// shareGrown shares a day that this process saw grow, once it is finished.
func (t *Timeline) shareGrown(ctx context.Context, state snapshots.State, e *entry) error {
	if !e.growing {
		return nil
	}
	identity, err := t.identity(ctx, state, e.day.Date)
	if identity == "" || err != nil {
		return err
	}
	e.growing = false
	_, err = t.offer(ctx, e.known, segmentOf(e.day.Date), identity, func() []byte { return encode(e.day, t.names) })
	return err
}

// usageFromBucket takes the usage of a day out of the bucket, and keeps it on disk; nil if it is not there, or not
// believed.
func (t *Timeline) usageFromBucket(ctx context.Context, state snapshots.State, d *Day, said *remarks) (*usageEntry,
	error) {
	if t.shared == nil || d.identity == "" {
		return nil, nil
	}
	e := &usageEntry{gpus: d.gpuNumbers(), known: snapshots.Known{Key: d.key, State: state}}
	found, err := t.fetch(ctx, usageOf(d.Date), d.identity, said, func(encoded []byte) (err error) {
		if e.block, err = usage.Decode(encoded, d.GPUs(), len(d.Times)); err == nil && t.disk != nil {
			t.disk.Write(usageOf(d.Date), about{d.key, d.identity}, encoded)
		}
		return err
	})
	if !found || err != nil {
		return nil, err
	}
	return e, nil
}

// shareUsage puts the usage of a day into the bucket that was read from the source in a state of it.
func (t *Timeline) shareUsage(ctx context.Context, state snapshots.State, d *Day, b *usage.Block) error {
	if t.shared == nil || d.identity == "" {
		return nil
	}
	identity, err := t.identity(ctx, state, d.Date)
	if err != nil || identity != d.identity { // the segment is of other rows
		return err
	}
	_, err = t.offer(ctx, snapshots.Known{Key: d.key, State: state}, usageOf(d.Date), identity, b.Encode)
	return err
}
