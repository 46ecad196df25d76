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

// lookBack is how far the beginning of a state is looked for.
const lookBack = 7 * pool.Day

// loadNewest loads the newest snapshot at or before a time, however long before, and the given time before it. snapshot
// is its number in the view, -1 if there is none.
func loadNewest(ctx context.Context, tl *timeline.Timeline, at, before pool.Micros) (view *timeline.View, snapshot int,
	err error) {
	first, newest, ok, err := tl.Range(ctx)
	if err != nil {
		return nil, -1, err
	}
	// a view holds the previous snapshot, if it is less than a day away
	for at = min(at, newest); ok && at >= first; at -= pool.Day {
		if view, err = tl.Load(ctx, at, at); err != nil {
			return nil, -1, err
		}
		if _, end := view.Snapshots(pool.Window{From: at, To: at}); end > 0 {
			t := view.Times[end-1]
			if view, err = tl.Load(ctx, t-before, t); err != nil {
				return nil, -1, err
			}
			_, end = view.Snapshots(pool.Window{From: t, To: t})
			return view, end - 1, nil
		}
	}
	view, err = tl.Load(ctx, at, at)
	return view, -1, err
}

// current lists every GPU of the newest snapshot of the window's end.
func current(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (data.Frames, error) {
	view, snapshot, err := loadNewest(ctx, tl, p.Window.To, lookBack)
	if err != nil {
		return nil, err
	}
	at := p.Window.To
	if snapshot >= 0 {
		at = view.Times[snapshot]
	}
	// Describe the data of that moment.
	s, err := view.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, pool.Window{From: at, To: at})
	if err != nil {
		return nil, err
	}
	about := frames.NewAbout(p, view, s.Coverage(p.Env.Lists))
	about.Unmatched(s)
	if snapshot < 0 {
		return about.Finish(nil), nil
	}
	if age := p.Window.To - at; age > view.GapLimit(snapshot) {
		about.Warn("the newest snapshot is %s h old: %s UTC", frames.Decimal(pool.Hours(age)), frames.Stamp(at))
	}
	names, classify := view.Names.Texts(), counts.NewClassifier(p, view.Names.Texts())
	if missing := missing(classify, view, snapshot); missing > 0 {
		about.Count("GPUs not listed", missing, "not listed: %s of machines that are missing from the newest snapshot",
			frames.Count(missing, "GPU"))
	}
	// List what each GPU is doing, and since when.
	holds, err := holdsAt(ctx, view, snapshot)
	if err != nil {
		return nil, err
	}
	day := view.Days[view.DayAt(snapshot)]
	rows := make([]*gpuRow, 0, day.GPUs())
	for i, class := range classify.GPUs(day) {
		h := holds[day.GPU(i)]
		if h.state != counts.UseNone && classify.Keeps(&class, h.side, h.row) {
			machine, id := view.Names.GPU(day.GPU(i))
			rows = append(rows, &gpuRow{h, class, names[machine], names[id], day.Model(i)})
		}
	}
	slices.SortFunc(rows, func(x, y *gpuRow) int {
		return cmp.Or(cmp.Compare(x.machine, y.machine), cmp.Compare(x.gpu, y.gpu))
	})
	return gpuTable(p, about, view, at, rows), nil
}

