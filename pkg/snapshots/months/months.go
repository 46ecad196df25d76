// Package months makes one snapshots.Source out of the month files of a directory, of whatever format. The timestamps
// of month files are the collector's local time (methodology section 1): what turns them into snapshots in UTC is here,
// once for all formats: time zones and repeated hours, sorting, uniting runs within a minute, days that reach over two
// files, days that grow, and keys. A format only gives rows by number, with their local times: see File and Content.
package months

import (
	"context"
	"math"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Local is a moment by the collector's clock: microseconds since its 1970-01-01 00:00:00.
type Local = pool.Micros

// None stands for a timestamp that cannot be read: NULL, or no date.
const None Local = math.MinInt64

// Format is a format of month files.
type Format struct {
	// Extension of the files, without the dot: "db", "parquet".
	Extension string

	// Open returns the file of a name. It does no I/O.
	Open func(dir *snapshots.Dir, name string) File
}

// File is the month file of a name, whatever is under that name at a moment: it may be replaced, removed, and come
// back. It is safe for concurrent use.
type File interface {
	// Look returns what the file holds now; the very same Content if nothing has changed since the last look. newest: no
	// later month has a file, so that a collector may be writing to this one. Errors name the file and the remedy.
	Look(ctx context.Context, newest bool) (Content, error)

	// Close gives back what is open, until the next look. Scans under way end with snapshots.ErrStale.
	Close()
}

// Content is what a file held at a moment: rows numbered ascending, not necessarily without holes, appended in the
// order of time but for what a clock does. It is safe for concurrent use and never changes; implementations are
// pointers.
//
// Seek, Scan and Fingerprint return snapshots.ErrStale if the file has been replaced, or has turned out not to be in
// the order of time though Info takes it to be. Other errors name the file and the remedy.
type Content interface {
	Info() *Info

	// Seek returns a range that holds all rows with from <= local < to, and few others. Rows without a readable timestamp
	// go with the row before them, at the beginning of the file with the first one that has.
	Seek(ctx context.Context, from, to Local) (Range, error)

	// Scan gives the rows of a range to the visitor, ascending by number. usage asks for GPUsAverageUsage.
	Scan(ctx context.Context, r Range, usage bool, v Visitor) error

	// Fingerprint identifies the rows of a range by their content, also in another process. Rows appended behind
	// the range do not change it. Unless the content is Exact, an edit need not show in it. "" if it cannot be had
	// because the file is damaged there.
	Fingerprint(ctx context.Context, r Range) (string, error)

	// Witness is a trace of the file as it was at the look: while it is the same, also for another process, nothing was
	// written to it. "" if it cannot be relied on.
	Witness() string

	// Identity is a fingerprint in which every edit shows. It says nothing of the numbers of the rows, of the file's name
	// or of where it lies.
	Identity(ctx context.Context, r Range) (string, error)
}

// Info describes a content.
type Info struct {
	Edits       uint64    // differs from that of an earlier content if the file changed otherwise than by rows appended
	Exact       bool      // every edit of rows shows in their Fingerprint
	Rows        Range     // of all rows
	First, Last Local     // of the first and the last row with a readable timestamp; None: there is no such row
	Columns     []string  // of the table, in order
	Unordered   bool      // rows are not in the order of time: Stretches says where a range of time lies
	Stretches   []Stretch // of a file that is Unordered, see Order
	Warning     string    // what is not as it should be though the file is read; "" if nothing
}

// Range is a range of row numbers, both ends included; First > Last is empty.
type Range struct{ First, Last int64 }

// Nothing is an empty range.
var Nothing = Range{1, 0}

// Empty reports whether the range holds no number.
func (r Range) Empty() bool { return r.First > r.Last }

// Visitor takes the rows of a scan. What it is given is valid only during the call. Its errors end the scan.
type Visitor interface {
	// Run begins a run of rows with the same timestamp, at its first row; None for one that cannot be read.
	// wanted false: its rows are not given.
	Run(number int64, local Local) (wanted bool, err error)

	// Row is one of its rows. usage is NaN if it was not asked for, or is NULL or no number.
	Row(row snapshots.Row, usage float64) error
}

// reaches reports whether rows of the content can lie in [from, to).
func (i *Info) reaches(from, to Local) bool {
	if i.Unordered {
		return !Find(i.Stretches, from, to).Empty()
	}
	return i.First != None && i.First < to && i.Last >= from
}

// spans calls yield with the first and the last time of each part of the content that is in the order of time.
func (i *Info) spans(yield func(first, last Local)) {
	switch {
	case !i.Unordered && i.First != None:
		yield(i.First, i.Last)
	case i.Unordered:
		for _, s := range i.Stretches {
			if s.First != None {
				yield(s.First, s.Last)
			}
		}
	}
}
