package demand

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

const freeWhileWaiting = "freeWhileWaiting"

// answer builds one answer's frames.
type answer struct {
	plan   *query.Plan
	about  *frames.About
	polls  *Polls
	names  *timeline.Names
	texts  []string      // of names, by symbol
	all    []Wait        // that the window may need: all take part in taking free GPUs
	sorted []int32       // their numbers by length, ascending
	chosen []int32       // those that overlap the window and pass the filter
	free   *Free         // nil: not asked for
	slices []pool.Micros // beginnings of the window's slices
}

func (a *answer) frames(ctx context.Context) (data.Frames, error) {
	switch a.plan.View {
	case "summary":
		return a.summary(ctx)
	case "waiting":
		return a.waiting(), nil
	case "survival":
		return a.survival(), nil
	case "hourOfWeek":
		return a.hourOfWeek()
	}
	return a.timeseries(ctx)
}

// choose finds the waits that the window and the filter choose.
func (a *answer) choose() {
	s := &a.plan.Select
	projects := map[timeline.Symbol]bool{}
	for i := range a.all {
		w := &a.all[i]
		if !w.overlaps(a.plan.Window) || !s.MatchUser(a.texts[w.Owner]) || !s.Schedds.Match(a.texts[w.Schedd]) ||
			!s.GPUs.Match(gpusClass(w.Request.GPUs)) || !s.GPUMemory.Match(memoryClass(w.Request.GPUMemory)) {
			continue
		}
		matches, known := projects[w.Project]
		if !known {
			matches = s.MatchProjects(a.texts[w.Project])
			projects[w.Project] = matches
		}
		if matches {
			a.chosen = append(a.chosen, int32(i))
		}
	}
}

// countAdOnly counts the window's waits that no poll saw.
func (a *answer) countAdOnly() {
	n := 0
	for i := range a.all {
		if w := &a.all[i]; w.AdOnly() && w.overlaps(a.plan.Window) {
			n++
		}
	}
	a.about.Stat("Waits that only job ads show", "short", float64(n))
}

func (a *answer) user(w *Wait) string { return a.plan.Shown("user", a.texts[w.Owner]) }

// values are a group's values of some groupings.
func (a *answer) values(k group, by []string) []string {
	values := make([]string, len(by))
	for i, name := range by {
		switch name {
		case "user":
			values[i] = a.plan.Shown(name, a.texts[k.user])
		case "project":
			values[i] = a.texts[k.project]
		case "schedd":
			values[i] = a.texts[k.schedd]
		case "gpus":
			values[i] = k.gpus.Value()
		case "gpuMemory":
			values[i] = k.memory.Value()
		}
	}
	return values
}

// groups puts chosen waits into groups, in the order of their first waits.
func (a *answer) groups(by []string, chosen []int32) (keys []group, lists [][]*Wait) {
	numbers := map[group]int32{}
	of := make([]int32, len(chosen)) // the number of each one's group
	var sizes []int
	for n, i := range chosen {
		k := groupOf(&a.all[i], by)
		if n > 0 && k == keys[of[n-1]] { // jobs come in clusters
			of[n] = of[n-1]
			sizes[of[n]]++
			continue
		}
		number, known := numbers[k]
		if !known {
			number = int32(len(keys))
			numbers[k] = number
			keys, sizes = append(keys, k), append(sizes, 0)
		}
		of[n] = number
		sizes[number]++
	}
	lists = make([][]*Wait, len(keys))
	for number, size := range sizes {
		lists[number] = make([]*Wait, 0, size)
	}
	for n, i := range chosen {
		lists[of[n]] = append(lists[of[n]], &a.all[i])
	}
	return keys, lists
}

// byLength returns the chosen waits by their lengths up to the end of the window, ascending: for all medians.
func (a *answer) byLength() []int32 {
	end := a.plan.Window.To
	chosen := make([]bool, len(a.all))
	var cut []int32 // those that end later
	for _, i := range a.chosen {
		if chosen[i] = a.all[i].End <= end; !chosen[i] {
			cut = append(cut, i)
		}
	}
	begin := func(i int32) pool.Micros { return a.all[i].Begin }
	slices.SortStableFunc(cut, func(x, y int32) int { return cmp.Compare(begin(y), begin(x)) })
	sorted := make([]int32, 0, len(a.chosen))
	for _, i := range a.sorted {
		if !chosen[i] {
			continue
		}
		for len(cut) > 0 && end-begin(cut[0]) < a.all[i].End-begin(i) {
			sorted, cut = append(sorted, cut[0]), cut[1:]
		}
		sorted = append(sorted, i)
	}
	return append(sorted, cut...)
}

// newest is the newest poll in the window; false: there is none.
func (a *answer) newest() (pool.Micros, bool) {
	i := a.polls.upTo(a.plan.Window.To)
	if i < 0 || a.polls.Times[i] < a.plan.Window.From {
		return 0, false
	}
	return a.polls.Times[i], true
}

