package timeline

import (
	"context"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
)

// Coverage is what every answer says about the data it stands on (methodology section 10).
type Coverage struct {
	Window         pool.Window
	Snapshots      int         // in the window
	Slices         int         // N
	Covered        pool.Micros // D
	Gaps           []Gap       // those that overlap the window
	RowsWithoutGPU int         // of the window's snapshots
	Excluded       []Excluded  // with a machine in the window's days
}

// Gap is a distance of two snapshots above the gap limit: collectors were not run in between.
type Gap struct{ From, To pool.Micros }

// Excluded is an exclusion with the machines that it takes out, sorted by name.
type Excluded struct {
	pool.Exclusion
	Machines []string
}

// Coverage returns the coverage of a window.
func (s *Slices) Coverage(lists pool.Lists) Coverage { return Coverage{} }

// Covered returns D of a range of time: hours that are covered (methodology sections 6 and 12).
func (s *Slices) Covered(w pool.Window) pool.Micros { return 0 }

// Slices are the slices of methodology section 4 that have a snapshot in a window. Ordinals count them from 0.
type Slices struct {
	View    *View
	Window  pool.Window
	Begin   []pool.Micros // of each slice, ascending
	zone    *localtime.Zone
	minutes int
	first   int     // number of the first snapshot in the window
	ordinal []int32 // of the slice of each snapshot in the window
}

// Slices forms the slices of a window; minutes 0 makes every snapshot its own slice.
func (v *View) Slices(ctx context.Context, zone *localtime.Zone, minutes int, w pool.Window) *Slices {
	return &Slices{View: v, Window: w, zone: zone, minutes: minutes}
}

// N is the number of slices.
func (s *Slices) N() int { return len(s.Begin) }
