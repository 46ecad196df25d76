// Package sqlitefile opens SQLite files that other programs write and the product only reads: read-only, with patience
// for a writer's locks, and with errors that name the file and a remedy. The only files that it writes are SQLite's own
// -shm and -wal files of a file that is already in WAL mode.
package sqlitefile

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

const (
	// Settled is how long an older month's file must be unchanged to be opened as immutable.
	Settled = 48 * time.Hour
	// BusyTimeout is how long a statement waits for a writer's lock.
	BusyTimeout = 10 * time.Second
	// Idle is how long an unused connection stays open.
	Idle = 5 * time.Minute
	// pages is the memory for pages of a connection, in KiB. Files are read from end to end, or at a few places: for a
	// year of them, larger caches would hold 30 MB that are not read again.
	pages = 256
)

// URI names a file for the driver, with parameters of SQLite's URIs ("mode=ro") and of the driver's.
func URI(path string, parameters ...string) string {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
	return "file:" + escaped + "?" + strings.Join(parameters, "&")
}

// Pragma is a parameter of URI that sets a pragma of each connection.
func Pragma(name string, value any) string { return fmt.Sprintf("_pragma=%s(%v)", name, value) }

// Wait is the parameter of URI that lets each connection wait for a writer for BusyTimeout.
func Wait() string { return Pragma("busy_timeout", BusyTimeout.Milliseconds()) }

// File is a file in a directory that is only read.
type File struct {
	Root   *os.Root // the directory
	Dir    string   // its path
	Name   string   // the file's name, in messages too
	Writer string   // who writes the file, in messages: "the collector"
}

// inside is the path of the file itself, in whose folder SQLite puts its log.
func (f File) inside() string { return pool.Inside(f.Dir, f.Name) }

// Stat describes the file. It returns an error if the file is missing, or no regular file.
func (f File) Stat() (os.FileInfo, error) { return files.Stat(f.Root, f.inside()) }

// Open returns a pool of connections, none of which is open yet. An immutable file is neither locked nor watched.
func (f File) Open(connections int, immutable bool) (*sql.DB, error) {
	parameters := []string{"mode=ro", Wait(), Pragma("mmap_size", 0), Pragma("cache_size", -pages)}
	if immutable {
		parameters = append(parameters, "immutable=1")
	}
	db, err := sql.Open("sqlite", URI(filepath.Join(f.Dir, f.Name), parameters...))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(Idle)
	return db, nil
}

// InWAL reports whether the file's header says WAL mode and it has no rollback journal.
func (f File) InWAL() bool {
	file, err := f.Root.Open(f.inside())
	if err != nil {
		return false
	}
	defer file.Close()
	var header [20]byte // https://sqlite.org/fileformat2.html: 18 and 19 are the write and read versions
	_, err = io.ReadFull(file, header[:])
	return err == nil && header[18] == 2 && header[19] == 2 && f.stampOf("-journal").Size == 0
}

// ErrCircle says that rows are not in the order of their numbers: SQLite would follow the damaged tree for ever.
var ErrCircle = errors.New("rows do not follow each other")

var errLocked = errors.New("it is locked")

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
