package demand

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

const freeWhileWaiting = "freeWhileWaiting"

type answer struct {
	plan     *query.Plan
	about    *frames.About
	polls    *Polls
	names    *timeline.Names
	texts    []string // the texts of names, by symbol
	waits    *remembered
	memo     stores.Memo
	all      []Wait           // the waits that the window may need: all take part in taking free GPUs
	chosen   []int32          // those that the filter chooses
	owned    []owned          // by the number of the wait; nil if not requested
	projects *queues.Projects // the projects of users; empty if all waits have lists of projects
	filter   aggregate.Filter

	timeline   *timeline.Timeline
	slices     *timeline.Slices         // the window's slices
	requests   *requests                // what all waits ask for
	unusedGPUs *unusedGPUs              // unused GPUs; nil if not requested
	roomless   map[timeline.Symbol]bool // machines whose room is not known
}

var views = map[string]func(*answer, context.Context) (data.Frames, error){
	"summary": (*answer).summary, "timeseries": (*answer).timeseries, "waiting": (*answer).waiting,
	"obstacles": (*answer).obstacles, "unused": (*answer).unused, "unusedNow": (*answer).unusedNow,
	"survival": (*answer).survival, "hourOfWeek": (*answer).hourOfWeek,
}

func (a *answer) choose(pass func(i int) bool) (chosen []int32) {
	for i := range a.all {
		if pass(i) {
			chosen = append(chosen, int32(i))
		}
	}
	return chosen
}

// matches reports whether the filter chooses a wait, by its number.
func (a *answer) matches(i int) bool {
	return len(a.filter) == 0 || a.filter.Keeps(a.keyOf(i)) // there are many waits
}

// keyOf is the key under which a wait is counted, by its number.
func (a *answer) keyOf(i int) aggregate.Key {
	w := &a.all[i]
	list, _ := a.listOf(w)
	gpus, _ := slices.BinarySearch([]float64{1, 2, 4, 8}, w.Request.GPUs) // the last class has no bound
	memory := "any"
	if w.Request.GPUMemory != 0 {
		memory = pool.MemoryClass(w.Request.GPUMemory)
	}
	key := aggregate.Key{query.ByUser: uint32(w.Owner), query.ByProject: uint32(list), query.BySchedd: uint32(w.Schedd),
		query.ByGPUs: uint32(gpus), query.ByGPUMemory: uint32(slices.Index(query.GPUMemories, memory))}
	if a.owned != nil {
		key[query.ByOwnGPUs] = uint32(a.owned[i].own)
	}
	return key
}

// groups puts chosen waits into numbered groups; of tells the group of each wait, −1 if it is not chosen.
func (a *answer) groups(by []string, chosen []int32, keys *pool.Numbered[aggregate.Key]) (of []int32, lists [][]*Wait) {
	of, lists = slices.Repeat([]int32{-1}, len(a.all)), make([][]*Wait, len(keys.All))
	parts := query.GroupingsOf(by)
	for _, i := range chosen {
		var k aggregate.Key
		if len(parts) > 0 {
			k = a.keyOf(int(i))
		}
		n := keys.Number(k.Within(parts))
		if int(n) == len(lists) {
			lists = append(lists, nil)
		}
		of[i], lists[n] = n, append(lists[n], &a.all[i])
	}
	return of, lists
}

// startedOnOwn counts the waits of each group that started in the window, on machines of own GPUs and on others.
func (a *answer) startedOnOwn(of []int32, groups []GroupFigures) {
	for i, group := range of {
		if group < 0 || !a.plan.Window.Contains(a.all[i].End) {
			continue
		}
		p := &groups[group].Points[0]
		if a.owned[i].knownRun {
			p.knownRun++
		}
		if a.owned[i].onOwn {
			p.onOwn++
		}
	}
}

// newest is the newest poll in the window; 0 if there is none.
func (a *answer) newest() pool.Micros {
	if i := a.polls.upTo(a.plan.Window.To); i >= a.polls.from(a.plan.Window.From) {
		return a.polls.Times[i]
	}
	return 0
}

