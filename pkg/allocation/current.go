package allocation

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

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
	about.Unmatched(view, counts.DaysOf(s))
	if snapshot < 0 {
		return about.Finish(nil), nil
	}
	if age := p.Window.To - at; age > view.GapLimit(snapshot) {
		about.Warn("the newest snapshot is %s h old: %s UTC", frames.Decimal(pool.Hours(age)), frames.Stamp(at))
	}
	names := view.Names.Texts()
	classify, history := counts.NewClassifier(p, names), newHistory(view, snapshot)
	index := view.DayAt(snapshot)
	day := view.Days[index]
	if missing := missing(classify, view, snapshot); missing > 0 {
		about.Info("not listed: %s of machines that are missing from the newest snapshot", frames.Count(missing, "GPU"))
	}

	rows := make([]*gpuRow, 0, day.GPUs())
	for i, class := range classify.GPUs(day) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		first, spans := day.Spans(i)
		status := spans[spanAt(first, snapshot-view.Base[index])]
		state, row, side := stateAt(day, status)
		if state == stateNone || !classify.Keeps(class, side, row) {
			continue
		}
		model, job := day.Model(i), history.jobs[index]().Of(status, side)
		since := history.since(day.GPU(i), state, row, job)
		r := &gpuRow{
			device: p.Shown("device", names[model.Device]), memory: model.Memory / 1024,
			category: counts.CategoryOf(class, side, row).String(),
			state:    state.String(), job: p.Shown("job", view.Names.JobText(job)), since: since,
			hours: pool.Hours(at - since), preventReason: names[row.Reason],
		}
		machine, id := view.Names.GPU(day.GPU(i))
		r.machine, r.gpu = names[machine], names[id]
		if row.State == pool.Claimed {
			r.user = p.Shown("user", names[row.User])
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(x, y *gpuRow) int {
		return cmp.Or(cmp.Compare(x.machine, y.machine), cmp.Compare(x.gpu, y.gpu))
	})
	return gpuTable(p, about, rows), nil
}

// gpuTable returns the table of rows.
func gpuTable(p *query.Plan, about *frames.About, rows []*gpuRow) data.Frames {
	return frames.List(p, about,
		frames.Text("machine", frames.Each(rows, func(r *gpuRow) string { return r.machine })),
		frames.Text("gpu", frames.Each(rows, func(r *gpuRow) string { return r.gpu })),
		frames.Text("device", frames.Each(rows, func(r *gpuRow) string { return r.device })),
		frames.Number("memoryGB", frames.Each(rows, func(r *gpuRow) float64 { return r.memory })),
		frames.Text("category", frames.Each(rows, func(r *gpuRow) string { return r.category })),
		frames.Text("state", frames.Each(rows, func(r *gpuRow) string { return r.state })),
		frames.Text("user", frames.Each(rows, func(r *gpuRow) string { return r.user })),
		frames.Text("job", frames.Each(rows, func(r *gpuRow) string { return r.job })),
		frames.Time("since", frames.Each(rows, func(r *gpuRow) pool.Micros { return r.since })),
		frames.Number("hours", frames.Each(rows, func(r *gpuRow) float64 { return r.hours })),
		frames.Text("preventReason", frames.Each(rows, func(r *gpuRow) string { return r.preventReason })),
	)
}

// gpuRow is a row of the table.
type gpuRow struct {
	machine, gpu, device, category, state, user, job, preventReason string
	memory, hours                                                   float64
	since                                                           pool.Micros
}

// history finds out since when GPUs have been in their state.
type history struct {
	view  *timeline.View
	last  int              // the snapshot in question
	first int              // the earliest snapshot without a gap in between, at most 7 days back
	gpus  []func() []int32 // of each day: the places of GPUs, −1 = none
	jobs  []func() *timeline.Jobs
}

func newHistory(view *timeline.View, snapshot int) *history {
	h := &history{view: view, last: snapshot, first: snapshot}
	for d, day := range view.Days {
		h.gpus = append(h.gpus, sync.OnceValue(func() []int32 { return view.Places(d) }))
		h.jobs = append(h.jobs, sync.OnceValue(day.Jobs))
	}
	for h.first > 0 && !view.GapAfter(h.first-1) && view.Times[h.first-1] >= view.Times[snapshot]-lookBack {
		h.first--
	}
	return h
}

// since returns the beginning of the unbroken sequence with the same state, user and job.
func (h *history) since(gpu timeline.GPU, state gpuState, row *timeline.Row, job timeline.Job) pool.Micros {
	since := h.last
	for d := h.view.DayAt(h.last); d >= 0 && h.view.Base[d]+len(h.view.Days[d].Times) > h.first; d-- {
		day, base := h.view.Days[d], h.view.Base[d]
		i := h.gpus[d]()[gpu]
		if i < 0 {
			break
		}
		first, spans := day.Spans(int(i))
		k := spanAt(first, min(h.last-base, len(day.Times)-1))
		for ; k >= 0; k-- {
			if s, r, side := stateAt(day, spans[k]); s != state || r.User != row.User || h.jobs[d]().Of(spans[k], side) != job {
				break
			}
			since = base + int(first[k])
		}
		if k >= 0 {
			break
		}
	}
	return h.view.Times[max(since, h.first)]
}

// seen returns the GPUs of the last 24 h up to a snapshot: true for those with a row in the snapshot itself.
func seen(classify *counts.Classifier, view *timeline.View, snapshot int) map[timeline.GPU]bool {
	gpus := map[timeline.GPU]bool{}
	for gpu, s := range sights(classify, view, view.Times[snapshot]-recent, snapshot) {
		gpus[gpu] = s.last == snapshot
	}
	return gpus
}

// missing counts the GPUs of the last 24 h whose machine has no row in the snapshot.
func missing(classify *counts.Classifier, view *timeline.View, snapshot int) int {
	reports := reporting(view, view.Times[snapshot], snapshot)
	n := 0
	for gpu, now := range seen(classify, view, snapshot) {
		if machine, _ := view.Names.GPU(gpu); !now && !reports[machine] {
			n++
		}
	}
	return n
}

var nan = math.NaN()
