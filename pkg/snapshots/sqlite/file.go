package sqlite

import (
	"context"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// file implements months.File.
type file struct {
	dir   *snapshots.Dir
	name  string
	plain bool

	disordered atomic.Bool // a row is too far behind one before it

	mu       sync.Mutex
	handle   *handle   // nil: closed
	last     *content  // of the last look that succeeded
	stale    bool      // something changed since
	edits    uint64    // of the contents so far
	lockedAt time.Time // when a look last had waited for a writer in vain,
	waitedAt time.Time // and when it last had, or had in a hurry
	close    *time.Timer
}

// Look implements months.File.
func (f *file) Look(ctx context.Context, newest bool) (months.Content, error) {
	asked := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.open(newest); err != nil {
		return nil, f.explain(err)
	}
	if f.waitedAt.After(asked) { // who waited meanwhile has waited for the writer too
		return nil, f.explain(errLocked)
	}
	c, err := f.lookUnlocked(ctx)
	if err != nil && !f.handle.immutable && isReadOnly(err) && ctx.Err() == nil && f.inWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		if err = f.reopen(true); err == nil {
			f.handle.warning = f.name + " is in WAL mode in a directory that the plugin may not write: rows that the " +
				"collector has not yet moved into the file are not seen. Let the plugin's user write the directory, or use " +
				"another journal mode"
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
	info, err := f.dir.Root().Stat(f.name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
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
	case !h.immutable, stampOf(info) == stampOf(h.info) && (h.warning != "" || !newest && f.unchanging(info)):
		return nil
	}
	return f.openAs(info, !newest && f.unchanging(info))
}

func (f *file) openAs(info os.FileInfo, immutable bool) error {
	f.retire()
	h, err := openHandle(f.dir.Join(f.name), info, immutable)
	if err != nil {
		return err
	}
	f.handle, f.stale = h, true
	return nil
}

func (f *file) reopen(immutable bool) error { return f.openAs(f.handle.info, immutable) }

func (f *file) retire() {
	if f.handle != nil {
		f.handle.retire()
		f.handle = nil
	}
}

// unchanging reports whether nothing writes to the file: it is old, and SQLite left no journal or log beside it.
func (f *file) unchanging(info os.FileInfo) bool {
	return time.Since(info.ModTime()) >= settled && f.dir.Size(f.name+"-wal") == 0 && f.dir.Size(f.name+"-journal") == 0
}

// closeLater closes the connection that looks once nobody has looked for a while; the pool closes the others.
func (f *file) closeLater() {
	if f.close == nil {
		f.close = time.AfterFunc(idle, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.handle != nil {
				f.handle.unwatch()
			}
		})
	}
	f.close.Reset(idle)
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

// lookUnlocked looks at the file, and waits for a writer that holds it: but not each time as long when one does so for
// longer.
func (f *file) lookUnlocked(ctx context.Context) (*content, error) {
	const patience = 500 * time.Millisecond
	hurried := time.Since(f.lockedAt) < busyTimeout
	limited := ctx
	if hurried {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	c, err := f.look(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = errLocked
	case !isLocked(err):
		return c, err
	case !hurried:
		f.lockedAt = time.Now()
	}
	f.waitedAt = time.Now()
	return c, err
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

// inWAL reports whether the file's header says WAL mode and no rollback journal waits beside it.
func (f *file) inWAL() bool {
	file, err := f.dir.Root().Open(f.name)
	if err != nil {
		return false
	}
	defer file.Close()
	var header [20]byte // https://sqlite.org/fileformat2.html: 18 and 19 are the write and read versions
	_, err = io.ReadFull(file, header[:])
	return err == nil && header[18] == 2 && header[19] == 2 && f.dir.Size(f.name+"-journal") == 0
}
