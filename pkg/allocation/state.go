package allocation

import (
	"strconv"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// gpuState is a GPU's state at one snapshot, as `current` and `stateTimeline` show it.
type gpuState int8

// The states; the state timeline uses their numbers.
const (
	stateNone      gpuState = -1 // no row
	stateFree      gpuState = 0
	stateClaimed   gpuState = 1 // by a primary slot
	stateBackfill  gpuState = 2 // by a backfill slot
	stateDrained   gpuState = 3
	statePrevented gpuState = 4
	stateOther     gpuState = 5
)

var stateNames = [...]string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"}

func (s gpuState) String() string { return stateNames[s] }

// stateColors are hues that color-blind people can distinguish (Okabe and Ito), on light and on dark.
var stateColors = [...]string{"#009E73", "#0072B2", "#CC79A7", "#E69F00", "#D55E00", "#8E8E8E"}

// stateMappings show the numbers as words.
func stateMappings() data.ValueMappings {
	mapper := data.ValueMapper{}
	for s := stateFree; s <= stateOther; s++ {
		mapper[string('0'+byte(s))] = data.ValueMappingResult{Text: s.String(), Color: stateColors[s], Index: int(s)}
	}
	return data.ValueMappings{mapper}
}

// mostly is added to the number of a state that most GPUs of a machine are in, but not all.
const mostly = 10

// mostlyMappings show states of machines as words, those of most GPUs in a lighter color.
func mostlyMappings() data.ValueMappings {
	all := stateMappings()
	mapper := all[0].(data.ValueMapper)
	for s := stateFree; s <= stateOther; s++ {
		mapper[strconv.Itoa(int(s)+mostly)] = data.ValueMappingResult{Text: "Mostly " + s.String(),
			Color: stateColors[s] + "80", Index: int(s) + mostly}
	}
	return all
}

// stateAt returns the state of a GPU with a status, the first that fits, and the row and side that give it.
func stateAt(d *timeline.Day, status uint32) (gpuState, *timeline.Row, pool.Side) {
	p, b := d.StatusRows(status)
	primary, backfill := d.Row(p), d.Row(b)
	row, side := primary, pool.Primary
	if primary.State == pool.None || primary.State != pool.Claimed && backfill.State == pool.Claimed {
		row, side = backfill, pool.Backfill
	}
	switch {
	case row.State == pool.None:
		return stateNone, row, side
	case row.State == pool.Claimed && side == pool.Primary:
		return stateClaimed, row, side
	case row.State == pool.Claimed:
		return stateBackfill, row, side
	case row.Prevented:
		return statePrevented, row, side
	case row.State == pool.Drained:
		return stateDrained, row, side
	case row.State == pool.Unclaimed:
		return stateFree, row, side
	}
	return stateOther, row, side
}
