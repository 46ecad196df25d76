package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
)

// warnings collects what went wrong while an answer was loaded. It is safe for concurrent use, and the zero value is
// empty.
type warnings struct {
	mu     sync.Mutex
	days   map[int32]error // days that could not be read, with their errors, which name the file
	bucket []string        // failures of the bucket, each once
}

// addDay adds a day that cannot be read.
func (w *warnings) addDay(date int32, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.days == nil {
		w.days = map[int32]error{}
	}
	w.days[date] = err
}

// addBucket adds a failure of the bucket.
func (w *warnings) addBucket(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := err.Error(); !slices.Contains(w.bucket, text) {
		w.bucket = append(w.bucket, text)
	}
}

// nothingLeft returns an error if a day of the window cannot be read and no other has a snapshot: nothing is left to
// answer from.
func (w *warnings) nothingLeft(window pool.Window, days []*Day) error {
	first, last := pool.DayOf(window.From), pool.DayOf(window.To)
	if slices.ContainsFunc(days, func(d *Day) bool { return first <= d.Date && d.Date <= last && len(d.Times) > 0 }) {
		return nil
	}
	for _, date := range slices.Sorted(maps.Keys(w.days)) {
		if first <= date && date <= last {
			return w.days[date]
		}
	}
	return nil
}

// segmentNotices returns the notices about the loading of segments: which days are left out and why, one notice per
// error, then those of the bucket.
func (w *warnings) segmentNotices() (notices []Notice) {
	dates := map[string][]int32{}
	var texts []string // in the order of their first days
	for _, date := range slices.Sorted(maps.Keys(w.days)) {
		text := w.days[date].Error()
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
	return append(notices, w.bucketNotices()...)
}

// usageNotices returns the notices about the loading of usage.
func (w *warnings) usageNotices() []Notice {
	notices := w.bucketNotices()
	for _, date := range slices.Sorted(maps.Keys(w.days)) {
		notices = append(notices, Notice{Warning: true, Text: fmt.Sprintf(
			"GPUsAverageUsage of %s cannot be read, and is missing from the answer: %v", dateText(date), w.days[date])})
	}
	return notices
}

func (w *warnings) bucketNotices() (notices []Notice) {
	slices.Sort(w.bucket)
	for _, text := range w.bucket {
		notices = append(notices, Notice{
			Text: "some finished days were rebuilt from snapshots, which is slower: " + text,
		})
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
