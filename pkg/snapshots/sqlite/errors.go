package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

var (
	errNoTable = errors.New("it has no table gpu_state")
	errNoFile  = errors.New("it is no regular file")
	errLocked  = errors.New("it is locked")
	errCircle  = errors.New("rows do not follow each other") // SQLite itself would go round in a damaged tree for ever
)

// explain makes an error of a file fit for a user.
func (f *file) explain(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, snapshots.ErrStale) {
		return err
	}
	switch code, primary := codeOf(err); {
	case errors.Is(err, fs.ErrPermission), primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_AUTH:
		return pool.SourceError("%s may not be read: give the user that runs Grafana the right to read it", f.name)
	case errors.Is(err, fs.ErrNotExist):
		return pool.SourceError("%s was removed while it was read: try again", f.name)
	case isPathEscape(err):
		return pool.SourceError("%s is a link that leads out of the snapshot directory: links must stay inside", f.name)
	case isLocked(err), errors.Is(err, errLocked):
		return pool.SourceError("%s is locked by a writer for more than %s: the collector should write in WAL mode or "+
			"commit sooner",
			f.name, busyTimeout)
	case code == sqlite3.SQLITE_READONLY_ROLLBACK, primary == sqlite3.SQLITE_CANTOPEN && f.dir.Size(f.name+"-journal") > 0:
		return pool.SourceError("%s has a hot journal: its writer died in a transaction. Let the collector run once, or "+
			"open the "+
			"file once with sqlite3, to roll it back", f.name)
	case primary == sqlite3.SQLITE_NOTADB:
		return pool.SourceError("%s is no SQLite file: restore it from a copy, or move it away", f.name)
	case isDamage(err):
		why := errCircle
		if code != 0 {
			why = errors.New(sqliteText(code))
		}
		return pool.SourceError("%s is damaged or truncated (%w): restore it from a copy, or recover it with `sqlite3 "+
			".recover`",
			f.name, why)
	case primary == sqlite3.SQLITE_CANTOPEN:
		return pool.SourceError("%s cannot be opened: check that the user that runs Grafana may read it (and its "+
			"directory, when "+
			"the file is in WAL mode)", f.name)
	case errors.Is(err, errNoTable):
		return pool.SourceError("%s: %w: it is no month file of the collector, or still empty", f.name, err)
	case code != 0:
		return pool.SourceError("%s cannot be read: %s", f.name, sqliteText(code))
	}
	return pool.SourceError("%s cannot be read: %w", f.name, snapshots.Bare(err))
}

// codeOf returns SQLite's extended and primary result codes, 0 for another error.
func codeOf(err error) (extended, primary int) {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code(), e.Code() & 0xff
	}
	return 0, 0
}

func sqliteText(code int) string {
	if text, ok := sqlite.ErrorCodeString[code&0xff]; ok {
		return text
	}
	return fmt.Sprintf("SQLite error %d", code)
}

// isLocked reports whether err is that of waiting for a writer in vain.
func isLocked(err error) bool {
	_, primary := codeOf(err)
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}

// isDamage reports whether err says that a part of the file does not hold what it should.
func isDamage(err error) bool {
	_, primary := codeOf(err)
	return primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_IOERR || errors.Is(err, errCircle)
}

// isReadOnly reports whether err is that of opening a WAL file that cannot get its shared memory.
func isReadOnly(err error) bool {
	code, primary := codeOf(err)
	return primary == sqlite3.SQLITE_CANTOPEN || primary == sqlite3.SQLITE_READONLY &&
		code != sqlite3.SQLITE_READONLY_ROLLBACK
}

// isPathEscape reports whether err is os.Root's refusal of a link that leads outside.
func isPathEscape(err error) bool { return strings.Contains(err.Error(), "escapes") }
