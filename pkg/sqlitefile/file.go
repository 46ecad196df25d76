// Package sqlitefile opens SQLite files that other programs write and the product only reads: read-only, with patience
// for a writer's locks, and with errors that name the file and a remedy. The only files that it writes are SQLite's own
// -shm and -wal files of a file that is already in WAL mode.
package sqlitefile

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

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
func (f File) Stat() (os.FileInfo, error) {
	info, err := f.Root.Stat(f.inside())
	if err == nil && !info.Mode().IsRegular() {
		return nil, errNoFile
	}
	return info, err
}

// Open returns a pool of the given number of connections, none of which is open yet. An immutable file is neither
// locked nor watched for changes.
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
