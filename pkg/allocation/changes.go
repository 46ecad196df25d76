package allocation

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// recent is how far back GPUs are looked for that the newest snapshot lacks.
const recent = pool.Day

// sight is the first and the last snapshot of the view with a row of a GPU, and its device then.
type sight struct {
	first, last int
	device      timeline.Symbol
	chosen      bool // by the filter, on the day of the last snapshot
}

// within returns the first snapshot of a day of the view from a time on, and the end of those up to a snapshot of the
// view; there are none if it is not before that.
func within(view *timeline.View, d int, from pool.Micros, last int) (begin, end int) {
	begin, _ = slices.BinarySearch(view.Days[d].Times, from)
	return begin, min(last-view.Base[d]+1, len(view.Days[d].Times))
}

// reporting returns the machines with a row from a time to a snapshot of the view; none if that is −1.
func reporting(view *timeline.View, from pool.Micros, last int) map[timeline.Symbol]bool {
	machines := map[timeline.Symbol]bool{}
	for d, day := range view.Days {
		begin, end := within(view, d, from, last)
		for m, machine := range day.Machines() {
			for at := begin; at < end && !machines[machine.Name]; at++ {
				machines[machine.Name] = day.Reports(m, at)
			}
		}
	}
	return machines
}

// sights finds the GPUs with a row from a time to a snapshot of the view, whether the filter chooses them or not, because
// one whose ownership changes neither comes nor goes; none if the snapshot is −1.
func sights(classify *counts.Classifier, view *timeline.View, from pool.Micros, last int) map[timeline.GPU]sight {
	gpus := map[timeline.GPU]sight{}
	for d, day := range view.Days {
		begin, end := within(view, d, from, last)
		base, chosen := view.Base[d], make([]bool, day.GPUs())
		for i := range classify.GPUs(day) {
			chosen[i] = true
		}
		for i := range chosen {
			for span := range day.SpansIn(i, begin, end) {
				if span.Status == timeline.Silent || span.Status == timeline.Absent {
					continue
				}
				seen, known := gpus[day.GPU(i)]
				if !known {
					seen.first = base + span.First
				}
				seen.last, seen.device, seen.chosen = base+span.End-1, day.Model(i).Device, chosen[i]
				gpus[day.GPU(i)] = seen
			}
		}
	}
	return gpus
}

// change is a number of GPUs of a machine that came or went.
type change struct {
	machine, device, what string
	gpus                  float64
	since                 pool.Micros
}

// changes lists the GPUs and machines that came or went in the time range (methodology section 5, changes).
func changes(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (data.Frames, error) {
	view, newest, err := loadNewest(ctx, tl, p.Window.To, p.Window.To-p.Window.From+recent)
	if err != nil {
		return nil, err
	}
	s, err := view.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, err
	}
	about := frames.NewAbout(p, view, s.Coverage(p.Env.Lists))
	about.Unmatched(s)
	begin, end := view.Snapshots(p.Window)
	if begin == end {
		return about.Finish(nil), nil
	}
	classify := counts.NewClassifier(p, view.Names.Texts())
	machinesBefore := reporting(view, p.Window.From-recent, begin-1)
	if len(machinesBefore) == 0 {
		about.Info("changes cannot be told: no snapshot in the 24 h before the time range")
		return about.Finish(nil), nil
	}
	before := sights(classify, view, p.Window.From-recent, begin-1)
	since := sights(classify, view, p.Window.From, newest)
	machinesNow := reporting(view, view.Times[newest], newest)
	found := map[change]*change{}
	add := func(gpu timeline.GPU, device timeline.Symbol, machines map[timeline.Symbol]bool, whole, part string, at int) {
		machine, _ := view.Names.GPU(gpu)
		c := change{machine: view.Names.Text(machine), device: p.Shown("device", view.Names.Text(device)), what: part}
		if !machines[machine] {
			c.what = whole
		}
		if found[c] == nil {
			found[c] = &change{machine: c.machine, device: c.device, what: c.what}
		}
		found[c].gpus++
		found[c].since = max(found[c].since, view.Times[at])
	}
	for gpu, seen := range since {
		if _, known := before[gpu]; !known && seen.chosen && seen.last == newest {
			add(gpu, seen.device, machinesBefore, "New machine", "New GPUs", seen.first)
		}
	}
	for gpu, seen := range before {
		if later, again := since[gpu]; again {
			seen = later
		}
		if seen.chosen && seen.last < newest {
			add(gpu, seen.device, machinesNow, "Machine gone", "GPUs gone", seen.last)
		}
	}
	rows := slices.SortedFunc(maps.Values(found), func(a, b *change) int {
		return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(a.machine, b.machine), cmp.Compare(a.device, b.device),
			cmp.Compare(a.what, b.what))
	})
	return frames.List(p, about,
		frames.Text("machine", frames.Each(rows, func(c *change) string { return c.machine })),
		frames.Text("device", frames.Each(rows, func(c *change) string { return c.device })),
		frames.Text("change", frames.Each(rows, func(c *change) string { return c.what })),
		frames.Number("gpus", frames.Each(rows, func(c *change) float64 { return c.gpus })),
		frames.Time("since", frames.Each(rows, func(c *change) pool.Micros { return c.since })),
	), nil
}
