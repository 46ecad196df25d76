package runs

import (
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Hours are the local hours that a window touches.
type Hours struct {
	query.Buckets
	cells []uint8
}

// HoursOf returns the local hours of a window.
func HoursOf(w pool.Window, zone *time.Location) Hours {
	hour := localtime.Bucket{Name: "1h", Minutes: 60}
	h := Hours{Buckets: query.Buckets{Starts: []pool.Micros{hour.Floor(w.From, zone)}}}
	for start := h.Starts[0]; start <= w.To; h.Starts = append(h.Starts, start) {
		local := pool.Time(start).In(zone)
		h.cells = append(h.cells, uint8((int(local.Weekday())+6)%7*24+local.Hour()))
		start = hour.Next(start, zone)
	}
	return h
}

// Cell is the local weekday (0 = Monday) and hour of the i-th hour.
func (h *Hours) Cell(i int) (day, hour int) { return int(h.cells[i]) / 24, int(h.cells[i]) % 24 }
