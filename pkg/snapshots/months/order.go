package months

import "github.com/chtc/gpureports/pkg/pool"

// Files out of the order of time: as when the collector's clock was set back, or ran years ahead for a moment.

const (
	// lateness is how much earlier a timestamp may be than one before it, because of a repeated hour or a late snapshot.
	lateness = pool.Hour

	// longestMonth is the most that the ends of an ordered file can be apart. If a clock ran years ahead for a moment,
	// no day in between is worth reading.
	longestMonth = 40 * pool.Day
)

// FellBack reports whether a timestamp is too much earlier than one before it for the file to be in the order of time.
func FellBack(before, local Local) bool {
	return before != None && local != None && local+lateness < before
}

// TooLong reports whether the first and the last timestamp of a file are too far apart for a month in the order of
// time.
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
