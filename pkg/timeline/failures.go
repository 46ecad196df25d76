package timeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
)

// failures are the days that could not be read, with their errors, which name the file.
type failures struct {
	mu   sync.Mutex
	days map[int32]error
}

func (f *failures) add(date int32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.days == nil {
		f.days = map[int32]error{}
	}
	f.days[date] = err
}

// all returns an error if a day of the window cannot be read and no other has a snapshot: nothing is left to answer
// from.
func (f *failures) all(w pool.Window, days []*Day) error {
	first, last := pool.DayOf(w.From), pool.DayOf(w.To)
	if slices.ContainsFunc(days, func(d *Day) bool { return first <= d.Date && d.Date <= last && len(d.Times) > 0 }) {
		return nil
	}
	for _, date := range slices.Sorted(maps.Keys(f.days)) {
		if first <= date && date <= last {
			return f.days[date]
		}
	}
	return nil
}

// notices says which days are left out and why, a notice an error.
func (f *failures) notices() (notices []Notice) {
	dates := map[string][]int32{}
	var texts []string // in the order of their first days
	for _, date := range slices.Sorted(maps.Keys(f.days)) {
		text := f.days[date].Error()
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
