package allocation

import (
	"cmp"
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// ranked are the states in the order in which they fit: of equal shares the first one names a machine's state.
var ranked = [...]gpuState{stateClaimed, stateBackfill, statePrevented, stateDrained, stateFree, stateOther}

// byMachine returns a frame for the GPUs of each device on each machine: the state that most of them are in, and the
// share of each state, on average over the plan's buckets. all are ordered by device and machine.
func byMachine(ctx context.Context, all []*stateChanges, p *query.Plan, about *frames.About) (data.Frames, error) {
	buckets, err := p.Buckets(p.Window.From)
	if err != nil {
		return nil, err
	}
	about.Info("%s GPUs are more than the %d that are shown one by one: each row shows the GPUs of one device on one "+
		"machine, with the state of most of them, and the share of each state in further "+
		"fields", frames.Thousands(len(all)), maxGPUs)
	var shown []frames.States
	for len(all) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 1
		for n < len(all) && all[n].device == all[0].device && all[n].machine == all[0].machine {
			n++
		}
		row := frames.States{Device: all[0].device, Machine: all[0].machine}
		together(all[:n], buckets, p.Window).show(&row, buckets.Starts)
		shown, all = append(shown, row), all[n:]
	}
	return frames.StateTimeline(p, about, maxMachines, shown, mostlyMappings()), nil
}

// maxMachines is how many rows a state timeline by machine has.
const maxMachines = 5000

// stateTimes is the time that GPUs spend in each state, by bucket.
type stateTimes [][len(stateNames)]pool.Micros

// together adds up the courses of GPUs through the window. A state holds until the next one, the last one to the end of
// the window.
func together(gpus []*stateChanges, buckets query.Buckets, w pool.Window) stateTimes {
	times := make(stateTimes, buckets.Len())
	for _, c := range gpus {
		for i, state := range c.states {
			if state < 0 {
				continue
			}
			from, to := c.times[i], max(w.To, c.times[i]+1) // a state at the very end is known
			if i+1 < len(c.times) {
				to = c.times[i+1]
			}
			for b := buckets.Of(from); b < len(times) && buckets.Starts[b] < to; b++ {
				times[b][state] += max(0, min(to, buckets.Starts[b+1])-max(from, buckets.Starts[b]))
			}
		}
	}
	return times
}

// show fills in the points at which the shares change: of buckets in which nothing is known NaN.
func (t stateTimes) show(row *frames.States, starts []pool.Micros) {
	for _, state := range ranked {
		row.Shares = append(row.Shares, frames.Share{State: state.String()})
	}
	var before [len(stateNames)]float64
	known := false
	for b := range t {
		shares, any := t.shares(b)
		if any == known && (!any || shares == before) {
			continue
		}
		before, known = shares, any
		most := int8(stateNone)
		if any {
			most = int8(slices.MaxFunc(ranked[:], func(x, y gpuState) int { return cmp.Compare(shares[x], shares[y]) }))
			if shares[most] < 100 {
				most += mostly
			}
		}
		row.Times, row.States = append(row.Times, starts[b]), append(row.States, most)
		for i, state := range ranked {
			row.Shares[i].Values = append(row.Shares[i].Values, shares[state])
		}
	}
}

// shares returns the share of each state in a bucket in percent, NaN if nothing is known there.
func (t stateTimes) shares(bucket int) (shares [len(stateNames)]float64, known bool) {
	var all pool.Micros
	for _, time := range t[bucket] {
		all += time
	}
	for state, time := range t[bucket] {
		shares[state] = aggregate.Percent(float64(time), float64(all))
	}
	return shares, all > 0
}
