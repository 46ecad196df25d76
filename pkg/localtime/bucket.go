package localtime

import (
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Bucket is a length of calendar time: full local hours and parts of them, days and weeks (methodology section 5).
type Bucket struct {
	Name    string
	Minutes int // nominal length
}

// Buckets lists the buckets of the query model, ascending.
var Buckets = []Bucket{{"5m", 5}, {"10m", 10}, {"15m", 15}, {"30m", 30}, {"1h", 60}, {"3h", 180}, {"6h", 360}, {"12h", 720}, {"1d", 1440}, {"1w", 10080}}

// Floor returns the beginning of the bucket that holds t. Up to an hour, the two passes of a repeated hour are different
// buckets; longer ones begin where the calendar says, so that a day can have 23 or 25 hours.
func (b Bucket) Floor(t pool.Micros, zone *time.Location) pool.Micros {
	if b.Minutes <= 60 {
		return floor(t, pool.Micros(b.Minutes)*pool.Minute, offset(zone, t))
	}
	local := pool.Time(t + offset(zone, t))
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	switch {
	case b.Minutes < 1440:
		day = day.Add(time.Duration(local.Hour()*60/b.Minutes*b.Minutes) * time.Minute)
	case b.Minutes > 1440:
		day = day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	}
	return first(zone, day.UnixMicro())
}

// Next returns the beginning of the bucket after the one that begins at start.
func (b Bucket) Next(start pool.Micros, zone *time.Location) pool.Micros {
	length := pool.Micros(b.Minutes) * pool.Minute
	if b.Minutes <= 60 {
		for t := start + length; ; t += length { // a clock change by half an hour moves the boundary
			if next := b.Floor(t, zone); next > start {
				return next
			}
		}
	}
	for t := start + length - 2*pool.Hour; ; t += pool.Hour {
		if next := b.Floor(t, zone); next > start {
			return next
		}
	}
}

// first returns the first instant at which the zone's clock shows local or, where it skips local, a later time.
func first(zone *time.Location, local pool.Micros) pool.Micros {
	f := occurrences(zone, local)
	if !f.missing {
		return f.times[0]
	}
	// times[0] counts with the offset before the change: it lies after the change by what local lies after the skipped hour's beginning
	t := f.times[0]
	change := time.UnixMicro(t).In(zone)
	start, _ := change.ZoneBounds()
	return start.UnixMicro()
}
