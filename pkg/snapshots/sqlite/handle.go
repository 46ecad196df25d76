package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// handle is a file as it was opened: it stays the same file, whatever is put in its place.
type handle struct {
	db        *sql.DB
	info      os.FileInfo // when it was opened
	immutable bool        // SQLite neither locks it nor looks for changes
	warning   string

	retired atomic.Bool // it is closed, or about to be

	// Used by who looks, one at a time.
	watch       *sql.Conn // the connection whose data_version is compared; nil until the next look
	dataVersion int64
	seen        traces // ahead of the last look
}

// traces are what writing to a file changes, beside it and in its directory.
type traces struct {
	file, wal, journal stamp
	at                 time.Time
}

type stamp struct {
	size     int64
	modified time.Time
	inode    uint64
}

// retire closes the connections once the scans under way have ended.
func (h *handle) retire() {
	h.retired.Store(true)
	h.unwatch()
	_ = h.db.Close() // nothing was written
}

func (h *handle) unwatch() {
	if h.watch != nil {
		_ = h.watch.Close()
		h.watch = nil
	}
}

// changed reports whether anything may have been committed since the last look. The connection that it asks sees each
// commit of others as another data_version, also in WAL mode. Where that connection was closed meanwhile, what writing
// leaves behind decides.
func (h *handle) changed(ctx context.Context, now traces) (bool, error) {
	if h.watch == nil {
		conn, err := h.db.Conn(ctx)
		if err != nil {
			return true, err
		}
		h.watch = conn
		if err := h.version(ctx, &h.dataVersion); err != nil {
			return true, err
		}
		return !now.unchanged(h.seen), nil
	}
	var version int64
	if err := h.version(ctx, &version); err != nil {
		return true, err
	}
	changed := version != h.dataVersion
	h.dataVersion = version
	return changed, nil
}

func (h *handle) version(ctx context.Context, version *int64) error {
	err := h.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(version)
	if err != nil {
		h.unwatch()
		h.seen = traces{}
	}
	return err
}

// File systems keep time in steps: what was modified just before a look may have been modified again.
const steps = 2 * time.Second

// unchanged reports whether nothing was written since the traces were taken.
func (t traces) unchanged(before traces) bool {
	same := func(now, then stamp) bool {
		return now == then && before.at.Sub(then.modified) > steps
	}
	return same(t.file, before.file) && same(t.wal, before.wal) && same(t.journal, before.journal)
}

// witness returns a text of the traces for other processes; "" while a log or a journal lies beside the file, and just
// after a change.
func (t traces) witness(h header) string {
	if t.wal.size > 0 || t.journal.size > 0 || t.at.Sub(t.file.modified) <= steps {
		return ""
	}
	return fmt.Sprintf("%d-%d-%d-%d", t.file.size, t.file.modified.UnixNano(), t.file.inode, h.commits)
}
