package demand

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
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
	texts  []string // of names, by symbol
	waits  *remembered
	memo   *stores.Memo
	all    []Wait        // the waits that the window may need: all take part in taking free GPUs
	chosen []int32       // those that overlap the window and pass the filter
	free   *Free         // nil if not requested
	slices []pool.Micros // beginnings of the window's slices
	stock  *stock        // unused GPUs; nil if not requested

	projects map[timeline.Symbol]bool // whether the filter lets them pass
}

func (a *answer) frames(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	switch a.plan.View {
	case "summary", "timeseries":
		f, err := a.figures(ctx)
		if err != nil {
			return nil, err
		}
		return Frames(f, a.plan, a.about), nil
	case "waiting":
		return a.waiting(ctx, tl)
	case "obstacles":
		return a.obstacles(ctx, tl)
	case "unused":
		return a.unused(ctx, tl)
	case "unusedNow":
		return a.unusedNow(ctx, tl)
	case "survival":
		return a.survival(), nil
	}
	return a.hourOfWeek()
}

// choose finds the waits that the window and the filter choose.
func (a *answer) choose() {
	for i := range a.all {
		if w := &a.all[i]; w.overlaps(a.plan.Window) && a.matches(w) {
			a.chosen = append(a.chosen, int32(i))
		}
	}
}