// served returns the jobs that take free GPUs at polls.
func (a *answer) served(ctx context.Context) (*pollSums, error) {
	sums := &pollSums{}
	return a.sumPolls(ctx, sums, func(slice int, waiting []int32) func(interval) {
		served := a.requests.place(a.unusedGPUs.free(slice), waiting)
		return func(at interval) {
			if at.to != 0 {
				sums.held, sums.served = append(sums.held, at), append(sums.served, served)
			}
		}
	})
}

// take fills in the GPUs that waits of groups could have taken at polls. Polls without a slice are left out.
func (a *answer) take(sums *pollSums, starts []pool.Micros, of []int32, groups []GroupFigures) {
	c := newClock(starts, a.plan.Window, sums.held)
	for i, at := range sums.held {
		now := map[int32]float64{}
		for _, wait := range sums.served[i] {
			if of[wait] >= 0 {
				now[of[wait]] += math.Ceil(a.all[wait].Request.GPUs)
			}
		}
		for group, gpus := range now {
			for b, covered := range c.parts(at.from, at.to) {
				groups[group].Points[b].free += gpus * covered
			}
		}
	}
	for n := range groups {
		for b := range groups[n].Points {
			free := &groups[n].Points[b].free
			*free = aggregate.Ratio(*free, float64(c.covered[b]))
		}
	}
}

// sortChosen puts the chosen waits into the order of their lengths in the window, in which hours are added up and
// curves are made: all but those that the window's end cuts are in it.
func (a *answer) sortChosen() {
	to := a.plan.Window.To
	length := func(i int32) pool.Micros { return min(a.all[i].End, to) - a.all[i].Begin }
	whole, cut := make([]int32, 0, len(a.chosen)), []int32(nil)
	for _, i := range a.chosen {
		if a.all[i].End > to {
			cut = append(cut, i)
		} else {
			whole = append(whole, i)
		}
	}
	slices.SortFunc(cut, func(x, y int32) int { return cmp.Or(cmp.Compare(length(x), length(y)), cmp.Compare(x, y)) })
	sorted := a.chosen[:0]
	for _, i := range whole {
		for len(cut) > 0 && length(cut[0]) < length(i) {
			sorted, cut = append(sorted, cut[0]), cut[1:]
		}
		sorted = append(sorted, i)
	}
	a.chosen = append(sorted, cut...)
}

func (a *answer) summary(ctx context.Context) (data.Frames, error) {
	w := a.plan.Window
	a.sortChosen()
	starts := []pool.Micros{w.From, w.To}
	f := &Figures{}
	var err error
	if f.Groups, err = a.byGroup(ctx, a.plan.GroupBy, starts); err != nil {
		return nil, err
	}
	if len(f.Groups) > 0 && a.plan.Totals {
		total, err := a.byGroup(ctx, nil, starts)
		if err != nil {
			return nil, err
		}
		f.Total = total[0].Sums
	}
	return Frames(f, a.plan, a.about), nil
}

func (a *answer) timeseries(ctx context.Context) (data.Frames, error) {
	buckets, err := a.plan.Buckets(a.plan.Window.From)
	if err != nil {
		return nil, err
	}
	groups, err := a.byGroup(ctx, a.plan.GroupBy, buckets.Starts)
	if err != nil {
		return nil, err
	}
	return a.series(buckets, groups), nil
}

// series draws the buckets of groups that the plan keeps.
func (a *answer) series(buckets query.Buckets, groups []GroupFigures) data.Frames {
	drawn := make([]bool, buckets.Len())
	for b := range drawn {
		drawn[b] = a.plan.Keep(buckets, b, a.polls.newest())
	}
	for i := range groups {
		groups[i].Drawn = drawn
	}
	f := &Figures{Groups: groups, Times: aggregate.Times(buckets, a.slices.Begin, a.plan.Window.To)}
	return Frames(f, a.plan, a.about)
}