// gpuTable returns the table of rows at a time.
func gpuTable(p *query.Plan, about *frames.About, view *timeline.View, at pool.Micros,
	rows frames.Rows[gpuRow]) data.Frames {
	names := view.Names.Texts()
	return frames.List(p, about,
		rows.Text("machine", func(r *gpuRow) string { return r.machine }),
		rows.Text("gpu", func(r *gpuRow) string { return r.gpu }),
		rows.Text("device", func(r *gpuRow) string { return p.Shown("device", names[r.model.Device]) }),
		rows.Number("memoryGB", func(r *gpuRow) float64 { return r.model.Memory / 1024 }),
		rows.Text("category", func(r *gpuRow) string {
			return pool.CategoryOf(r.side, r.class.Ownership, r.row.Project != 0).String()
		}),
		rows.Text("state", func(r *gpuRow) string { return r.state.String() }),
		rows.Text("user", func(r *gpuRow) string {
			if r.row.State != pool.Claimed {
				return ""
			}
			return p.Shown("user", names[r.row.User])
		}),
		rows.Text("job", func(r *gpuRow) string { return p.Shown("job", view.Names.JobText(r.job)) }),
		rows.Time("since", func(r *gpuRow) pool.Micros { return view.Times[r.begin] }),
		rows.Number("hours", func(r *gpuRow) float64 { return pool.Hours(at - view.Times[r.begin]) }),
		rows.Text("preventReason", func(r *gpuRow) string { return names[r.row.Reason] }),
	)
}

type gpuRow struct {
	*hold
	class        counts.GPUClass
	machine, gpu string
	model        timeline.Model
}

// hold is an unbroken sequence of snapshots in which a GPU has the same state, user and job.
type hold struct {
	begin, end int // snapshots of the view; end is the one after the last
	state      counts.Use
	row        *timeline.Row // the last one that gives the state, and its side
	side       pool.Side
	job        timeline.Job
}

// holdsAt returns the last hold of each GPU up to a snapshot, which begins at most 7 days before and after a gap.
func holdsAt(ctx context.Context, view *timeline.View, snapshot int) (map[timeline.GPU]*hold, error) {
	first := snapshot
	for first > 0 && !view.GapAfter(first-1) && view.Times[first-1] >= view.Times[snapshot]-lookBack {
		first--
	}
	holds := map[timeline.GPU]*hold{}
	for d := view.DayAt(first); d <= view.DayAt(snapshot); d++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		day, base := view.Days[d], view.Base[d]
		jobs := day.Jobs()
		for i := range day.GPUs() {
			h := pool.In(holds, day.GPU(i))
			for span := range day.SpansIn(i, max(0, first-base), min(snapshot-base+1, len(day.Times))) {
				now := hold{begin: base + span.First, end: base + span.End}
				now.state, now.row, now.side = stateAt(day, span.Status)
				now.job = jobs[span.Status][now.side]
				if h.end == now.begin && h.row != nil && h.state == now.state && h.row.User == now.row.User && h.job == now.job {
					now.begin = h.begin
				}
				*h = now
			}
		}
	}
	return holds, nil
}

// missing counts the GPUs of the last 24 h whose machine has no row in the snapshot.
func missing(classify *counts.Classifier, view *timeline.View, snapshot int) int {
	reports := reporting(view, view.Times[snapshot], snapshot)
	n := 0
	for gpu, s := range sights(classify, view, view.Times[snapshot]-recent, snapshot) {
		if machine, _ := view.Names.GPU(gpu); s.chosen && s.last != snapshot && !reports[machine] {
			n++
		}
	}
	return n
}

// recent is how far back GPUs are looked for that the newest snapshot lacks.
const recent = pool.Day

// sight is the first and the last snapshot of the view with a row of a GPU, and what the GPU was in the last one.
type sight struct {
	first, last int
	device      timeline.Symbol
	chosen      bool // by the filter, on the day of the last snapshot
	drained     bool
	turned      int // the snapshot since which it is drained, or not, in all that have a row of it
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
		for m, machine := range day.Machines {
			for at := begin; at < end && !machines[machine.Name]; at++ {
				machines[machine.Name] = day.Reports(m, at)
			}
		}
	}
	return machines
}

// sights finds the GPUs with a row from a time to a snapshot of the view, whether the filter chooses them or not,
// because one whose ownership changes neither comes nor goes; none if the snapshot is −1.
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
				state, _, _ := stateAt(day, span.Status)
				if drained := state == counts.UseDrained; !known || drained != seen.drained {
					seen.drained, seen.turned = drained, base+span.First
				}
				seen.last, seen.device, seen.chosen = base+span.End-1, day.Model(i).Device, chosen[i]
				gpus[day.GPU(i)] = seen
			}
		}
	}
	return gpus
}

