// Package months makes one snapshots.Source out of the month files of a directory, of any format. The timestamps of
// month files are the collector's local time (methodology section 1). This package turns them into snapshots in UTC for
// all formats: time zones and repeated hours, sorting, uniting runs within a minute, days that reach over two files,
// days that grow, and keys. A format only gives rows by number, with their local times: see File and Content.
package months

import (
	"context"
	"math"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Local is a moment by the collector's clock: microseconds since its 1970-01-01 00:00:00.
type Local = pool.Micros

// None stands for a timestamp that cannot be read: NULL, or not a date.
const None Local = math.MinInt64

// Format is a format of month files.
type Format struct {
	// Extension of the files, without the dot: "db", "parquet".
	Extension string

	// Open returns the file of a name, whose timestamps are of a zone. It does no I/O.
	Open func(dir *snapshots.Dir, name string, zone *localtime.Zone) File
}

// File is the month file of a name, which may be replaced, removed, and come back. It is safe for concurrent use.
type File interface {
	// Look returns the current content of the file; the very same Content if nothing has changed since the last look.
	// newest: no later month has a file, so a collector may write to this one. Errors name the file and the remedy.
	Look(ctx context.Context, newest bool) (Content, error)

	// Recheck makes a file that otherwise takes it from traces that rows were only appended, because hashing them takes
	// long, compare rows with their hashes, from the next look onward. A file that nothing touched since its rows were
	// hashed is not compared.
	Recheck()

	// Close closes the open file, until the next look. Scans under way end with snapshots.ErrStale.
	Close()
}

// Content is the content of a file at a moment: rows numbered ascending, not necessarily without holes, appended
// in the order of time, except as clocks change. It is safe for concurrent use and never changes; implementations
// are pointers.
//
// Seek, Scan and Fingerprint return snapshots.ErrStale if the file has been replaced, or has turned out not to be in
// the order of time, contrary to Info. Other errors name the file and the remedy.
type Content interface {
	Info() *Info

	// Seek returns a range that holds all rows with from <= local < to, and few others. Rows without a readable timestamp
	// go with the row before them, at the beginning of the file with the first one that has.
	Seek(ctx context.Context, from, to Local) (Range, error)

	// Scan gives the rows of a range to the visitor, ascending by number.
	Scan(ctx context.Context, r Range, v Visitor) error

	// Fingerprint identifies the rows of a range by their content, even in another process: every edit shows in it. It
	// says nothing of the file's name or of where it lies. Rows appended after the range do not change it; a version of
	// the file and a space can be ahead of it once no more rows are appended. It is "" if the file is damaged there.
	Fingerprint(ctx context.Context, r Range) (string, error)

	// Version distinguishes the states of the file, even in other processes, and can differ although nothing changed. It
	// is that of the look; "" if it cannot be relied on.
	Version() string

	// Unchanged reports whether the file shows by its traces, without reading rows, that those of a range are unchanged
	// since another process saw the file in a version, and the rows with a fingerprint. Errors: as of Seek.
	Unchanged(ctx context.Context, version string, r Range, fingerprint string) (bool, error)

	// Verified reports whether no edit can have escaped this process so far.
	Verified() bool
}

// Info describes a content.
type Info struct {
	Edits       uint64    // differs from that of an earlier content if more than appended rows may be new
	Rows        Range     // the numbers of all rows
	First, Last Local     // the first and the last readable timestamp; None: there is none
	Sample      string    // a timestamp that cannot be read, if none can
	Columns     []string  // names in the order of the table
	Unordered   bool      // rows are not in the order of time: Stretches says where a range of time lies
	Unchecked   bool      // it is not known yet whether all rows are in the order of time
	Stretches   []Stretch // see Order; nil unless the file is Unordered
	Warning     string    // a fault of the file that is read nevertheless; "" if none
}

// Range is a range of row numbers, both ends included; First > Last is empty.
type Range struct{ First, Last int64 }

// Nothing is an empty range.
var Nothing = Range{1, 0}

// Empty reports whether the range holds no number.
func (r Range) Empty() bool { return r.First > r.Last }

// Visitor takes the rows of a scan. Its arguments are valid only during the call. Its errors end the scan.
type Visitor interface {
	// Run begins a run of rows with the same timestamp, at its first row. If it cannot be read, local is None, and text
	// is the timestamp or another one of its file that cannot be read. wanted false: its rows are not given.
	Run(number int64, local Local, text string) (wanted bool, err error)

	// Row is one of its rows. usage is GPUsAverageUsage, NaN if it is NULL or not a number.
	Row(row snapshots.Row, usage float64) error
}

// Files out of the order of time: as when the collector's clock was set back, or ran years ahead for a moment.

const (
	// lateness is how much earlier a timestamp may be than one before it, because of a repeated hour or a late snapshot.
	lateness = pool.Hour

	// longestMonth is the most that the ends of an ordered file can be apart: no day of a clock years ahead is read.
	longestMonth = 40 * pool.Day
)

// FellBack reports whether a timestamp is too much earlier than one before it for the file to be in the order of time.
func FellBack(before, local Local) bool {
	return before != None && local != None && local+lateness < before
}

// TooLong reports whether the first and the last timestamp of a file are too far apart for an ordered month.
func TooLong(first, last Local) bool { return first != None && first+longestMonth < last }

// Stretch is a run of rows in the order of time, within one hour.
type Stretch struct {
	First, Last Local // None: it has no readable timestamp
	Rows        Range
}

// Order adds a row to the stretches of a file, in the order of the file.
func Order(stretches []Stretch, number int64, local Local) []Stretch {
	n := len(stretches)
	if n == 0 {
		return append(stretches, Stretch{local, local, Range{number, number}})
	}
	s := &stretches[n-1]
	switch {
	case local == None, local == s.Last:
		s.Rows.Last = number
	case s.First == None:
		s.First, s.Last, s.Rows.Last = local, local, number
	case local < s.Last || local/pool.Hour != s.First/pool.Hour:
		return append(stretches, Stretch{local, local, Range{number, number}})
	default:
		s.Last, s.Rows.Last = local, number
	}
	return stretches
}

// Find returns the numbers from the first to the last row of the stretches that reach into [from, to).
func Find(stretches []Stretch, from, to Local) Range {
	found := Nothing
	for _, s := range stretches {
		if s.First != None && s.Last >= from && s.First < to {
			if found.Empty() {
				found.First = s.Rows.First
			}
			found.Last = s.Rows.Last
		}
	}
	return found
}
