package sqlitefile

import (
	"context"
	"database/sql"
	"os"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/files"
)

// Watched is a file that is read again and again while another program writes it. It is safe for concurrent use.
type Watched struct {
	File
	readers int // connections that read rows, in addition to the one that watches

	lock     chan struct{} // a look puts a token into it; it guards everything below
	handle   *Handle       // nil: closed
	dirty    bool          // something changed since the last look that succeeded
	stamp    Stamp         // after that look
	lockedAt time.Time     // when a look last had waited in vain for BusyTimeout for a writer,
	waitedAt time.Time     // and when it last had, or had for less
}

// Handle is an opened file: it stays the same file if another takes its place.
type Handle struct {
	DB      *sql.DB
	Conn    *sql.Conn // the connection that watches, for reading during a look
	Info    os.FileInfo
	Warning string // names the changes that are not seen, "" if all are

	immutable bool // SQLite neither locks the file nor looks for changes
	version   int64
	retired   atomic.Bool
}

// Retired reports whether the handle is closed, or about to be: errors of its reads say nothing about the file.
func (h *Handle) Retired() bool { return h.retired.Load() }

// Stamp changes when a program writes to a file.
type Stamp struct {
	Size     int64
	Modified int64 // Unix nanoseconds
	Inode    uint64
}

// clockStep is how exact the times of files are: a file that was modified just before a look may have been modified
// again within the same step of the file system's clock.
const clockStep = 2 * time.Second

// Watch returns the file, not opened yet. readers bounds the connections that read rows.
func (f File) Watch(readers int) *Watched {
	return &Watched{File: f, readers: readers, lock: make(chan struct{}, 1)}
}

// Found is the state of a file that a look found before it was read.
type Found struct {
	*Handle
	Changed   bool  // something may have been committed since the last look whose reading succeeded
	File, Log Stamp // stamps of the file and of its write-ahead log
	Recent    bool  // they are so new that a later write need not show in them
}

// Look calls read with the file that is under the name now, one look at a time. settled means that no program is
// expected to write to the file, for example because a later month has one: a settled file that is old is opened as
// immutable.
func (w *Watched) Look(ctx context.Context, settled bool, read func(context.Context, Found) error) error {
	asked := time.Now()
	select {
	case w.lock <- struct{}{}:
		defer func() { <-w.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := w.open(settled); err != nil {
		return err
	}
	if w.waitedAt.After(asked) { // waiting for another look was waiting for the writer as well
		return errLocked
	}
	look := func(ctx context.Context) error { return w.look(ctx, read) }
	err := w.bounded(ctx, look)
	if err != nil && !w.handle.immutable && IsReadOnly(err) && ctx.Err() == nil && w.InWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		if err = w.openAs(w.handle.Info, true); err == nil {
			w.handle.Warning = w.Name + " is in WAL mode in a directory that the plugin cannot write to: rows that " + w.Writer +
				" has not yet moved into the file are not seen. Let the plugin's user write the directory, or use another " +
				"journal mode"
			err = look(ctx)
		}
	}
	return err
}

// bounded bounds how long a look waits for a writer that locks the file: BusyTimeout, but less while a writer that has
// held the lock for that long still holds it. Explain says of the error that the file is locked.
func (w *Watched) bounded(ctx context.Context, look func(context.Context) error) error {
	const soonAfter = 500 * time.Millisecond
	hurried := time.Since(w.lockedAt) < BusyTimeout
	limited := ctx
	if hurried {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, soonAfter)
		defer cancel()
	}
	err := look(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = errLocked
	case !isLocked(err):
		return err
	case !hurried:
		w.lockedAt = time.Now()
	}
	w.waitedAt = time.Now()
	return err
}

// Close closes the file until the next look.
func (w *Watched) Close() {
	w.lock <- struct{}{}
	defer func() { <-w.lock }()
	w.retire()
}

// open opens the file under the name, unless it is open already in a way that is still right.
func (w *Watched) open(settled bool) error {
	info, err := w.Stat()
	if err != nil {
		w.retire()
		return err
	}
	immutable := settled && time.Since(info.ModTime()) >= Settled && // it is old, and there is no journal or log of it
		w.stampOf("-wal").Size == 0 && w.stampOf("-journal").Size == 0
	if h := w.handle; h != nil && os.SameFile(info, h.Info) {
		same := stampOf(info) == stampOf(h.Info)
		if !h.immutable || same && (immutable || h.Warning != "") {
			return nil
		}
	}
	return w.openAs(info, immutable)
}

func (w *Watched) openAs(info os.FileInfo, immutable bool) error {
	w.retire()
	db, err := w.Open(w.readers+1, immutable)
	if err != nil {
		return err
	}
	w.handle = &Handle{DB: db, Info: info, immutable: immutable}
	return nil
}

func (w *Watched) look(ctx context.Context, read func(context.Context, Found) error) error {
	at, file, log := time.Now(), w.stampOf(""), w.stampOf("-wal")
	changed, err := w.changed(ctx, file)
	if err != nil {
		return err
	}
	w.dirty = w.dirty || changed // until a look succeeds
	recent := at.Sub(time.Unix(0, max(file.Modified, log.Modified))) <= clockStep
	if err := read(ctx, Found{w.handle, w.dirty, file, log, recent}); err != nil {
		return err
	}
	w.dirty, w.stamp = false, file
	if changed { // a commit that was under way wrote to the file before it could be read
		w.stamp = w.stampOf("")
	}
	return nil
}

// changed reports whether anything may have been committed since the last look. The connection that watches sees each
// commit of others as another data_version, even in WAL mode.
func (w *Watched) changed(ctx context.Context, now Stamp) (changed bool, err error) {
	h := w.handle
	if h.Conn == nil {
		if h.Conn, err = h.DB.Conn(ctx); err != nil {
			return true, err
		}
		changed = true
	}
	version, err := h.Version(ctx)
	if err != nil {
		h.unwatch()
		return true, err
	}
	changed = changed || version != h.version || now != w.stamp
	h.version = version
	return changed, nil
}

// Version returns a number that changes with each commit of others, for use during a look.
func (h *Handle) Version(ctx context.Context) (version int64, err error) {
	err = h.Conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// stampOf returns the stamp of the file with this one's name and a suffix, zero if it is missing.
func (f File) stampOf(suffix string) Stamp {
	info, err := f.Root.Stat(f.inside() + suffix)
	if err != nil {
		return Stamp{}
	}
	return stampOf(info)
}

func stampOf(info os.FileInfo) Stamp {
	return Stamp{info.Size(), info.ModTime().UnixNano(), files.Inode(info)}
}

// retire closes the connections once the reads under way have ended.
func (w *Watched) retire() {
	if w.handle != nil {
		w.handle.retired.Store(true)
		w.handle.unwatch()
		_ = w.handle.DB.Close() // nothing was written
		w.handle = nil
	}
}

func (h *Handle) unwatch() {
	if h.Conn != nil {
		_ = h.Conn.Close()
		h.Conn = nil
	}
}
