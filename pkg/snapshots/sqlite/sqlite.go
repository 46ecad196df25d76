// Package sqlite reads month files of SQLite, gpu_state_YYYY-MM.db: the only package that opens them. It never writes;
// the one exception are SQLite's own -shm and -wal files beside a file that is already in WAL mode.
package sqlite

import (
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Format is that of month files in SQLite.
var Format = months.Format{
	Extension: "db",
	Open:      func(dir *snapshots.Dir, name string) months.File { return newFile(dir, name, false) },
}

// PlainSQL is Format with its rows read by plain SQL only: to compare with, and to measure.
var PlainSQL = months.Format{
	Extension: "db",
	Open:      func(dir *snapshots.Dir, name string) months.File { return newFile(dir, name, true) },
}

// readers bounds the connections to one file that read rows.
const readers = 4
