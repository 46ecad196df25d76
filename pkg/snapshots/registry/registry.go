// Package registry lists the formats of month files. Add another one here.
package registry

import (
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/snapshots/sqlite"
)

// formats are the formats of month files. If a month has files in two of them, the one in the later format is used.
var formats = []months.Format{sqlite.Format, parquet.Format}

// OpenDir returns the source of the month files in a directory, of any format. zone is the collector's. The directory
// is closed with the source.
func OpenDir(dir *snapshots.Dir, zone *localtime.Zone) snapshots.Source {
	return months.New(dir, zone, formats...)
}

// QueueRows reads the rows of queue files of Parquet.
var QueueRows = parquet.EachRow

// CacheName returns a name for the cached data of one source, different from those of others in the same
// cache directory.
func CacheName(dir *snapshots.Dir, zone *localtime.Zone) string {
	return dir.Path() + "\x00" + zone.Key()
}
