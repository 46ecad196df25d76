// Package sqlite reads month files of SQLite, gpu_state_YYYY-MM.db, by SQL. It never writes; the one exception are
// SQLite's own -shm and -wal files next to a file that is already in WAL mode.
package sqlite

import (
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Format is the format of month files in SQLite.
var Format = months.Format{
	Extension: "db",
	Open: func(dir *snapshots.Dir, name string, zone *localtime.Zone) months.File {
		return newFile(dir, name, zone)
	},
}

// readers bounds the connections to one file that read rows.
const readers = 4