// matches reports whether the filter chooses a wait.
func (a *answer) matches(w *Wait) bool {
	s := &a.plan.Select
	if !s.MatchUser(a.texts[w.Owner]) || !s.Schedds.Match(a.texts[w.Schedd]) ||
		!s.GPUs.Match(gpusClass(w.Request.GPUs)) || !s.GPUMemory.Match(memoryClass(w.Request.GPUMemory)) {
		return false
	}
	matches, known := a.projects[w.Project]
	if !known {
		if a.projects == nil {
			a.projects = map[timeline.Symbol]bool{}
		}
		matches = s.MatchProjects(a.texts[w.Project])
		a.projects[w.Project] = matches
	}
	return matches
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

// textsOf are the values of a key of some groupings.
func (a *answer) textsOf(k aggregate.Key, by []string) []string { return k.Texts(a.plan, by, a.texts) }

// groups puts chosen waits into groups, in the order of their first waits.
func (a *answer) groups(by []string, chosen []int32) (keys []aggregate.Key, lists [][]*Wait) {
	var numbers pool.Numbered[aggregate.Key]
	for _, i := range chosen {
		k := keyOf(&a.all[i])
		n := int(numbers.Number(k.Within(by)))
		if n == len(lists) {
			lists = append(lists, nil)
		}
		lists[n] = append(lists[n], &a.all[i])
	}
	return numbers.All, lists
}

// newest is the newest poll in the window; false: there is none.
func (a *answer) newest() (pool.Micros, bool) {
	i := a.polls.upTo(a.plan.Window.To)
	if i < 0 || a.polls.Times[i] < a.plan.Window.From {
		return 0, false
	}
	return a.polls.Times[i], true
}

// average fills in the averages that the plan names, of one group's waits in each bucket.
func (a *answer) average(c *clock, list []*Wait, into []Sums) {
	for _, name := range a.plan.Metrics {
		l := newLevel(c)
		var of func(*Sums) *float64
		switch name {
		case "waitingUsers":
			of = func(s *Sums) *float64 { return &s.Users }
			addUsers(&l, list)
		case "waitingJobs":
			of = func(s *Sums) *float64 { return &s.Jobs }
			for _, w := range list {
				l.add(w.Counted, w.End, 1)
			}
		case "waitingGpus":
			of = func(s *Sums) *float64 { return &s.GPUs }
			for _, w := range list {
				l.add(w.Counted, w.End, w.Request.GPUs)
			}
		default:
			continue
		}
		for b, mean := range l.means() {
			*of(&into[b]) = mean //nolint:gosec // a point for each bucket of the level
		}
	}
}

// freeLevels are the free GPUs that the waits of groups could have taken.
type freeLevels struct {
	clock  *clock // nil if they are not requested
	levels map[aggregate.Key]level
}

// taken computes freeWhileWaiting, if requested.
func (a *answer) taken(ctx context.Context, starts []pool.Micros, by []string) (f freeLevels, err error) {
	if !slices.Contains(a.plan.Metrics, freeWhileWaiting) {
		return f, nil
	}
	taken, err := TakeFree(ctx, a.polls, a.free, a.all, a.names, a.plan.Window)
	if err != nil {
		return f, err
	}
	held := make([]interval, len(taken))
	for i := range taken {
		held[i] = taken[i].interval
	}
	f = freeLevels{newClock(starts, a.plan.Window, coveredBy(held)), map[aggregate.Key]level{}}
	groups := make([]*aggregate.Key, len(a.all))
	for _, i := range a.chosen {
		k := keyOf(&a.all[i])
		k = k.Within(by)
		groups[i] = &k
	}
	for i := range taken {
		t := &taken[i]
		for n, wait := range t.Waits {
			if k := groups[wait]; k != nil {
				l, known := f.levels[*k]
				if !known {
					l = newLevel(f.clock)
					f.levels[*k] = l
				}
				l.add(t.from, t.to, float64(t.GPUs[n]))
			}
		}
	}
	return f, nil
}

// fill fills in the averages of a group in each bucket.
func (f *freeLevels) fill(of aggregate.Key, into []Sums) {
	if f.clock == nil {
		return
	}
	l, some := f.levels[of]
	if !some {
		l = newLevel(f.clock)
	}
	for b, mean := range l.means() {
		into[b].free = mean //nolint:gosec // a point for each bucket of the level
	}
}

// figures are the sums over the chosen waits, by group.
func (a *answer) figures(ctx context.Context) (*Figures, error) {
	if a.plan.View == "timeseries" {
		return a.timeseries(ctx)
	}
	sorted := slices.Clone(a.chosen) // by length up to the window's end, in which order hours are added up
	length := func(i int32) pool.Micros { return min(a.all[i].End, a.plan.Window.To) - a.all[i].Begin }
	slices.SortFunc(sorted, func(x, y int32) int { return cmp.Or(cmp.Compare(length(x), length(y)), cmp.Compare(x, y)) })
	f := &Figures{}
	var err error
	if f.Groups, err = a.summary(ctx, sorted, a.plan.GroupBy); err != nil || len(f.Groups) == 0 || !a.plan.Totals {
		return f, err
	}
	total, err := a.summary(ctx, sorted, nil)
	if err != nil {
		return nil, err
	}
	f.Total = total[0].Sums
	return f, nil
}

// summary adds up waits over the window by some groupings.
func (a *answer) summary(ctx context.Context, sorted []int32, by []string) ([]GroupFigures, error) {
	w := a.plan.Window
	starts := []pool.Micros{w.From, w.To}
	c := newClock(starts, w, a.polls.coveredUntil)
	free, err := a.taken(ctx, starts, by)
	if err != nil {
		return nil, err
	}
	newest, _ := a.newest()
	wantsCurve := slices.Contains(a.plan.Metrics, "medianWaitHours") || slices.Contains(a.plan.Metrics, "p90WaitHours")
	keys, lists := a.groups(by, sorted)
	groups := make([]GroupFigures, len(keys))
	err = parallel.Each(ctx, len(keys), func(_ *struct{}, n int) {
		sums := make([]Sums, 1)
		var waits survival.Cohort
		for _, wait := range lists[n] {
			sums[0].add(wait, w, newest)
			waits.Add(itemOf(wait, w))
		}
		if wantsCurve {
			sums[0].quantiles(&waits)
		}
		a.average(c, lists[n], sums)
		free.fill(keys[n], sums)
		groups[n] = GroupFigures{Texts: a.textsOf(keys[n], by), Sums: sums[0]}
	})
	return groups, err
}

func (a *answer) timeseries(ctx context.Context) (*Figures, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	keys, lists := a.groups(a.plan.GroupBy, a.chosen)
	if err := query.Hold(len(keys), buckets.Len()); err != nil {
		return nil, err
	}
	free, err := a.taken(ctx, buckets.Starts, a.plan.GroupBy)
	if err != nil {
		return nil, err
	}
	c := newClock(buckets.Starts, w, a.polls.coveredUntil)
	drawn := a.drawn(buckets)
	f := &Figures{Times: aggregate.Times(buckets, a.slices, w.To)}
	for n, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		points := make([]Sums, buckets.Len())
		a.average(c, lists[n], points)
		countStarted(c, lists[n], w, points)
		free.fill(k, points)
		f.Groups = append(f.Groups, GroupFigures{Texts: a.textsOf(k, a.plan.GroupBy), Points: points, Drawn: drawn})
	}
	return f, nil
}

