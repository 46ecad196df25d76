// Package timeline turns the snapshots of a source into spans per GPU, a segment (Day) a UTC day, keeps them in memory
// and on disk, and forms slices and coverage of them. It knows nothing of files, formats and the collector's time.
package timeline

import (
	"errors"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Options define the source of a timeline and where it is kept.
type Options struct {
	Source   snapshots.Source // closed with the timeline
	MaxBytes int64            // memory for segments and usage

	// CacheDir keeps finished days across restarts; "": in memory only. CacheName tells sources of a directory apart.
	CacheDir, CacheName string
	MaxDiskBytes        int64

	// Bucket shares data derived from finished days with other processes; nil if there is none. Closed with the timeline.
	Bucket *bucket.Bucket
}

// Timeline serves views of a pool's snapshots. It is safe for concurrent use.
type Timeline struct {
	Source snapshots.Source // closed with the timeline
	Names  *Names           // the texts of all views
	Shared *segcache.Shared // where other processes find finished days; nil without a bucket

	cache     *dayCache
	diskError error // why there is no cache directory although one is set
	segments  *artifact[*Day]
	usages    *artifact[*Usage]
	busy      atomic.Int64 // loads under way
}

// New returns a timeline, without reading. If the cache directory cannot be used, CacheError says why.
func New(o Options) *Timeline {
	t := &Timeline{Source: o.Source, Names: NewNames()}
	o.Source.Limit(max(o.MaxBytes, pool.LeastReading))
	var disk *segcache.Disk
	if o.CacheDir != "" {
		disk, t.diskError = segcache.OpenDisk(o.CacheDir, o.CacheName, o.MaxDiskBytes)
	}
	if o.Bucket != nil {
		t.Shared = segcache.NewShared(o.Bucket)
	}
	t.cache = newDayCache(o.Source, o.MaxBytes, disk, t.Shared)
	t.segments = &artifact[*Day]{dayCache: t.cache, kind: "segment", version: 14, resumable: true,
		encode: func(d *Day) []byte { return encode(d, t.Names) }}
	t.usages = &artifact[*Usage]{dayCache: t.cache, kind: "usage", version: 7,
		encode: func(u *Usage) []byte { return writeParts(u.stored()) }}
	return t
}

// CacheReplaced reports whether another directory, or none, is where the cache was opened.
func (t *Timeline) CacheReplaced() bool { return t.cache.disk != nil && t.cache.disk.Replaced() }

// Close closes everything that is open. Loads under way end with an error.
func (t *Timeline) Close() error {
	err := t.cache.source.Close()
	if t.Shared != nil {
		t.Shared.Bucket.Close()
	}
	if t.cache.disk != nil {
		err = errors.Join(err, t.cache.disk.Close())
	}
	return err
}

// CacheError says why the cache directory cannot be used, or the last write to it failed; nil when all is well.
func (t *Timeline) CacheError() error {
	if t.cache.disk == nil {
		return t.diskError
	}
	return t.cache.disk.Err()
}

// Memory returns the bytes of the segments that are held, and the budget.
func (t *Timeline) Memory() (used, budget int64) {
	return int64(t.cache.memory.WeightedSize()), int64(t.cache.memory.GetMaximum())
}