// holding is what a user holds: the first snapshot of the view in which a job does, and the GPUs.
type holding struct {
	first int
	gpus  map[timeline.GPU]bool
}

// holders finds the users whose jobs hold chosen GPUs from a time to a snapshot of the view.
func holders(classify *counts.Classifier, view *timeline.View, from pool.Micros,
	last int) map[timeline.Symbol]*holding {
	users := map[timeline.Symbol]*holding{}
	for d, day := range view.Days {
		begin, end := within(view, d, from, last)
		for i := range classify.GPUs(day) {
			for span := range day.SpansIn(i, begin, end) {
				_, row, _ := stateAt(day, span.Status)
				if row.State != pool.Claimed || row.User == 0 {
					continue
				}
				h := users[row.User]
				if h == nil {
					h = &holding{view.Base[d] + span.First, map[timeline.GPU]bool{}}
					users[row.User] = h
				}
				h.first = min(h.first, view.Base[d]+span.First)
				h.gpus[day.GPU(i)] = true
			}
		}
	}
	return users
}

// change is what happened to a number of GPUs of a machine, or a user who is new on them.
type change struct {
	machine, device, user, what string
	gpus                        float64
	since                       pool.Micros
}

// changes lists what came, went, or was drained in the time range (methodology section 5, changes).
func changes(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (data.Frames, error) {
	view, newest, err := loadNewest(ctx, tl, p.Window.To, p.Window.To-p.Window.From+lookBack)
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
	// Compare the GPUs before the window with those in it.
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
	// New GPUs, and those whose drain began or ended.
	for gpu, seen := range since {
		switch earlier, known := before[gpu]; {
		case !seen.chosen || seen.last != newest:
		case !known:
			add(gpu, seen.device, machinesBefore, "New machine", "New GPUs", seen.first)
		case seen.drained && !earlier.drained:
			add(gpu, seen.device, machinesBefore, "Drain began", "Drain began", seen.turned)
		case earlier.drained && !seen.drained:
			add(gpu, seen.device, machinesBefore, "Drain ended", "Drain ended", seen.turned)
		}
	}
	// GPUs that the newest snapshot lacks.
	for gpu, seen := range before {
		if later, again := since[gpu]; again {
			seen = later
		}
		if seen.chosen && seen.last < newest {
			add(gpu, seen.device, machinesNow, "Machine gone", "GPUs gone", seen.last)
		}
	}
	all := slices.AppendSeq(newUsers(p, classify, view, begin, newest), maps.Values(found))
	return listChanges(p, about, all), nil
}

// newUsers are the users who held nothing in the days before the window, whose first snapshot is begin.
func newUsers(p *query.Plan, classify *counts.Classifier, view *timeline.View, begin, newest int) (found []*change) {
	known := holders(classify, view, p.Window.From-lookBack, begin-1)
	for user, h := range holders(classify, view, p.Window.From, newest) {
		if known[user] == nil {
			found = append(found, &change{user: p.Shown("user", view.Names.Text(user)), what: "New user",
				gpus: float64(len(h.gpus)), since: view.Times[h.first]})
		}
	}
	return found
}

// listChanges lists the newest first.
func listChanges(p *query.Plan, about *frames.About, found []*change) data.Frames {
	rows := frames.Rows[change](found)
	slices.SortFunc(rows, func(a, b *change) int {
		return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(a.machine, b.machine), cmp.Compare(a.device, b.device),
			cmp.Compare(a.user, b.user), cmp.Compare(a.what, b.what))
	})
	return frames.List(p, about,
		rows.Text("machine", func(c *change) string { return c.machine }),
		rows.Text("device", func(c *change) string { return c.device }),
		rows.Text("user", func(c *change) string { return c.user }),
		rows.Text("change", func(c *change) string { return c.what }),
		rows.Number("gpus", func(c *change) float64 { return c.gpus }),
		rows.Time("since", func(c *change) pool.Micros { return c.since }),
	)
}
