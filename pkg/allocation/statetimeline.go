package allocation

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// maxGPUs is how many GPUs a state timeline shows one by one.
const maxGPUs = 500

// stateTimeline returns a frame a GPU with its states: a point at each change, null where its rows end and where a gap
// begins. Of more GPUs than it shows one by one it returns a frame for the GPUs of a device on a machine; a limit that
// the query names cuts instead. Frames are ordered by device, machine and GPU.
func stateTimeline(ctx context.Context, s *timeline.Slices, p *query.Plan, about *frames.About) (data.Frames, error) {
	all, err := statesOf(ctx, s, p)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b frames.States) int {
		return cmp.Or(query.CompareValues("device", a.Device, b.Device), cmp.Compare(a.Machine, b.Machine),
			cmp.Compare(a.GPU, b.GPU))
	})
	if len(all) > maxGPUs && p.Limit == 0 {
		return byMachine(ctx, all, p, about)
	}
	return frames.StateTimeline(p, about, maxGPUs, all, stateMappings(false)), nil
}

// add adds a state of a GPU from a time on; UseNone: unknown from there on.
func add(to *frames.States, t pool.Micros, state counts.Use) {
	if n := len(to.States); n == 0 && state != counts.UseNone || n > 0 && to.States[n-1] != int8(state) {
		to.Times, to.States = append(to.Times, t), append(to.States, int8(state))
	}
}

// statesOf returns the GPUs' states over the window, in no order. A gap begins one cadence after its earlier snapshot,
// because a snapshot represents that much time.
func statesOf(ctx context.Context, s *timeline.Slices, p *query.Plan) (all []frames.States, err error) {
	view, classify, found := s.View, counts.NewClassifier(p, s.View.Names.Texts()), map[timeline.GPU]*frames.States{}
	for i := range parallel.Until(ctx, len(s.Days)) {
		day := &s.Days[i]
		// Find the snapshots that a gap follows, or nothing up to the window's end for longer than the limit.
		from, to := day.Snapshots()
		gaps := make([]bool, to)
		for n := from; n < to; n++ {
			at := view.Base[day.Index] + n
			gaps[n] = view.GapAfter(at) || at+1 == len(view.Times) && p.Window.To-view.Times[at] > view.GapLimit(at)
		}
		// Add the states of the day's GPUs, in which they stay from one snapshot to the next.
		here := map[timeline.GPU]bool{}
		for g, class := range classify.GPUs(day.Day) {
			gpu := day.GPU(g)
			here[gpu] = true
			states := pool.In(found, gpu)
			states.Device = p.Shown("device", view.Names.Text(day.Model(g).Device)) // the last one known
			for span := range day.SpansIn(g, from, to) {
				state, row, side := stateAt(day.Day, span.Status)
				if state != counts.UseNone && !classify.Keeps(&class, side, row) {
					state = counts.UseNone
				}
				add(states, day.Times[span.First], state)
				for n := span.First; n < span.End; n++ {
					if gaps[n] {
						add(states, day.Times[n]+view.Cadence(day.Date), counts.UseNone)
						if n+1 < span.End {
							add(states, day.Times[n+1], state)
						}
					}
				}
			}
		}
		for gpu, states := range found {
			if !here[gpu] { // no row on this whole day
				add(states, day.Times[from], counts.UseNone)
			}
		}
	}
	for gpu, states := range found {
		if len(states.States) > 0 {
			machine, id := view.Names.GPU(gpu)
			states.Machine, states.GPU = view.Names.Text(machine), view.Names.Text(id)
			all = append(all, *states)
		}
	}
	return all, ctx.Err()
}

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
	rows := d.StatusRows(status)
	state, side := counts.UseOf(rows)
	return state, rows[side], side
}

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