func (a *answer) byGroup(ctx context.Context, by []string, starts []pool.Micros) ([]GroupFigures, error) {
	var keys pool.Numbered[aggregate.Key]
	of, lists := a.groups(by, a.chosen, &keys)
	if err := query.CheckCells(len(lists), len(starts)-1); err != nil {
		return nil, err
	}
	// Fill in what a group's waits alone do not tell.
	groups := make([]GroupFigures, len(lists))
	for n, k := range keys.All {
		groups[n] = GroupFigures{Texts: k.Texts(a.plan, by, a.texts), Points: make([]Sums, len(starts)-1)}
	}
	if slices.Contains(a.plan.Metrics, freeWhileWaiting) {
		served, err := a.served(ctx)
		if err != nil {
			return nil, err
		}
		a.take(served, starts, of, groups)
	}
	if slices.Contains(a.plan.Metrics, "startedOnOwnPercent") {
		a.startedOnOwn(of, groups)
	}
	var past [][]*Wait // that p90Held needs; further groups follow those of chosen waits
	if slices.Contains(a.plan.Metrics, p90HeldPercent) {
		_, past = a.groups(by, a.choose(func(i int) bool {
			return a.all[i].overlaps(usualReach(a.plan.Window)) && a.matches(i)
		}), &keys)
	}
	// Add up each group.
	c := newClock(starts, a.plan.Window, a.polls.held)
	if slices.Contains(a.plan.Metrics, "waitingUsers") {
		a.waits.addUsers(c, of, groups)
	}
	return groups, parallel.Each(ctx, len(groups), func(n int) {
		a.addUp(c, lists[n], groups[n].Points)
		if past != nil {
			groups[n].Points[0].p90Held = p90Held(past[n], a.plan.Window)
		}
		groups[n].Sums = groups[n].Points[0]
	})
}

// addUp adds up one group's waits, each in the bucket of its end, and fills in the averages that metrics name. In a
// series, starts are NaN where nothing is covered.
func (a *answer) addUp(c *clock, list []*Wait, points []Sums) {
	newest := a.newest()
	named := func(metric string) bool { return slices.Contains(a.plan.Metrics, metric) }
	averages := named("waitingJobs") || named("waitingGpus")
	for _, w := range list {
		if points[c.bucket(w.End)].add(w, a.plan.Window, newest); averages {
			for b, covered := range c.parts(w.Counted, w.End) {
				points[b].Jobs += covered
				points[b].GPUs += w.Request.GPUs * covered
			}
		}
	}
	c.average(points)
	if named("medianWaitHours") || named("p90WaitHours") || slices.ContainsFunc(a.plan.Metrics, isWithin) {
		p, cohort := &points[0], CohortOf(list, a.plan.Window)
		curve := cohort.KaplanMeier()
		p.median, p.p90 = curve.HoursTo(0.5), curve.HoursTo(0.1)
		p.within, p.withinLow, p.withinHigh = within(cohort, &curve, pool.Micros(a.plan.Within*float64(pool.Minute)))
	}
	for b, covered := range c.covered {
		if p := &points[b]; a.plan.View == "timeseries" && covered == 0 && p.Started == 0 {
			p.Started, p.Elsewhere = math.NaN(), math.NaN()
		}
	}
}

