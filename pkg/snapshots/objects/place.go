// Package objects reads the snapshots of a pool from a bucket (methodology section 1), in Parquet: month files
// gpu_state_YYYY-MM.parquet as collectors write them into a directory, or days date=YYYY-MM-DD/….parquet, which other
// programs read as one table with a partition a day. The snapshots of the running day are objects of their own,
// new/date=YYYY-MM-DD/….parquet, until they are merged into its day. Only what a day needs is read.
package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
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

// Open returns the source of a bucket's snapshots. zone is the collector's. The bucket stays open. What it listed is
// kept in a directory for the next process; "" keeps nothing.
func Open(b *bucket.Bucket, zone *localtime.Zone, dir string) snapshots.Source {
	return months.NewAt(&place{bucket: b, turn: make(chan struct{}, 1), ends: map[string][]byte{},
		footers: footers{dir: dir, byETag: map[string][]byte{}}}, zone)
}

// place implements months.Place.
type place struct {
	bucket *bucket.Bucket

	turn chan struct{} // 1 token: who lists

	mu       sync.Mutex
	begun    int // listings that have begun
	objects  map[string]bucket.Object
	listed   []months.Listed
	listedAt time.Time
	err      error             // of the last listing
	ends     map[string][]byte // of objects by ETag; small ones as a whole
	kept     int64             // bytes of them
	footers  footers
}

var _ months.Recalling = (*place)(nil)

// List implements months.Place. Many that ask at the same time share a listing, if it begins after they asked.
func (p *place) List(ctx context.Context) ([]months.Listed, error) {
	asked := p.number()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.number() > asked { // one began after the call, and ended
		return p.listed, p.err
	}
	p.mu.Lock()
	p.begun++
	p.mu.Unlock()
	objects, err := p.list(ctx)
	if ctx.Err() != nil {
		p.mu.Lock()
		p.begun-- // nobody shares this one
		p.mu.Unlock()
		return nil, ctx.Err()
	}
	var all []months.Listed
	if err == nil {
		all, err = p.take(objects)
	}
	p.listed, p.err = all, err
	return all, err
}

func (p *place) number() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// list asks for the objects of all layouts. Snapshots come first: one that is merged meanwhile is in its day then.
func (p *place) list(ctx context.Context) (objects []bucket.Object, err error) {
	prefixes := []string{monthPrefix, dayPrefix}
	found := make([][]bucket.Object, len(prefixes))
	err = p.bucket.Patience().Ask(ctx, func(ctx context.Context) (err error) {
		if objects, err = p.bucket.List(ctx, newPrefix); err != nil {
			return err
		}
		group, inner := parallel.WithContext(ctx)
		for i, prefix := range prefixes {
			group.Go(func() (err error) {
				found[i], err = p.bucket.List(inner, prefix)
				return err
			})
		}
		return group.Wait()
	})
	if err != nil {
		return nil, offline(err)
	}
	return append(objects, slices.Concat(found...)...), nil
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

// take takes over a listing.
func (p *place) take(objects []bucket.Object) (all []months.Listed, err error) {
	now := make(map[string]bucket.Object, len(objects))
	there := map[string]bool{} // ETags
	for _, o := range objects {
		listed, ok := p.describe(o)
		if !ok {
			continue
		}
		now[o.Key], there[o.ETag] = o, true
		all = append(all, listed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.footers.restore()
	p.footers.only(there)
	p.footers.changed = p.footers.changed || !maps.Equal(p.objects, now)
	p.objects, p.listedAt = now, time.Now()
	for etag, data := range p.ends {
		if !there[etag] {
			delete(p.ends, etag)
			p.kept -= int64(len(data))
		}
	}
	if len(all) == 0 {
		return nil, pool.SourceError("no month file gpu_state_YYYY-MM.parquet and no day date=YYYY-MM-DD/….parquet in the "+
			"bucket %s: check the setting snapshotBucket and that the collector runs", p.bucket.Name())
	}
	return all, nil
}

// describe says what an object is by its key; ok is false for what holds no snapshots.
func (p *place) describe(o bucket.Object) (l months.Listed, ok bool) {
	key := o.Key
	l.Name = strings.ReplaceAll(key, " ", "%20") // keys of days have spaces between their fields
	if month, format, ok := snapshots.ParseMonthFile(key); ok {
		l.Period = month
		l.Open = func() months.File { return parquet.NewFile(l.Name, true, &object{p, key}) }
		if format != parquet.Format.Extension {
			l.Open = func() months.File { return otherFormat{l.Name} }
		}
		return l, format == "db" || format == parquet.Format.Extension
	}
	found := dayObject.FindStringSubmatch(key)
	if found == nil {
		return l, false
	}
	l.Period, l.Rank, l.Snapshot = found[2], 1, found[1] != ""
	if l.First, l.Last, ok = timesOf(found[2], found[3], l.Snapshot); !ok {
		l.Open = func() months.File { return parquet.NewFile(l.Name, false, &object{p, key}) }
		return l, true
	}
	l.Version = version{o}.Tag()
	l.Open = func() months.File { return parquet.NewPart(l.Name, l.First, l.Last, &object{p, key}) }
	return l, true
}

// timesOf returns between which local times the rows of an object are: on its date, those of a snapshot at the
// timestamp that its key ends with. ok is false where the key does not say so.
func timesOf(date, rest string, snapshot bool) (first, last months.Local, ok bool) {
	begin, err := time.Parse(time.DateOnly, date)
	if !snapshot || err != nil {
		return begin.UnixMicro(), begin.UnixMicro() + pool.Day - 1, err == nil
	}
	_, stamp, _ := strings.Cut(rest, "-")
	at, err := time.Parse("20060102T150405.000000", stamp)
	return at.UnixMicro(), at.UnixMicro(), err == nil && at.Format(time.DateOnly) == date
}

// Close implements months.Place.
func (p *place) Close() error { return nil }

// otherFormat is a month file that cannot be read in a bucket.
type otherFormat struct{ name string }

// Look implements months.File.
func (o otherFormat) Look(context.Context, bool) (months.Content, error) {
	return nil, pool.SourceError("%s is SQLite, which is not read from a bucket: convert it with `gpureports convert`, "+
		"put the Parquet file into the bucket, and remove this one", o.name)
}

// Close implements months.File.
func (otherFormat) Close() {}

// CacheName tells apart what is kept of one bucket from what is kept of others in the same cache directory.
func CacheName(o bucket.Options, zone *localtime.Zone) string {
	return fmt.Sprintf("%s\x00%s\x00%s", o.Endpoint, o.Name(), zone.Key())
}
