package check

import (
	"fmt"

	"github.com/chtc/gpureports/pkg/pool"
)

// cadenceFindings checks the cadence of the newest day.
func cadenceFindings(all []month, sliceMinutes int) []Finding {
	newest := &all[len(all)-1]
	if 2*len(newest.times) < 8 { // too few to find a cadence
		return nil
	}
	return CadenceFindings(newest.cadences[len(newest.cadences)-1], sliceMinutes)
}

// CadenceFindings compares the collector's cadence with the length of a slice, 0 for each snapshot its own (methodology
// section 4). Nothing is said of a cadence that fits.
func CadenceFindings(cadence pool.Micros, sliceMinutes int) []Finding {
	slice := pool.Micros(sliceMinutes) * pool.Minute
	found := Finding{Store: "cadence", Severity: Note,
		Details: map[string]any{"cadenceSeconds": seconds(cadence), "sliceMinutes": sliceMinutes}}
	switch {
	case 3*cadence < 2*slice:
		found.Text = fmt.Sprintf("cadence: snapshots come every %s, but slices last %d min: a GPU that any snapshot of a "+
			"slice shows claimed counts as claimed for all of it, so averages and hours come out too high. Set sliceMinutes "+
			"to 0, or to the cadence", shortLength(cadence), sliceMinutes)
	case cadence > 31*pool.Minute:
		found.Text = fmt.Sprintf("cadence: there is only one snapshot every %s, and shorter events are not seen. Take one "+
			"every 15 min",
			shortLength(cadence))
	default:
		return nil
	}
	return []Finding{found}
}