// levels computes the averages that the plan names, by metric, then bucket, for one group's waits.
func (a *answer) levels(c *clock, list []*Wait) map[string][]float64 {
	found := map[string][]float64{}
	for _, name := range a.plan.Metrics {
		l := newLevel(c)
		switch name {
		case "waitingUsers":
			addUsers(&l, list)
		case "waitingJobs":
			for _, w := range list {
				l.add(w.Counted, w.End, 1)
			}
		case "waitingGpus":
			for _, w := range list {
				l.add(w.Counted, w.End, w.Request.GPUs)
			}
		default:
			continue
		}
		found[name] = l.means()
	}
	return found
}

// taken computes freeWhileWaiting, by group, then bucket; none when it was not asked for.
func (a *answer) taken(ctx context.Context, starts []pool.Micros, by []string) (map[group]level, *clock, error) {
	if !slices.Contains(a.plan.Metrics, freeWhileWaiting) {
		return nil, nil, nil
	}
	taken, err := TakeFree(ctx, a.polls, a.free, a.all, a.names, a.plan.Window)
	if err != nil {
		return nil, nil, err
	}
	c := newClock(starts, a.plan.Window, takenUntil(taken))
	groups := make([]*group, len(a.all))
	for _, i := range a.chosen {
		k := groupOf(&a.all[i], by)
		groups[i] = &k
	}
	levels := map[group]level{}
	for i := range taken {
		t := &taken[i]
		for n, wait := range t.Waits {
			if k := groups[wait]; k != nil {
				if _, known := levels[*k]; !known {
					levels[*k] = newLevel(c)
				}
				l := levels[*k]
				l.add(t.From, t.To, float64(t.GPUs[n]))
			}
		}
	}
	return levels, c, nil
}

func (a *answer) summary(ctx context.Context) (data.Frames, error) {
	w := a.plan.Window
	starts := []pool.Micros{w.From, w.To}
	c := newClock(starts, w, a.polls.coveredUntil)
	values := func(list []*Wait, taken float64) []float64 {
		var m measures
		m.cohort.Grow(len(list))
		newest, _ := a.newest()
		for _, wait := range list {
			m.add(wait, w, newest)
		}
		levels := a.levels(c, list)
		v := make([]float64, len(a.plan.Metrics))
		for i, name := range a.plan.Metrics {
			switch {
			case name == freeWhileWaiting:
				v[i] = taken
			case levels[name] != nil:
				v[i] = levels[name][0]
			default:
				v[i] = m.metric(name)
			}
		}
		return v
	}
	sorted := a.byLength()
	row := func(by []string) (rows []frames.Row, err error) {
		taken, clock, err := a.taken(ctx, starts, by)
		if err != nil {
			return nil, err
		}
		keys, lists := a.groups(by, sorted)
		rows = make([]frames.Row, len(keys))
		err = parallel.Each(ctx, len(keys), func(_ *struct{}, n int) {
			free := math.NaN()
			if clock != nil && clock.covered[0] > 0 {
				free = 0
				if l, some := taken[keys[n]]; some {
					free = l.means()[0]
				}
			}
			rows[n].Values = values(lists[n], free)
		})
		for n, k := range keys {
			rows[n].Group = a.values(k, by)
		}
		return rows, err
	}
	rows, err := row(a.plan.GroupBy)
	if err != nil || len(rows) == 0 {
		return a.about.Finish(nil), err
	}
	if !a.plan.Totals {
		return frames.Table(a.plan, a.about, rows), nil
	}
	total, err := row(nil)
	if err != nil {
		return nil, err
	}
	return frames.Table(a.plan, a.about, rows, frames.Total{Name: "All", Values: total[0].Values}), nil
}

func (a *answer) timeseries(ctx context.Context) (data.Frames, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	keys, lists := a.groups(a.plan.GroupBy, a.chosen)
	if err := query.Hold(len(keys), buckets.Len()); err != nil {
		return nil, err
	}
	taken, known, err := a.taken(ctx, buckets.Starts, a.plan.GroupBy)
	if err != nil {
		return nil, err
	}
	c := newClock(buckets.Starts, w, a.polls.coveredUntil)
	newest, _ := a.newest()
	var all []frames.Series
	for n, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		values := a.levels(c, lists[n])
		values["started"] = startedIn(c, lists[n], w)
		if known != nil {
			l, some := taken[k]
			if !some {
				l = newLevel(known)
			}
			values[freeWhileWaiting] = l.means()
		}
		for _, metric := range a.plan.Metrics {
			s := frames.Series{Group: a.values(k, a.plan.GroupBy), Metric: metric}
			for b, v := range values[metric] {
				if a.plan.Keep(buckets, b, newest) {
					s.Times, s.Values = append(s.Times, a.time(buckets, b)), append(s.Values, v)
				}
			}
			all = append(all, s)
		}
	}
	return frames.TimeSeries(a.plan, a.about, all), nil
}

// startedIn counts the waits that ended with a run, by bucket; NaN where nothing is covered.
func startedIn(c *clock, list []*Wait, w pool.Window) []float64 {
	counts := make([]float64, len(c.covered))
	for _, wait := range list {
		if wait.Outcome == Started && w.Contains(wait.End) {
			counts[c.bucket(wait.End)]++
		}
	}
	for b, covered := range c.covered {
		if covered == 0 && counts[b] == 0 {
			counts[b] = math.NaN()
		}
	}
	return counts
}

