// Package timeline turns the snapshots of a source into spans per GPU, a segment (Day) a UTC day, keeps them in memory
// and on disk, and forms slices and coverage of them. It knows nothing of files, formats and the collector's time.
package timeline

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/fresh"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// Options say what a timeline is made from and where it is kept.
type Options struct {
	Source   snapshots.Source // closed with the timeline
	MaxBytes int64            // memory for segments and usage

	// CacheDir keeps the segments of finished days over restarts; "" keeps them in memory only. CacheName distinguishes
	// sources apart that share a directory.
	CacheDir, CacheName string
	MaxDiskBytes        int64

	// Bucket shares what is made of finished days with other processes; nil: it is not shared. Closed with the timeline.
	Bucket *bucket.Bucket
}

// Timeline serves views of a pool's snapshots. It is safe for concurrent use.
type Timeline struct {
	source    snapshots.Source
	names     *Names
	memory    *keep.Memory[keep.Blob, kept]
	disk      *keep.Disk    // nil without a cache directory
	diskError error         // why there is none though it was asked for
	shared    *keep.Shared  // nil without a bucket
	slots     chan struct{} // bounds the days that are read at once
	busy      atomic.Int64  // loads under way
	seen      fresh.Seen[snapshots.State]

	lock sync.Mutex
	last snapshots.State // of the last look: what was edited since is dropped from disk
}

// New returns a timeline. Nothing is read yet. Without a cache directory that can be used, CacheError says why, and
// segments are kept in memory only.
func New(o Options) *Timeline {
	t := &Timeline{source: o.Source, names: NewNames(), slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	t.memory = keep.NewMemory[keep.Blob](o.MaxBytes, kept.bytes)
	if o.CacheDir != "" {
		t.disk, t.diskError = keep.OpenDisk(o.CacheDir, o.CacheName, o.MaxDiskBytes)
	}
	if o.Bucket != nil {
		t.shared = keep.NewShared(o.Bucket)
	}
	return t
}

// Source returns what the timeline is made from.
func (t *Timeline) Source() snapshots.Source { return t.source }

// CacheReplaced reports whether another directory, or none, is where the cache was opened.
func (t *Timeline) CacheReplaced() bool { return t.disk != nil && t.disk.Replaced() }

// Close closes everything that is open. Loads under way end with an error.
func (t *Timeline) Close() error {
	if t.shared != nil {
		t.shared.Close()
	}
	if t.disk != nil {
		return errors.Join(t.source.Close(), t.disk.Close())
	}
	return t.source.Close()
}

// Names returns the texts of the timeline.
func (t *Timeline) Names() *Names { return t.names }

// CacheError says why the cache directory cannot be used, or the last write to it failed; nil when all is well.
func (t *Timeline) CacheError() error {
	if t.disk == nil {
		return t.diskError
	}
	return t.disk.Err()
}

// Shared returns what is shared with other processes; nil: nothing is.
func (t *Timeline) Shared() *keep.Shared { return t.shared }

// Memory returns the bytes of the segments that are held, and the budget.
func (t *Timeline) Memory() (used, budget int64) { return t.memory.Used() }
