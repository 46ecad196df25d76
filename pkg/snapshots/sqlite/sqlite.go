// Package sqlite reads month files of SQLite, gpu_state_YYYY-MM.db: the only package that opens them. It never writes;
// the one exception are SQLite's own -shm and -wal files beside a file that is already in WAL mode.
package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Format is that of month files in SQLite.
var Format = months.Format{
	Extension: "db",
	Open:      func(dir *snapshots.Dir, name string) months.File { return &file{dir: dir, name: name} },
}

// PlainSQL is Format with its rows read by plain SQL only: to compare with, and to measure.
var PlainSQL = months.Format{
	Extension: "db",
	Open:      func(dir *snapshots.Dir, name string) months.File { return &file{dir: dir, name: name, plain: true} },
}

const (
	// settled is how long an older month must be unchanged to be read as immutable.
	settled     = 48 * time.Hour
	busyTimeout = 10 * time.Second
	// readers bounds the connections to one file.
	readers = 4
	// idle is how long a connection stays open that nobody uses.
	idle = 5 * time.Minute
)

// dataSourceName names a file for the driver.
func dataSourceName(path string, immutable bool) string {
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(path))
	name := fmt.Sprintf("file:%s?mode=ro&_pragma=busy_timeout(%d)&_pragma=mmap_size(0)", escaped,
		busyTimeout.Milliseconds())
	if immutable {
		name += "&immutable=1"
	}
	return name
}