// time is a bucket's time: its beginning; of the whole window that of its newest slice.
func (a *answer) time(buckets query.Buckets, b int) pool.Micros {
	switch n := len(a.slices); {
	case !buckets.Whole:
		return buckets.Starts[b]
	case n > 0:
		return a.slices[n-1]
	}
	return a.plan.Window.To
}

// waiting lists the jobs that the newest poll in the window saw idle, the longest wait first.
func (a *answer) waiting() data.Frames {
	newest, ok := a.newest()
	if !ok {
		return a.about.Finish(nil)
	}
	var list []*Wait
	for _, i := range a.chosen {
		if a.all[i].sees(newest) {
			list = append(list, &a.all[i])
		}
	}
	a.longestFirst(list)
	list = list[:frames.Shown(a.plan, a.about, len(list))]
	free := a.freeNow(list)
	if age := a.plan.Window.To - newest; age > joining*a.polls.Cadence(newest) {
		a.about.Warn("the newest poll of the queues is %s h older than the window's end", frames.Decimal(pool.Hours(age)))
	}
	memory := func(mib float64) float64 {
		if mib == 0 {
			return math.NaN()
		}
		return mib / 1024
	}
	return frames.Columns(a.plan, a.about,
		frames.Text("job", frames.Each(list, func(w *Wait) string { return a.plan.Shown("job", a.names.JobText(w.Job)) })),
		frames.Text("user", frames.Each(list, a.user)),
		frames.Text("project", frames.Each(list, func(w *Wait) string { return a.texts[w.Project] })),
		frames.Text("schedd", frames.Each(list, func(w *Wait) string { return a.texts[w.Schedd] })),
		frames.Number("gpus", frames.Each(list, func(w *Wait) float64 { return w.Request.GPUs })),
		frames.Number("cpus", frames.Each(list, func(w *Wait) float64 { return w.Request.CPUs })),
		frames.Number("memoryGb", frames.Each(list, func(w *Wait) float64 { return memory(w.Request.Memory) })),
		frames.Number("gpuMemoryGb", frames.Each(list, func(w *Wait) float64 { return memory(w.Request.GPUMemory) })),
		frames.Time("since", frames.Each(list, func(w *Wait) pool.Micros { return w.Begin })),
		frames.Number("hours", frames.Each(list, func(w *Wait) float64 { return pool.Hours(newest - w.Begin) })),
		frames.Numbers("attempts", frames.Each(list, func(w *Wait) int64 { return int64(w.Attempts) })),
		frames.Number("freeNow", free))
}

// longestFirst sorts waits by their beginning, equal ones by job.
func (a *answer) longestFirst(list []*Wait) {
	slices.SortFunc(list, func(x, y *Wait) int {
		if c := cmp.Compare(x.Begin, y.Begin); c != 0 {
			return c
		}
		return strings.Compare(a.names.JobText(x.Job), a.names.JobText(y.Job))
	})
}

// freeNow are the GPUs that are free in the window's newest slice and have what each job asks for; NaN without a slice.
func (a *answer) freeNow(list []*Wait) []float64 {
	free := slices.Repeat([]float64{math.NaN()}, len(list))
	n := len(a.slices)
	if n == 0 {
		return free
	}
	counts, ok := a.free.At(a.slices[n-1])
	for i, w := range list {
		if ok {
			free[i] = float64(a.free.Fit(counts, w.Request.GPUMemory))
		}
	}
	return free
}

// survival draws the share that still waits.
func (a *answer) survival() data.Frames {
	keys, lists := a.groups(a.plan.GroupBy, a.chosen)
	lives := make([]frames.Lives, 0, len(keys))
	for n, k := range keys {
		cohort := &survival.Cohort{}
		cohort.Grow(len(lists[n]))
		for _, w := range lists[n] {
			cohort.Add(itemOf(w, a.plan.Window))
		}
		lives = append(lives, frames.Lives{Group: a.values(k, a.plan.GroupBy), Items: cohort})
	}
	return frames.Curves(a.plan, a.about, "survival", "waits", lives, (*survival.Cohort).KaplanMeier)
}

// hourOfWeek averages over the window by local weekday and hour.
func (a *answer) hourOfWeek() (data.Frames, error) {
	buckets, cells, err := a.plan.Hours()
	if err != nil {
		return nil, err
	}
	c := newClock(buckets.Starts, a.plan.Window, a.polls.coveredUntil)
	l := newLevel(c)
	for _, i := range a.chosen {
		l.add(a.all[i].Counted, a.all[i].End, a.all[i].Request.GPUs)
	}
	var sums, covered frames.Week
	for b, sum := range l.totals() {
		at := cells[b]
		sums[at[0]][at[1]] += sum
		covered[at[0]][at[1]] += float64(c.covered[b])
	}
	for day := range sums {
		for hour := range sums[day] {
			sums[day][hour] = ratio(sums[day][hour], covered[day][hour])
		}
	}
	return frames.HeatMap(a.plan, a.about, &sums), nil
}