// drawn tells which buckets the plan keeps.
func (a *answer) drawn(buckets query.Buckets) []bool {
	newest := a.polls.newest()
	drawn := make([]bool, buckets.Len())
	for b := range drawn {
		drawn[b] = a.plan.Keep(buckets, b, newest)
	}
	return drawn
}

// countStarted counts the waits that ended with a run, and of them those elsewhere, by bucket; NaN if nothing is
// covered.
func countStarted(c *clock, list []*Wait, w pool.Window, points []Sums) {
	for _, wait := range list {
		if wait.Outcome == Started && w.Contains(wait.End) {
			point := &points[c.bucket(wait.End)]
			point.Started++
			if wait.Elsewhere {
				point.Elsewhere++
			}
		}
	}
	for b, covered := range c.covered {
		if covered == 0 && points[b].Started == 0 {
			points[b].Started, points[b].Elsewhere = math.NaN(), math.NaN()
		}
	}
}

// waiting lists the jobs that the newest poll in the window saw idle, the longest wait first.
func (a *answer) waiting(ctx context.Context, tl *timeline.Timeline) (data.Frames, error) {
	newest, ok := a.newest()
	if !ok {
		return a.about.Finish(nil), nil
	}
	var list []*Wait
	for _, i := range a.chosen {
		if a.all[i].sees(newest) {
			list = append(list, &a.all[i])
		}
	}
	a.longestFirst(list)
	list = list[:a.about.Shown(len(list))]
	free := a.freeNow(list)
	now, err := a.obstaclesNow(ctx, tl, newest)
	if err != nil {
		return nil, err
	}
	why := make([]*string, len(list)) // null: it is not known
	for i, w := range list {
		if obstacle, known := now[w]; known {
			why[i] = &obstacle
		}
	}
	obstacle := data.NewField("obstacle", nil, why)
	obstacle.Config = &data.FieldConfig{}
	if age := a.plan.Window.To - newest; age > joining*a.polls.Cadence(newest) {
		a.about.Warn("the newest poll of the queues is %s h older than the end of the time "+
			"range", frames.Decimal(pool.Hours(age)))
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
		frames.Number("freeNow", free), obstacle), nil
}

// longestFirst sorts waits by their beginning, and equal ones by job as shown, so that the order reveals nothing about
// pseudonyms.
func (a *answer) longestFirst(list []*Wait) {
	slices.SortFunc(list, func(x, y *Wait) int {
		if c := cmp.Compare(x.Begin, y.Begin); c != 0 {
			return c
		}
		return strings.Compare(a.plan.Shown("job", a.names.JobText(x.Job)), a.plan.Shown("job", a.names.JobText(y.Job)))
	})
}

// freeNow are the GPUs that are free in the window's newest slice and fit each job's request; NaN without a slice.
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
		for _, w := range lists[n] {
			cohort.Add(itemOf(w, a.plan.Window))
		}
		lives = append(lives, frames.Lives{Group: a.textsOf(k, a.plan.GroupBy), Items: cohort})
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
	var sums aggregate.Week[Sums]
	var covered [7][24]float64
	for b, sum := range l.totals() {
		at := cells[b]
		sums[at[0]][at[1]].GPUs += sum
		covered[at[0]][at[1]] += float64(c.covered[b])
	}
	for day := range sums {
		for hour := range sums[day] {
			sums[day][hour].GPUs = aggregate.Ratio(sums[day][hour].GPUs, covered[day][hour])
		}
	}
	return frames.HeatMap(a.plan, a.about, sums.Figures(metrics, a.plan.Metrics[0])), nil
}