// waiting lists the jobs that the newest poll in the window saw idle, the longest wait first.
func (a *answer) waiting(ctx context.Context) (data.Frames, error) {
	newest := a.newest()
	if newest == 0 {
		return a.about.Finish(nil), nil
	}
	// List the jobs that wait at the newest poll, longest first.
	var list frames.Rows[Wait]
	for _, i := range a.chosen {
		if a.all[i].sees(newest) {
			list = append(list, &a.all[i])
		}
	}
	byBegin := func(x, y *Wait) int { return cmp.Compare(x.Begin, y.Begin) }
	frames.Sort(a.plan, list, byBegin, "job", func(w *Wait) string { return a.names.JobText(w.Job) })
	list = list[:a.about.Shown(len(list))]
	// Find the obstacle of each job at that poll, and the GPUs that are free now.
	t, err := a.placementsAt(ctx, a.polls.from(newest))
	if err != nil {
		return nil, err
	}
	now := map[*Wait]*string{} // stays empty if the poll has no slice
	for _, turn := range t.order {
		now[&a.all[turn.wait]] = &query.Obstacles[turn.obstacle]
	}
	freeNow, err := a.freeNow(ctx)
	if err != nil {
		return nil, err
	}
	if age := a.plan.Window.To - newest; age > joining*a.polls.Cadence(newest) {
		a.about.Warn("the newest poll of the queues is %s h older than the end of the time "+
			"range", frames.Decimal(pool.Hours(age)))
	}
	// Make the columns.
	memory := func(mib float64) float64 {
		if mib == 0 {
			return math.NaN()
		}
		return mib / 1024
	}
	return frames.Columns(a.plan, a.about,
		list.Text("job", func(w *Wait) string { return a.plan.Shown("job", a.names.JobText(w.Job)) }),
		list.Text("user", func(w *Wait) string { return a.plan.Shown("user", a.texts[w.Owner]) }),
		list.Text("project", func(w *Wait) string { return a.texts[w.Project] }),
		list.Text("schedd", func(w *Wait) string { return a.texts[w.Schedd] }),
		list.Number("gpus", func(w *Wait) float64 { return w.Request.GPUs }),
		list.Number("cpus", func(w *Wait) float64 { return w.Request.CPUs }),
		list.Number("memoryGb", func(w *Wait) float64 { return memory(w.Request.Memory) }),
		list.Number("gpuMemoryGb", func(w *Wait) float64 { return memory(w.Request.GPUMemory) }),
		list.Time("since", func(w *Wait) pool.Micros { return w.Begin }),
		list.Number("hours", func(w *Wait) float64 { return pool.Hours(newest - w.Begin) }),
		list.Whole("attempts", func(w *Wait) int64 { return int64(w.Attempts) }),
		list.Number("freeNow", freeNow),
		list.Words("obstacle", func(w *Wait) *string { return now[w] })), nil
}

// freeNow returns how many GPUs are free in the window's newest slice and fit a job's request; NaN without a slice.
func (a *answer) freeNow(ctx context.Context) (func(*Wait) float64, error) {
	last := a.slices.N() - 1
	if last < 0 {
		return func(*Wait) float64 { return math.NaN() }, nil
	}
	unusedGPUs, err := findUnused(ctx, a.slices, a.plan.Env.Lists, a.slices.Begin[last:])
	if err != nil {
		return nil, err
	}
	sizes := unusedGPUs.free(last)
	return func(w *Wait) float64 { return float64(len(sizes) - firstFit(sizes, w.Request.GPUMemory)) }, nil
}

func (a *answer) survival(context.Context) (data.Frames, error) {
	var keys pool.Numbered[aggregate.Key]
	_, lists := a.groups(a.plan.GroupBy, a.chosen, &keys)
	lives := make([]frames.Lives, 0, len(lists))
	for n, k := range keys.All {
		lives = append(lives, frames.Lives{Group: k.Texts(a.plan, a.plan.GroupBy, a.texts),
			Items: CohortOf(lists[n], a.plan.Window)})
	}
	return frames.Curves(a.plan, a.about, "survival", "waits", lives, survival.Cohort.KaplanMeier), nil
}

// hourOfWeek averages over the window by local weekday and hour.
func (a *answer) hourOfWeek(context.Context) (data.Frames, error) {
	buckets, cells, err := a.plan.Hours()
	if err != nil {
		return nil, err
	}
	c := newClock(buckets.Starts, a.plan.Window, a.polls.held)
	totals := make([]float64, len(cells))
	for _, i := range a.chosen {
		for b, covered := range c.parts(a.all[i].Counted, a.all[i].End) {
			totals[b] += a.all[i].Request.GPUs * covered
		}
	}
	var gpus, covered frames.Week
	for b, at := range cells {
		gpus[at[0]][at[1]] += totals[b]
		covered[at[0]][at[1]] += float64(c.covered[b])
	}
	for day := range gpus {
		for hour := range gpus[day] {
			gpus[day][hour] = aggregate.Ratio(gpus[day][hour], covered[day][hour])
		}
	}
	return frames.HeatMap(a.plan, a.about, &gpus), nil
}
