package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// loadStats collects the work of loading, and what went wrong. It is safe for concurrent use; its zero value is empty.
type loadStats struct {
	Work   // only changed atomically
	mu     sync.Mutex
	days   map[int32]error // days that could not be read, with their errors, which name the file
	bucket []string        // failures of the bucket, each once

	waiting []Incomplete // snapshots that count until their machines are back, ascending
}

// addDay adds a day that cannot be read.
func (s *loadStats) addDay(date int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.days == nil {
		s.days = map[int32]error{}
	}
	s.days[date] = err
}

// addWaiting adds snapshots that count until their machines are back. Days can be judged in any order, and twice.
func (s *loadStats) addWaiting(found []Incomplete) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.Compact(slices.SortedFunc(slices.Values(append(s.waiting, found...)),
		func(a, b Incomplete) int { return cmp.Compare(a.Time, b.Time) }))
}

// addBucket adds a failure of the bucket.
func (s *loadStats) addBucket(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := err.Error(); !slices.Contains(s.bucket, text) {
		s.bucket = append(s.bucket, text)
	}
}

// nothingLeft returns an error if a day of the window cannot be read and no other has a snapshot to answer from.
func (s *loadStats) nothingLeft(window pool.Window, days []*Day) error {
	first, last := pool.DayOf(window.From), pool.DayOf(window.To)
	if slices.ContainsFunc(days, func(d *Day) bool { return first <= d.Date && d.Date <= last && len(d.Times) > 0 }) {
		return nil
	}
	for _, date := range slices.Sorted(maps.Keys(s.days)) {
		if first <= date && date <= last {
			return s.days[date]
		}
	}
	return nil
}

// segmentNotices says which days are left out, one notice for each reason, and how the bucket failed.
func (s *loadStats) segmentNotices() (notices []Notice) {
	dates := map[string][]int32{}
	var texts []string // in the order of their first days
	for _, date := range slices.Sorted(maps.Keys(s.days)) {
		text := s.days[date].Error()
		if dates[text] == nil {
			texts = append(texts, text)
		}
		dates[text] = append(dates[text], date)
	}
	for _, text := range texts {
		left := "the day is left out"
		if n := len(dates[text]); n > 1 {
			left = fmt.Sprintf("%d days are left out", n)
		}
		notices = append(notices, Notice{Warning: true, Text: fmt.Sprintf("%s: %s: %s", ranges(dates[text]), left, text)})
	}
	return append(notices, s.bucketNotices()...)
}

// usageNotices returns the notices about the loading of usage.
func (s *loadStats) usageNotices() []Notice {
	notices := s.bucketNotices()
	for _, date := range slices.Sorted(maps.Keys(s.days)) {
		notices = append(notices, Notice{Warning: true, Text: fmt.Sprintf(
			"GPUsAverageUsage of %s cannot be read, and is missing from the answer: %v", dateText(date), s.days[date])})
	}
	return notices
}

func (s *loadStats) bucketNotices() (notices []Notice) {
	slices.Sort(s.bucket)
	for _, text := range s.bucket {
		notices = append(notices, Notice{Text: "some finished days were rebuilt from snapshots, which is slower: " + text})
	}
	return notices
}

// ranges writes ascending dates, those that follow each other as a range.
func ranges(dates []int32) string {
	var parts []string
	for i := 0; i < len(dates); {
		end := i
		for end+1 < len(dates) && dates[end+1] == dates[end]+1 {
			end++
		}
		part := dateText(dates[i])
		if end > i {
			part += " to " + dateText(dates[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

// notices returns notices about odd rows of the day.
func (d *Day) notices() (all []Notice) {
	add := func(n uint32, text string) {
		if n > 0 {
			all = append(all, Notice{Text: fmt.Sprintf("%s: %d %s", dateText(d.Date), n, text)})
		}
	}
	add(d.Oddities.Back, "snapshots were out of order in their file and have been sorted")
	add(d.Oddities.Missing, "snapshots have a local time that does not exist: read with the offset before the change")
	add(d.Oddities.Unreadable, fmt.Sprintf("rows have no readable timestamp, such as %q: left out", d.Oddities.Sample))
	add(d.Oddities.Twice, "snapshots of the repeated hour may be two whose texts are equal or less than a minute apart: "+
		"counted as one")
	add(d.cut, fmt.Sprintf("different rows have texts of more than %d bytes: cut", pool.MostText))
	return all
}

// dateText is a day as YYYY-MM-DD.
func dateText(date int32) string {
	return pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)
}

// This file counts texts that mean no value and values that are not known (methodology section 1).

// oddKey is a column and what its values mean.
type oddKey struct {
	column  uint8 // an index in snapshots.ColumnNames
	meaning pool.Meaning
}

// oddRows are the rows of a snapshot with such values.
type oddRows struct {
	Snapshot uint16
	Column   uint8
	Meaning  pool.Meaning
	Rows     uint32
}

func (o oddRows) key() oddKey { return oddKey{o.Column, o.Meaning} }

// oddExample is one of the values.
type oddExample struct {
	Column  uint8
	Meaning pool.Meaning
	Text    string
}

// exampleOf returns the index of the example of a column and meaning, −1 without.
func (d *Day) exampleOf(key oddKey) int {
	return slices.IndexFunc(d.examples, func(e oddExample) bool { return oddKey{e.Column, e.Meaning} == key })
}

// note counts an odd value of the snapshot that is read.
func (b *builder) note(o *snapshots.Odd) {
	key := oddKey{uint8(o.Column), o.Meaning}
	if b.odd == nil {
		b.odd = map[oddKey]uint32{}
	}
	b.odd[key]++
	if b.day.exampleOf(key) < 0 {
		b.day.examples = append(b.day.examples, oddExample{key.column, key.meaning, pool.Example(o.Text)})
	}
}

// countOdd keeps the counts of a snapshot.
func (b *builder) countOdd(snapshot int) {
	for _, key := range slices.SortedFunc(maps.Keys(b.odd), func(a, b oddKey) int {
		return cmp.Or(cmp.Compare(a.column, b.column), cmp.Compare(a.meaning, b.meaning))
	}) {
		b.day.odd = append(b.day.odd, oddRows{uint16(snapshot), key.column, key.meaning, b.odd[key]})
	}
	clear(b.odd)
}

// AddOdd counts the day's rows in a window with texts that mean no value or values that are not known, by column.
func (d *Day) AddOdd(w pool.Window, to *pool.Values) {
	for _, o := range d.odd {
		if w.Contains(d.Times[o.Snapshot]) {
			to.Add(snapshots.ColumnNames[o.Column], o.Meaning, int(o.Rows), d.examples[d.exampleOf(o.key())].Text)
		}
	}
}

// oddNotices tells of the odd values in a window, with a warning if figures depend on them.
func (v *View) oddNotices(w pool.Window) []Notice {
	var odd pool.Values
	for _, d := range v.Days {
		d.AddOdd(w, &odd)
	}
	if about := snapshots.AboutValues("snapshots have", &odd); about != (Notice{}) {
		return []Notice{about}
	}
	return nil
}

// validOdd reports whether all indexes are within their ranges.
func (d *Day) validOdd() bool {
	valid := true
	for _, o := range d.odd {
		valid = valid && int(o.Snapshot) < len(d.Times) && int(o.Column) < snapshots.Columns &&
			d.exampleOf(o.key()) >= 0
	}
	return valid
}
