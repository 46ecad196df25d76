// Package sqlite reads month files of SQLite, gpu_state_YYYY-MM.db, by SQL. It never writes; the one exception are
// SQLite's own -shm and -wal files next to a file that is already in WAL mode.
package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Format is the format of month files in SQLite.
var Format = months.Format{
	Extension: "db",
	Open: func(dir *snapshots.Dir, name string, zone *localtime.Zone) months.File {
		on := sqlitefile.File{Root: dir.Root(), Dir: dir.Path(), Name: name, Writer: "the collector"}
		return &file{watched: on.Watch(readers), zone: zone, small: checkedFirst, turn: semaphore.NewWeighted(1)}
	},
}

// checkedFirst is the size up to which the order of a file's rows is checked before they answer: half a second. That of
// a larger one is checked in the background, see checks.go.
const checkedFirst = 64 << 20

// readers bounds the connections to one file that read rows.
const readers = 4

// file implements months.File.
//
// A commit after which the file has no more rows than before is an edit: the rows of a day are hashed again before the
// day's cached data are used. A commit that appends rows, as a collector's does every five minutes, is trusted to have
// changed nothing more, because hashing a month takes seconds. So an edit can hide in such a commit. It is found within
// an hour, when the rows are hashed again in the background; see checks.go.
type file struct {
	watched *sqlitefile.Watched
	zone    *localtime.Zone
	small   int64               // the order of files up to this size is checked first
	turn    *semaphore.Weighted // who checks the order

	mu         sync.Mutex
	last       *content    // found by the last look that succeeded
	edits      uint64      // how many edits were seen, see months.Info
	unordered  bool        // a row is too much earlier than one before it
	recheck    bool        // appended rows that the next look finds are not trusted to be all that happened
	strict     bool        // it is rechecked: rows are read rather than trusted, and their order is known first
	unverified bool        // an edit may hide in a commit that appended rows
	inspection *time.Timer // the next one in the background
	inspectAt  time.Time   // when it begins
	ordered    uint64      // the edits of the contents whose rows were all checked to be in order; 0: none
	orderedTo  int64       // as far as an earlier process has checked them
}

func (f *file) Look(ctx context.Context, newest bool) (months.Content, error) {
	var c *content
	err := f.watched.Look(ctx, !newest, func(ctx context.Context, l sqlitefile.Found) (err error) {
		c, err = f.contentOf(ctx, l)
		return err
	})
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, fs.ErrNotExist) {
			f.mu.Lock() // a file that appears under the name may be another one
			f.last, f.unordered = nil, false
			f.mu.Unlock()
		}
		return nil, f.explain(err)
	}
	return c, nil
}

// lastOf returns the last content, nil if another file is there now, and whether rows were found out of order.
func (f *file) lastOf(l sqlitefile.Found) (last *content, unordered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && !os.SameFile(f.last.handle.Info, l.Info) {
		f.last, f.unordered = nil, false
	}
	return f.last, f.unordered
}

// contentOf returns the current content of the file: the last one unless the file changed or was reopened, or something
// was found out in the background. Looks are made one at a time.
func (f *file) contentOf(ctx context.Context, l sqlitefile.Found) (*content, error) {
	last, unordered := f.lastOf(l)
	// Load the content if it changed.
	c := &content{file: f, handle: l.Handle, info: months.Info{Unordered: unordered}}
	same := last != nil && !l.Changed && last.info.Unordered == unordered
	if same {
		c.info, c.table = last.info, last.table
	} else if err := c.load(ctx, last); err != nil {
		return nil, err
	}
	c.info.Warning = l.Warning
	c.trace = trace{l.File, l.Log, c.info.Rows, l.Recent, false}

	// Keep the known hashes if rows were only appended; otherwise it was an edit.
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := last != nil && last.info.Edits == f.edits && (same || c.appendedTo(last) && !f.recheck)
	f.unordered, f.recheck = f.unordered || c.info.Unordered, false
	c.hashes = new(hashes)
	if kept {
		c.hashes = last.hashes
	}
	switch {
	case same && kept && last.handle == l.Handle && !(last.info.Unchecked && f.ordered == f.edits):
		last.trace = c.trace
		return last, nil
	case same:
	case kept:
		f.mayHideEdits()
	default:
		f.edited()
	}
	c.info.Edits, f.last = f.edits, c
	f.orderOf(c)
	return c, nil
}

func (f *file) Close() {
	f.watched.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inspection != nil {
		f.inspection.Stop()
		f.inspection = nil
	}
}

// explain makes an error of the file fit for a user.
func (f *file) explain(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, snapshots.ErrStale):
		return err
	case errors.Is(err, sqlitefile.ErrNoTable):
		return pool.SourceError("%s: it has no table gpu_state: it is not a month file of the collector, or is still empty",
			f.watched.Name)
	}
	return f.watched.Explain(err)
}
