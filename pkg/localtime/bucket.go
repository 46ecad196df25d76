package localtime

import (
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Bucket is a length of calendar time: full local hours and parts of them, days, weeks and months (methodology section
// 5).
type Bucket struct {
	Name      string
	Minutes   int // nominal length
	Months    int // how many whole months a bucket has; 0 in shorter ones
	YearStart int // the month with which years, and so quarters, begin; 0: January
}

const (
	minutesOfDay   = 24 * 60
	minutesOfMonth = 30 * minutesOfDay
)

// Buckets lists the buckets of the query model, ascending.
var Buckets = []Bucket{
	{Name: "5m", Minutes: 5}, {Name: "10m", Minutes: 10}, {Name: "15m", Minutes: 15}, {Name: "30m", Minutes: 30},
	{Name: "1h", Minutes: 60}, {Name: "3h", Minutes: 180}, {Name: "6h", Minutes: 360}, {Name: "12h", Minutes: 720},
	{Name: "1d", Minutes: minutesOfDay}, {Name: "1w", Minutes: 7 * minutesOfDay},
	{Name: "1M", Minutes: minutesOfMonth, Months: 1}, {Name: "1Q", Minutes: 3 * minutesOfMonth, Months: 3},
	{Name: "1y", Minutes: 12 * minutesOfMonth, Months: 12},
}

// Floor returns the beginning of the bucket that holds t. Up to an hour, the two passes of a repeated hour are
// different buckets; longer ones begin where the calendar says, so that a day can have 23 or 25 hours.
func (b Bucket) Floor(t pool.Micros, zone *time.Location) pool.Micros {
	if b.Minutes <= 60 {
		return floorHour(t, pool.Micros(b.Minutes)*pool.Minute, zone)
	}
	local := pool.Time(t + offset(zone, t))
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case b.Months > 0:
		back := (int(day.Month()) + 12 - max(b.YearStart, 1)) % b.Months
		day = time.Date(day.Year(), day.Month()-time.Month(back), 1, 0, 0, 0, 0, time.UTC)
	case b.Minutes < minutesOfDay:
		day = day.Add(time.Duration(local.Hour()*60/b.Minutes*b.Minutes) * time.Minute)
	case b.Minutes > minutesOfDay:
		day = day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	}
	// Return the first instant at which the clock shows the day's time or, where it skips that, a later one.
	shown := occurrences(zone, day.UnixMicro())
	if !shown.missing {
		return shown.times[0]
	}
	// times[0] counts with the offset before the change: it lies after the change by what local lies after the skipped
	// hour's beginning
	change, _ := time.UnixMicro(shown.times[0]).In(zone).ZoneBounds()
	return change.UnixMicro()
}

// floorHour returns the latest time up to t at which the zone's clock shows a multiple of step, a part of an hour, or
// jumps over one.
func floorHour(t, step pool.Micros, zone *time.Location) pool.Micros {
	for {
		start := Floor(t, step, offset(zone, t))
		period, _ := time.UnixMicro(t).In(zone).ZoneBounds()
		change := period.UnixMicro()
		if period.IsZero() || start >= change {
			return start
		}
		// The clock was changed since it showed a multiple, as where it is changed by half an hour.
		before, after := change+offset(zone, change-1), change+offset(zone, change)
		if skipped := Floor(after, step, 0); before <= skipped {
			return change
		}
		t = change - 1
	}
}

// Next returns the beginning of the bucket after the one that begins at start.
func (b Bucket) Next(start pool.Micros, zone *time.Location) pool.Micros {
	step := pool.Hour
	t := start + pool.Micros(b.Minutes)*pool.Minute
	switch {
	case b.Minutes <= 60:
		step = pool.Micros(b.Minutes) * pool.Minute
	case b.Months > 0:
		t, step = start+pool.Micros(b.Months)*28*pool.Day-2*pool.Hour, 12*pool.Hour
	default:
		t -= 2 * pool.Hour
	}
	for ; ; t += step { // a clock change moves the boundary
		next := b.Floor(t, zone)
		if next <= start {
			continue
		}
		for earlier := b.Floor(next-1, zone); earlier > start; earlier = b.Floor(next-1, zone) {
			next = earlier
		}
		return next
	}
}
