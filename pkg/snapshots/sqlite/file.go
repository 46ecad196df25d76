package sqlite

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// file implements months.File.
type file struct {
	dir   *snapshots.Dir
	name  string
	on    sqlitefile.File
	plain bool

	disordered atomic.Bool // a row is too far behind one before it

	mu       sync.Mutex
	handle   *handle  // nil: closed
	last     *content // of the last look that succeeded
	stale    bool     // something changed since
	edits    uint64   // of the contents so far
	patience sqlitefile.Patience
	close    *time.Timer
}

func newFile(dir *snapshots.Dir, name string, plain bool) *file {
	on := sqlitefile.File{Root: dir.Root(), Dir: dir.Path(), Name: name, Writer: "the collector"}
	return &file{dir: dir, name: name, on: on, plain: plain}
}

// Look implements months.File.
func (f *file) Look(ctx context.Context, newest bool) (months.Content, error) {
	asked := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(newest); err != nil {
		return nil, f.explain(err)
	}
	if err := f.patience.Lost(asked); err != nil {
		return nil, f.explain(err)
	}
	var c *content
	err := f.patience.Look(ctx, func(ctx context.Context) (err error) {
		c, err = f.look(ctx)
		return err
	})
	if err != nil && !f.handle.immutable && sqlitefile.IsReadOnly(err) && ctx.Err() == nil && f.on.InWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		if err = f.reopen(true); err == nil {
			f.handle.warning = f.on.Unshared()
			c, err = f.look(ctx)
		}
	}
	if err != nil {
		return nil, f.explain(err)
	}
	f.closeLater()
	return c, nil
}

// open opens what is under the name now, unless it is open already in a way that is still right.
func (f *file) open(newest bool) error {
	info, err := f.on.Stat()
	if err != nil {
		f.retire()
		f.last = nil
		return err
	}
	switch h := f.handle; {
	case h == nil:
	case !os.SameFile(info, h.info):
		f.last = nil // another file: nothing of it is known
		f.disordered.Store(false)
	case !h.immutable, stampOf(info) == stampOf(h.info) && (h.warning != "" || !newest && f.on.Unchanging(info)):
		return nil
	}
	return f.openAs(info, !newest && f.on.Unchanging(info))
}

func (f *file) openAs(info os.FileInfo, immutable bool) error {
	f.retire()
	db, err := f.on.Open(readers+1, immutable)
	if err != nil {
		return err
	}
	f.handle, f.stale = &handle{db: db, info: info, immutable: immutable}, true
	return nil
}

func (f *file) reopen(immutable bool) error { return f.openAs(f.handle.info, immutable) }

func (f *file) retire() {
	if f.handle != nil {
		f.handle.retire()
		f.handle = nil
	}
}

// closeLater closes the connection that looks once nobody has looked for a while; the pool closes the others.
func (f *file) closeLater() {
	if f.close == nil {
		f.close = time.AfterFunc(sqlitefile.Idle, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.handle != nil {
				f.handle.unwatch()
			}
		})
	}
	f.close.Reset(sqlitefile.Idle)
}

// Close implements months.File.
func (f *file) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retire()
	if f.close != nil {
		f.close.Stop()
		f.close = nil
	}
}

// traces returns what a writer would change.
func (f *file) traces() traces {
	stat := func(name string) stamp {
		info, err := f.dir.Root().Stat(name)
		if err != nil {
			return stamp{}
		}
		return stampOf(info)
	}
	now := time.Now()
	return traces{stat(f.name), stat(f.name + "-wal"), stat(f.name + "-journal"), now}
}

func stampOf(info os.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), inodeOf(info)} }
