package allocation

import (
	"cmp"
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// ranked are the states in the order in which they fit: of equal shares the first one names a machine's state.
var ranked = [...]counts.Use{counts.UsePrimary, counts.UseBackfill, counts.UsePrevented, counts.UseDrained,
	counts.UseFree, counts.UseOther}

// byMachine returns a frame for the GPUs of each device on each machine: the state that most of them are in, and the
// share of each state, on average over the plan's buckets. all are ordered by device and machine.
func byMachine(ctx context.Context, all []frames.States, p *query.Plan, about *frames.About) (data.Frames, error) {
	buckets, err := p.Buckets(p.Window.From)
	if err != nil {
		return nil, err
	}
	about.Count("GPUs shown together", len(all), "%s GPUs are more than the %d that are shown one by one: each row shows "+
		"the GPUs of one device on one machine, with the state of most of them, and the share of each state in further "+
		"fields", frames.Thousands(len(all)), maxGPUs)
	var shown []frames.States
	for len(all) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 1
		for n < len(all) && all[n].Device == all[0].Device && all[n].Machine == all[0].Machine {
			n++
		}
		row := frames.States{Device: all[0].Device, Machine: all[0].Machine}
		for _, state := range ranked {
			row.Shares = append(row.Shares, frames.Share{State: state.String()})
		}
		show(&row, together(all[:n], buckets, p.Window), buckets.Starts)
		shown, all = append(shown, row), all[n:]
	}
	return frames.StateTimeline(p, about, maxMachines, shown, stateMappings(true)), nil
}

// maxMachines is how many rows a state timeline by machine has.
const maxMachines = 5000

// together adds up the time of GPUs in each state, by bucket. A state holds to the next one, or to the window's end.
func together(gpus []frames.States, buckets query.Buckets, w pool.Window) [][counts.Uses]pool.Micros {
	times := make([][counts.Uses]pool.Micros, buckets.Len())
	for _, c := range gpus {
		for i, state := range c.States {
			if state < 0 {
				continue
			}
			from, to := c.Times[i], max(w.To, c.Times[i]+1) // a state at the very end is known
			if i+1 < len(c.Times) {
				to = c.Times[i+1]
			}
			for b := buckets.Of(from); b < len(times) && buckets.Starts[b] < to; b++ {
				times[b][state] += max(0, min(to, buckets.Starts[b+1])-max(from, buckets.Starts[b]))
			}
		}
	}
	return times
}

// show fills in the points at which the shares of states change, in percent: of buckets in which nothing is known NaN.
func show(row *frames.States, times [][counts.Uses]pool.Micros, starts []pool.Micros) {
	var before [counts.Uses]float64
	known := false
	for b := range times {
		var all pool.Micros
		for _, time := range times[b] {
			all += time
		}
		var shares [counts.Uses]float64
		for state, time := range times[b] {
			shares[state] = aggregate.Percent(float64(time), float64(all))
		}
		if any := all > 0; any == known && (!any || shares == before) {
			continue
		}
		before, known = shares, all > 0
		most := counts.UseNone
		if known {
			most = slices.MaxFunc(ranked[:], func(x, y counts.Use) int { return cmp.Compare(shares[x], shares[y]) })
			if shares[most] < 100 {
				most += mostly
			}
		}
		row.Times, row.States = append(row.Times, starts[b]), append(row.States, int8(most))
		for i, state := range ranked {
			row.Shares[i].Values = append(row.Shares[i].Values, shares[state])
		}
	}
}
