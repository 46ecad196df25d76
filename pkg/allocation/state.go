package allocation

import (
	"strconv"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// stateColors are hues that color-blind people can distinguish (Okabe and Ito), on light and on dark.
var stateColors = [counts.Uses]string{counts.UseFree: "#009E73", counts.UsePrimary: "#0072B2",
	counts.UseBackfill: "#CC79A7", counts.UseDrained: "#E69F00", counts.UsePrevented: "#D55E00",
	counts.UseOther: "#8E8E8E"}

// mostly is added to the number of a state that most GPUs of a machine are in, but not all.
const mostly = 10

// stateMappings show the numbers of states as words; of machines also those of most GPUs, in a lighter color.
func stateMappings(ofMachines bool) data.ValueMappings {
	mapper := data.ValueMapper{}
	show := func(number int, text, color string) {
		mapper[strconv.Itoa(number)] = data.ValueMappingResult{Text: text, Color: color, Index: number}
	}
	for n, color := range stateColors {
		state := counts.Use(n).String()
		if show(n, state, color); ofMachines {
			show(n+mostly, "Mostly "+state, color+"80")
		}
	}
	return data.ValueMappings{mapper}
}

// stateAt returns the state of a GPU with a status, and the row and side that give it.
func stateAt(d *timeline.Day, status uint32) (counts.Use, *timeline.Row, pool.Side) {
	primary, backfill := d.StatusRows(status)
	rows := [2]*timeline.Row{d.Row(primary), d.Row(backfill)}
	state, side := counts.UseOf(rows)
	return state, rows[side], side
}
