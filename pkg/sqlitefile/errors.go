package sqlitefile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

// ErrCircle says that rows are not in the order of their numbers: the tree is damaged, and SQLite itself would
// follow it for ever.
var ErrCircle = errors.New("rows do not follow each other")

var (
	errNoFile = errors.New("it is not a regular file")
	errLocked = errors.New("it is locked")
)

// Explain turns an error of the file into one with the fault and its remedy, without a path.
func (f File) Explain(err error) error {
	switch code, primary := codeOf(err); {
	case errors.Is(err, fs.ErrPermission), primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_AUTH:
		return pool.SourceError("%s: permission denied; give the user that runs Grafana read access", f.Name)
	case errors.Is(err, fs.ErrNotExist):
		return pool.SourceError("%s was removed while it was read: try again", f.Name)
	case strings.Contains(err.Error(), "escapes"): // os.Root's refusal of a link that leads outside
		return pool.SourceError("%s is a link that leads out of the snapshot directory: links must stay inside", f.Name)
	case isLocked(err):
		return pool.SourceError("%s is locked by a writer for more than %s: %s should write in WAL mode or commit sooner",
			f.Name, BusyTimeout, f.Writer)
	case code == sqlite3.SQLITE_READONLY_ROLLBACK, primary == sqlite3.SQLITE_CANTOPEN && f.stampOf("-journal").Size > 0:
		return pool.SourceError("%s has a hot journal: its writer died in a transaction. Let %s run once, or open the file "+
			"once with sqlite3, to roll it back", f.Name, f.Writer)
	case primary == sqlite3.SQLITE_NOTADB:
		return pool.SourceError("%s is not a SQLite file: restore it from a backup, or move it away", f.Name)
	case IsDamage(err):
		why := ErrCircle
		if code != 0 {
			why = errors.New(textOf(code))
		}
		return pool.SourceError("%s is damaged or truncated (%w): restore it from a backup, or recover it with `sqlite3 "+
			".recover`", f.Name, why)
	case primary == sqlite3.SQLITE_CANTOPEN:
		return pool.SourceError("%s cannot be opened: check that the user that runs Grafana may read it (and its "+
			"directory, when the file is in WAL mode)", f.Name)
	case code != 0:
		return pool.SourceError("%s cannot be read: %s", f.Name, textOf(code))
	}
	return pool.SourceError("%s cannot be read: %w", f.Name, files.Bare(err))
}

// IsDamage reports whether err says that a part of the file has invalid content.
func IsDamage(err error) bool {
	_, primary := codeOf(err)
	return primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_IOERR || errors.Is(err, ErrCircle)
}

// IsReadOnly reports whether err comes from opening a WAL file that cannot get its shared memory.
func IsReadOnly(err error) bool {
	code, primary := codeOf(err)
	return primary == sqlite3.SQLITE_CANTOPEN || primary == sqlite3.SQLITE_READONLY &&
		code != sqlite3.SQLITE_READONLY_ROLLBACK
}

// isLocked reports whether err comes from waiting in vain for a writer.
func isLocked(err error) bool {
	_, primary := codeOf(err)
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED || errors.Is(err, errLocked)
}

// codeOf returns SQLite's extended and primary result codes, 0 for another error.
func codeOf(err error) (extended, primary int) {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code(), e.Code() & 0xff
	}
	return 0, 0
}

func textOf(code int) string {
	return cmp.Or(sqlite.ErrorCodeString[code&0xff], fmt.Sprintf("SQLite error %d", code))
}
