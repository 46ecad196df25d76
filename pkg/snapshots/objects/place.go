// Package objects reads the snapshots of a pool from a bucket (methodology section 1), in Parquet: month files
// gpu_state_YYYY-MM.parquet as collectors write them into a directory, or days date=YYYY-MM-DD/….parquet, which other
// programs read as one table with a partition a day. The snapshots of the current day are objects of their own,
// new/date=YYYY-MM-DD/….parquet, until they are merged into its day. Only the objects that a day needs are read.
package objects

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/memory"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// The layouts: month files, days, and snapshots of days that are not merged yet.
const (
	monthPrefix = "gpu_state_"
	dayPrefix   = "date="
	newPrefix   = "new/date="
)

var dayObject = regexp.MustCompile(`^(new/)?date=(\d{4}-\d{2}-\d{2})/(.+)\.parquet$`)

// Open returns the source of a bucket's snapshots. zone is the collector's. The bucket stays open.
func Open(b *bucket.Bucket, zone *localtime.Zone) snapshots.Source {
	return months.NewAt(newPlace(b, zone), zone)
}

func newPlace(b *bucket.Bucket, zone *localtime.Zone) *place {
	ends := memory.New(pool.MostObject, func(_ string, end []byte) int { return len(end) })
	return &place{bucket: b, zone: zone, ends: ends, turn: semaphore.NewWeighted(1)}
}

// place implements months.Place.
type place struct {
	bucket  *bucket.Bucket
	zone    *localtime.Zone
	objects atomic.Pointer[map[string]bucket.Object] // the last listing, by key

	// ends has the last bytes of objects that were read, some of them whole, by id: the current day is read repeatedly.
	ends memory.Cache[string, []byte]

	turn   *semaphore.Weighted // who lists, and uses what follows
	begun  time.Time           // when the last listing began
	listed []months.Listed
	err    error
}

// List implements months.Place. Concurrent calls share a listing, if it begins after the calls.
func (p *place) List(ctx context.Context) ([]months.Listed, error) {
	asked := time.Now()
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.turn.Release(1)
	if p.begun.After(asked) {
		return p.listed, p.err
	}
	begun := time.Now()
	objects, err := p.list(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err() // no call shares this one
	}
	p.begun, p.listed, p.err = begun, nil, err
	if err == nil {
		p.listed, p.err = p.take(objects)
	}
	return p.listed, p.err
}

// list asks for the objects of all layouts, snapshots first: one that is merged in the meantime is in its day then.
func (p *place) list(ctx context.Context) (objects []bucket.Object, err error) {
	err = p.bucket.Breaker.Ask(ctx, func(ctx context.Context) error {
		for _, prefix := range []string{newPrefix, monthPrefix, dayPrefix} {
			found, err := p.bucket.List(ctx, prefix)
			if err != nil {
				return err
			}
			objects = append(objects, found...)
		}
		return nil
	})
	return objects, offline(err)
}

// object returns the object of a key, as it was listed last.
func (p *place) object(key string) (o bucket.Object, ok bool) {
	if now := p.objects.Load(); now != nil {
		o, ok = (*now)[key]
	}
	return o, ok
}

// offline marks an error that says that the bucket cannot be reached; objects that are others by now are stale.
func offline(err error) error {
	switch {
	case errors.Is(err, bucket.ErrUnreachable):
		return &months.Offline{Err: err}
	case errors.Is(err, bucket.ErrPrecondition), errors.Is(err, bucket.ErrNotFound):
		return snapshots.ErrStale
	}
	return err
}

// take replaces the listing, and forgets the ends of objects that are gone.
func (p *place) take(objects []bucket.Object) (all []months.Listed, err error) {
	now, ids := make(map[string]bucket.Object, len(objects)), map[string]bool{}
	for _, o := range objects {
		if listed, ok := p.describe(o); ok {
			now[o.Key], ids[version{o}.id()] = o, true
			all = append(all, listed)
		}
	}
	for id := range p.ends.All() {
		if !ids[id] {
			p.ends.Invalidate(id)
		}
	}
	p.objects.Store(&now)
	if len(all) == 0 {
		return nil, pool.SourceError("no month file gpu_state_YYYY-MM.parquet and no day date=YYYY-MM-DD/….parquet in the "+
			"bucket %s: check the setting snapshotBucket and that the collector runs", p.bucket.Name())
	}
	return all, nil
}

// describe derives the description of an object from its key; ok is false for objects without snapshots.
func (p *place) describe(o bucket.Object) (l months.Listed, ok bool) {
	key := o.Key
	grows, times := false, (*months.Stretch)(nil)
	l.Name = strings.ReplaceAll(key, " ", "%20") // keys of days have spaces between their fields
	l.Open = func() months.File { return parquet.NewFile(l.Name, grows, times, &object{p, key}, p.zone) }
	if month, format, ok := snapshots.ParseMonthFile(key); ok {
		l.Period, grows = month, true
		return l, format == "db" || format == parquet.Format.Extension
	}
	found := dayObject.FindStringSubmatch(key)
	if found == nil || strings.Contains("/"+found[3], "/.") || strings.Contains("/"+found[3], "/_") {
		return l, false // includes unfinished objects of other programs, whose names begin so
	}
	l.Period, l.Rank, l.Snapshot = found[2], 1, found[1] != ""
	if l.First, l.Last, ok = timesOf(found[2], found[3], l.Snapshot); ok {
		l.Version = version{o}.tag()
		times = &months.Stretch{First: l.First, Last: l.Last}
	}
	return l, true
}

// timesOf returns between which local times the rows of an object are: on its date, those of a snapshot at the
// timestamp that its key ends with. ok is false if the key does not say so.
func timesOf(date, rest string, snapshot bool) (first, last months.Local, ok bool) {
	begin, err := time.Parse(time.DateOnly, date)
	if !snapshot || err != nil {
		return begin.UnixMicro(), begin.UnixMicro() + pool.Day - 1, err == nil
	}
	_, stamp, _ := strings.Cut(rest, "-")
	at, err := time.Parse("20060102T150405.000000", stamp)
	return at.UnixMicro(), at.UnixMicro(), err == nil && at.Format(time.DateOnly) == date
}

func (p *place) Close() error { return nil }

// CacheName returns a name for the cached data of one bucket, different from those of others in the same cache
// directory, and of data sources that may read other objects of it.
func CacheName(o bucket.Options, zone *localtime.Zone) string { return keyOf(o, zone.Key()) }

// keyOf makes the key of what is kept of a bucket.
func keyOf(o bucket.Options, more ...string) string {
	return segcache.Key(append([]string{o.Organization, o.Endpoint, o.Name(), o.CA, o.AccessKey, o.SecretKey}, more...)...)
}
