package allocation

import (
	"cmp"
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// stateChanges is a GPU's way through a window.
type stateChanges struct {
	device       string // the last one known
	machine, gpu string
	times        []pool.Micros
	states       []int8 // by number; stateNone: unknown from here on
	any          bool   // it has a state
}

func (c *stateChanges) add(t pool.Micros, s gpuState) {
	if n := len(c.states); n == 0 && s == stateNone || n > 0 && c.states[n-1] == int8(s) {
		return
	}
	c.times, c.states, c.any = append(c.times, t), append(c.states, int8(s)), c.any || s != stateNone
}

// maxGPUs is how many GPUs a state timeline shows one by one.
const maxGPUs = 500

// stateTimeline returns a frame a GPU with its states: a point at each change, null where its rows end and where a gap
// begins. Of more GPUs than it shows one by one it returns a frame for the GPUs of a device on a machine; a limit that
// the query names cuts instead. Frames are ordered by device, machine and GPU.
func stateTimeline(ctx context.Context, s *timeline.Slices, p *query.Plan, about *frames.About) (data.Frames, error) {
	all, err := changesOf(ctx, s, p)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *stateChanges) int {
		return cmp.Or(query.CompareValues("device", a.device, b.device), cmp.Compare(a.machine, b.machine),
			cmp.Compare(a.gpu, b.gpu))
	})
	if len(all) > maxGPUs && p.Limit == 0 {
		return byMachine(ctx, all, p, about)
	}
	shown := make([]frames.States, len(all))
	for i, c := range all {
		shown[i] = frames.States{Device: c.device, Machine: c.machine, GPU: c.gpu, Times: c.times, States: c.states}
	}
	return frames.StateTimeline(p, about, maxGPUs, shown, stateMappings()), nil
}

// changesOf returns the GPUs' states over the window, in no order. A gap begins one cadence after its earlier snapshot,
// because a snapshot represents that much time.
func changesOf(ctx context.Context, s *timeline.Slices, p *query.Plan) ([]*stateChanges, error) {
	view, names := s.View, s.View.Names.Texts()
	classify := counts.NewClassifier(p, names)
	changes := map[timeline.GPU]*stateChanges{}
	for i := range s.Days {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		day := &s.Days[i]
		from, to := day.Snapshots()
		base := view.Base[day.Index]
		ends := gapEnds(view, base+from, base+to, p.Window.To)
		here := map[timeline.GPU]bool{}
		for g, class := range classify.GPUs(day.Day) {
			gpu := day.GPU(g)
			here[gpu] = true
			c := changes[gpu]
			if c == nil {
				machine, id := view.Names.GPU(gpu)
				c = &stateChanges{machine: names[machine], gpu: names[id]}
				changes[gpu] = c
			}
			c.device = p.Shown("device", names[day.Model(g).Device])
			for span := range day.SpansIn(g, from, to) {
				state, row, side := stateAt(day.Day, span.Status)
				if state != stateNone && !classify.Keeps(class, side, row) {
					state = stateNone
				}
				c.add(day.Times[span.First], state)
				c.addGaps(day, ends, base, span, state)
			}
		}
		for gpu, c := range changes { // no row on this whole day
			if !here[gpu] {
				c.add(day.Times[from], stateNone)
			}
		}
	}
	all := make([]*stateChanges, 0, len(changes))
	for _, c := range changes {
		if c.any {
			all = append(all, c)
		}
	}
	return all, nil
}

// addGaps adds the gaps of a day that are in a span, after which its state continues.
func (c *stateChanges) addGaps(day *timeline.DaySlices, ends []gapEnd, base int, span timeline.Span, state gpuState) {
	for _, e := range ends { // few
		next := e.snapshot - base + 1
		if span.First < next && next <= span.End {
			c.add(e.null, stateNone)
			if next < span.End {
				c.add(day.Times[next], state)
			}
		}
	}
}

// gapEnd is a snapshot with a gap after it, and the time from which nothing is known.
type gapEnd struct {
	snapshot int
	null     pool.Micros
}

// gapEnds returns the snapshots [from, end) that a gap follows, or nothing for longer than the gap limit before the
// window's end.
func gapEnds(view *timeline.View, from, end int, windowEnd pool.Micros) (ends []gapEnd) {
	for i := from; i < end; i++ {
		open := i+1 == len(view.Times) && windowEnd-view.Times[i] > view.GapLimit(i)
		if open || view.GapAfter(i) {
			ends = append(ends, gapEnd{i, view.Times[i] + view.Cadence(pool.DayOf(view.Times[i]))})
		}
	}
	return ends
}
