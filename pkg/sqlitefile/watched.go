package sqlitefile

import (
	"context"
	"database/sql"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// Watched is a file that is read again and again while another program writes it. It is safe for concurrent use.
type Watched struct {
	File
	readers int // connections that read rows, in addition to the one that watches

	lock     chan struct{} // holds a token while a look is under way; it guards everything below
	handle   *Handle       // nil: closed
	dirty    bool          // something changed since the last look that succeeded
	seen     traces        // before that look
	stamp    Stamp         // after it
	lockedAt time.Time     // when a look last had waited in vain for BusyTimeout for a writer,
	waitedAt time.Time     // and when it last had, or had for less
	idle     *time.Timer   // closes the connection that watches
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

// traces are the stamps of a file, and of SQLite's log and journal next to it.
type traces struct {
	stamps [3]Stamp
	at     time.Time
}

// clockStep is how exact the times of files are: a file that was modified just before a look may have been modified
// again within the same step of the file system's clock.
const clockStep = 2 * time.Second

// recent reports whether one of the first n files was written to so shortly before that its stamp need not show a later
// write.
func (t traces) recent(n int) bool {
	return slices.ContainsFunc(t.stamps[:n], func(s Stamp) bool { return t.at.Sub(time.Unix(0, s.Modified)) <= clockStep })
}

// Watch returns the file, not opened yet. readers bounds the connections that read rows.
func (f File) Watch(readers int) *Watched {
	return &Watched{File: f, readers: readers, lock: make(chan struct{}, 1)}
}

// Look is the state of a file as found before reading it.
type Look struct {
	*Handle
	Changed   bool  // something may have been committed since the last look whose reading succeeded
	File, Log Stamp // of the file and of its write-ahead log
	Recent    bool  // they are so new that a later write need not show in them
}

// Look calls read with the file that is under the name now, one look at a time. settled means that no program is
// expected to write to the file, for example because a later month has one: a settled file that is old is opened as
// immutable.
func (w *Watched) Look(ctx context.Context, settled bool, read func(context.Context, Look) error) error {
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
			w.handle.Warning = w.Unshared()
			err = look(ctx)
		}
	}
	if err == nil {
		w.closeLater()
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
	if w.idle != nil {
		w.idle.Stop()
		w.idle = nil
	}
}

// open opens the file under the name, unless it is open already in a way that is still right.
func (w *Watched) open(settled bool) error {
	info, err := w.Stat()
	if err != nil {
		w.retire()
		return err
	}
	immutable := settled && time.Since(info.ModTime()) >= Settled && // it is old, and there is no journal or log of it
		w.size("-wal") == 0 && w.size("-journal") == 0
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

func (w *Watched) look(ctx context.Context, read func(context.Context, Look) error) error {
	now := w.traces()
	changed, err := w.changed(ctx, now)
	if err != nil {
		return err
	}
	w.dirty = w.dirty || changed // until a look succeeds
	if err := read(ctx, Look{w.handle, w.dirty, now.stamps[0], now.stamps[1], now.recent(2)}); err != nil {
		return err
	}
	w.dirty, w.seen, w.stamp = false, now, now.stamps[0]
	if changed { // a commit that was under way wrote to the file before it could be read
		w.stamp = w.stampOf(w.Name)
	}
	return nil
}

// changed reports whether anything may have been committed since the last look. The connection that watches sees each
// commit of others as another data_version, even in WAL mode. If that connection was closed in the meantime, the traces
// of writing decide.
func (w *Watched) changed(ctx context.Context, now traces) (bool, error) {
	h := w.handle
	watched := h.Conn != nil
	if !watched {
		conn, err := h.DB.Conn(ctx)
		if err != nil {
			return true, err
		}
		h.Conn = conn
	}
	version, err := h.Version(ctx)
	if err != nil {
		h.unwatch()
		w.seen = traces{}
		return true, err
	}
	committed := version != h.version
	h.version = version
	if watched {
		return committed || now.stamps[0] != w.stamp, nil
	}
	return now.stamps != w.seen.stamps || w.seen.recent(len(now.stamps)), nil
}

// Version returns a number that changes with each commit of others, for use during a look.
func (h *Handle) Version(ctx context.Context) (version int64, err error) {
	err = h.Conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version)
	return version, err
}

// traces returns the stamps that a writer would change.
func (w *Watched) traces() traces {
	now := traces{at: time.Now()}
	for i, suffix := range []string{"", "-wal", "-journal"} {
		now.stamps[i] = w.stampOf(w.Name + suffix)
	}
	return now
}

func (w *Watched) stampOf(name string) Stamp {
	info, err := w.Root.Stat(name)
	if err != nil {
		return Stamp{}
	}
	return stampOf(info)
}

func stampOf(info os.FileInfo) Stamp {
	return Stamp{info.Size(), info.ModTime().UnixNano(), inodeOf(info)}
}

// closeLater closes the connection that watches once there has been no look for a while; the pool closes the others.
func (w *Watched) closeLater() {
	if w.idle == nil {
		w.idle = time.AfterFunc(Idle, func() {
			w.lock <- struct{}{}
			defer func() { <-w.lock }()
			if w.handle != nil {
				w.handle.unwatch()
			}
		})
	}
	w.idle.Reset(Idle)
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
