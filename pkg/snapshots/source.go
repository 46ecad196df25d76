// Package snapshots defines the interface of a store of snapshots (methodology section 1): a Source gives the rows of a
// UTC day, one snapshot after the other, and detects by content whether a day is unchanged. The stores are in packages
// of their own. The list files are read here.
package snapshots

import (
	"context"
	"errors"

	"github.com/chtc/gpureports/pkg/pool"
)

// Source is where the snapshots of a pool come from. It is safe for concurrent use.
type Source interface {
	// Look returns the current state of the source, with everything that was committed before the call. It is cheap, and
	// called once per request. Errors: the source cannot be reached, there is nothing, or ctx ended. The State's Parts and
	// Notices report the parts that cannot be read.
	Look(ctx context.Context) (State, error)

	// Recheck makes the source compare rows with their hashes, from the next look onward, if it would otherwise trust that
	// they were only appended to. So an edit that was committed together with appended rows is seen immediately instead of
	// within an hour.
	Recheck()

	// Limit bounds the bytes that the rows of a day may take while they are read. A day that needs more is an error.
	Limit(bytes int64)

	// Close closes the source. Reads under way end with an error.
	Close() error
}

// State is a source as it was at a moment. It is safe for concurrent use and never changes: rows appended later are not
// in it. States of one Source can be compared by ==: equal ones hold equal rows; unequal ones may.
type State interface {
	// Notices are about unreadable or irregular parts of the source as a whole, in a fixed order.
	Notices() []Notice

	// Parts returns the parts in which the source is stored, such as month files, ascending by the time that they are
	// of. It opens all of them, which may cost a request for each. Errors: ctx's.
	Parts(ctx context.Context) ([]Part, error)

	// Err returns why none of the parts can be read, nil if one may be.
	Err() error

	// Dates returns UTC days, since 1970, ascending. It may list days without snapshots, but must not omit a day that has
	// one.
	Dates() []int32

	// Finished reports whether there is a row of two hours after the day's end: no collector appends to the day anymore.
	Finished(date int32) bool

	// Key returns the key of a day without a reading; it may cost as much as one. Its Mark is empty.
	Key(ctx context.Context, date int32) (Key, error)

	// Identity identifies the rows of a key by all their values, for processes that share data derived from them: equal
	// identities mean equal rows, wherever they are stored. It is "" if a part of the rows is damaged.
	Identity(Key) string

	// Version returns the present version of the parts that a day's rows are in, see Key; "" if there is none.
	Version(date int32) string

	// Holds reports whether k describes a day's rows.
	Holds(ctx context.Context, date int32, k Known) (bool, error)

	// Rows gives the snapshots of a day to the visitor. If the day only grew since it was known, the reading is resumed
	// with the day's newest snapshot at that time, of which there may be more rows now, and Visitor.Begin is called with
	// resumed set. The zero Known reads the whole day.
	// Errors: the visitor's; ctx's; ErrStale; otherwise the day cannot be read, and the error names the part.
	Rows(ctx context.Context, date int32, from Known, v Visitor) (Reading, error)
}

// ErrStale is returned by a State whose source has changed otherwise than by rows appended, or has turned out to be in
// another order than it was taken to be. Look again.
var ErrStale = errors.New("the snapshots changed while they were read")

// Notice is something that a user should know about the data, with numbers.
type Notice struct {
	Warning bool // the answer may be affected
	Text    string
	Stat    string // the name of the statistic Count, if this is a fact and no fault; Text explains it. "": a notice
	Count   int
}

// AboutValues is the notice of odd values that something has: a warning if figures depend on them; empty without any.
func AboutValues(what string, odd *pool.Values) Notice {
	text := odd.String()
	switch {
	case text == "":
		return Notice{}
	case odd.Unknown():
		return Notice{Warning: true, Text: what + " " + text}
	}
	return Notice{Text: what + " " + text, Stat: "Texts that mean no value", Count: odd.Number()}
}

// Part is a piece that a source is stored in: a month file, or an object.
type Part struct {
	Name      string      // its base name
	Month     string      // the collector's month, YYYY-MM
	Err       error       // why it cannot be read; the rest is empty then
	Warning   string      // a fault of a part that can be read nevertheless; "" if none
	Rows      int64       // how many, to within rows that were deleted
	Columns   []string    // names in the order of the table
	Dated     bool        // a row has a readable timestamp
	Sample    string      // a timestamp that cannot be read, if none can
	Window    pool.Window // the times of the first and the last such row
	Unordered bool        // rows are not in the order of time
	Unchecked bool        // it is not known yet whether they are
}

// Key identifies the rows of one day by their content only: their columns, numbers and hashes, and the zone that their
// times are read in; never a path, an inode or a time of change. Equal contents mean equal rows, in every process that
// reads the same data.
type Key struct {
	Content string `json:"content"`
	Mark    string `json:"mark,omitempty"` // where a reading is resumed; "" if it cannot be

	// Version is a trace of the state of the parts: while it is the same, nothing was written, and the rows need not be
	// read. It does not identify the rows.
	Version string `json:"version,omitempty"`
}

// Known is a key with a state of the same Source in which it held. State is nil if another process kept the key.
type Known struct {
	Key
	State State
}

// Reading is the result of reading a day.
type Reading struct {
	Key      Key
	Oddities Oddities // the whole day is counted, even if the reading was resumed
	Rows     int64    // that were read
}

// Oddities counts the irregular timestamps of a day.
type Oddities struct {
	Back       uint32 // snapshots out of order in their file
	Missing    uint32 // snapshots with a local time that does not exist
	Unreadable uint32 // rows without a readable timestamp
	Twice      uint32 // snapshots of a repeated hour that may be two within a minute by the text, one of each pass

	Sample string // one of the timestamps that cannot be read, shortened
}

// Visitor takes the snapshots of a day. Its arguments are valid only during the call.
type Visitor interface {
	// Begin is called once, before the other methods. If resumed, the snapshots begin with the newest one that was known.
	Begin(resumed bool)

	// Distinct gives a row that did not occur before in this reading. These calls number rows from 0.
	Distinct(row Row)

	// Snapshot gives the next snapshot, ascending by time. An error ends the reading.
	Snapshot(s Snapshot) error
}

// Snapshot is one run of the collector: the rows of all timestamps within a minute of the first, and those up to five
// minutes that follow each other closely, of a collector that stamps each row.
type Snapshot struct {
	Time  pool.Micros // when its first row was taken
	End   pool.Micros // when its last row was taken
	Rows  []uint32    // the numbers of its rows, in the order of their files; whole rows can be doubled
	Usage []float64   // GPUsAverageUsage of each of Rows, NaN for NULL or a text
}
