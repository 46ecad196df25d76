package jobs

import (
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Date is a date of an ad, in seconds since 1970 by its access point's clock; 0 = not stored.
type Date int64

// Micros is the date in the unit of snapshots; 0 = not stored.
func (d Date) Micros() pool.Micros { return pool.Micros(d) * pool.Second }

// Time is the date in UTC; the zero time = not stored.
func (d Date) Time() time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Unix(int64(d), 0).UTC()
}

// Since is how long after another date it is.
func (d Date) Since(earlier Date) time.Duration { return time.Duration(d-earlier) * time.Second }

// day is the UTC day, counted from 1970.
func (d Date) day() int32 { return int32(d / secondsOfDay) }
