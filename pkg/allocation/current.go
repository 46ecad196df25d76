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
	user := func(r *gpuRow) string {
		if r.row.State != pool.Claimed {
			return ""
		}
		return p.Shown("user", names[r.row.User])
	}
	return frames.List(p, about,
		rows.Text("machine", func(r *gpuRow) string { return r.machine }),
		rows.Text("gpu", func(r *gpuRow) string { return r.gpu }),
		rows.Text("device", func(r *gpuRow) string { return p.Shown("device", names[r.model.Device]) }),
		rows.Number("memoryGB", func(r *gpuRow) float64 { return r.model.Memory / 1024 }),
		rows.Text("category", func(r *gpuRow) string { return counts.CategoryOf(&r.class, r.side, r.row).String() }),
		rows.Text("state", func(r *gpuRow) string { return r.state.String() }),
		rows.Text("user", user),
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
			h := holds[day.GPU(i)]
			if h == nil {
				h = &hold{}
				holds[day.GPU(i)] = h
			}
			for span := range day.SpansIn(i, max(0, first-base), min(snapshot-base+1, len(day.Times))) {
				now := hold{begin: base + span.First, end: base + span.End}
				now.state, now.row, now.side = stateAt(day, span.Status)
				now.job = jobs.Of(span.Status, now.side)
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
