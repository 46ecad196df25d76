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
		if a.chooses(&a.all[i]) {
			a.chosen = append(a.chosen, int32(i))
		}
	}
}

func (a *answer) chooses(w *Wait) bool { return w.overlaps(a.plan.Window) && a.matches(w) }

// keys are the keys of waits by some groupings; nil for those that are not chosen.
func (a *answer) keys(by []string, chosen func(*Wait) bool) []*aggregate.Key {
	keys := make([]*aggregate.Key, len(a.all))
	for i := range a.all {
		if w := &a.all[i]; chosen(w) {
			k := keyOf(w)
			k = k.Within(by)
			keys[i] = &k
		}
	}
	return keys
}

// matches reports whether the filter chooses a wait.
func (a *answer) matches(w *Wait) bool {
	s := &a.plan.Select
	if !s.MatchUser(a.texts[w.Owner]) || !s.Schedds.Match(a.texts[w.Schedd]) ||
		!s.GPUs.Match(query.GPUCounts[gpusClass(w.Request.GPUs)]) || !s.GPUMemory.Match(memoryClass(w.Request.GPUMemory)) {
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

// taken adds up, if requested, the free GPUs that the chosen waits could have taken at the polls that the window
// touches. Polls without a slice are left out.
func (a *answer) taken(ctx context.Context, by []string) (*pollSums, error) {
	sums := &pollSums{}
	if a.free == nil {
		return sums, nil
	}
	keys := a.keys(by, a.chooses)
	first, last := max(0, a.polls.upTo(a.plan.Window.From)), a.polls.upTo(a.plan.Window.To)
	err := eachPoll(ctx, a.polls, a.all, a.names, first, last, func(poll int, queues []queue) error {
		from, to, holds := a.polls.interval(poll)
		if !holds {
			return nil
		}
		if counts, ok := a.free.At(from); ok {
			sums.held = append(sums.held, interval{from, to})
			a.free.take(slices.Clone(counts), queues, func(wait int32, gpus int) {
				if k := keys[wait]; k != nil {
					sums.add(group{key: *k}, 0, float64(gpus))
				}
			})
		}
		return nil
	})
	return sums, err
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
	newest, _ := a.newest()
	wantsCurve := slices.Contains(a.plan.Metrics, "medianWaitHours") || slices.Contains(a.plan.Metrics, "p90WaitHours")
	return a.byGroup(ctx, sorted, by, []pool.Micros{w.From, w.To}, func(_ *clock, list []*Wait, sums []Sums) {
		var waits survival.Cohort
		for _, wait := range list {
			sums[0].add(wait, w, newest)
			waits.Add(itemOf(wait, w))
		}
		if wantsCurve {
			sums[0].quantiles(&waits)
		}
	})
}

func (a *answer) timeseries(ctx context.Context) (*Figures, error) {
	w := a.plan.Window
	buckets, err := a.plan.Buckets(w.From)
	if err != nil {
		return nil, err
	}
	f := &Figures{Times: aggregate.Times(buckets, a.slices, w.To)}
	f.Groups, err = a.byGroup(ctx, a.chosen, a.plan.GroupBy, buckets.Starts,
		func(c *clock, list []*Wait, points []Sums) { countStarted(c, list, w, points) })
	drawn := a.drawn(buckets)
	for i := range f.Groups {
		f.Groups[i].Drawn = drawn
	}
	return f, err
}

// byGroup adds up waits by some groupings and buckets. count adds the sums that are not averages.
func (a *answer) byGroup(ctx context.Context, chosen []int32, by []string, starts []pool.Micros,
	count func(c *clock, list []*Wait, points []Sums)) ([]GroupFigures, error) {
	keys, lists := a.groups(by, chosen)
	if err := query.Hold(len(keys), len(starts)-1); err != nil {
		return nil, err
	}
	taken, err := a.taken(ctx, by)
	if err != nil {
		return nil, err
	}
	c := newClock(starts, a.plan.Window, a.polls.coveredUntil)
	held, free := taken.averages(starts, a.plan.Window)
	groups := make([]GroupFigures, len(keys))
	err = parallel.Each(ctx, len(keys), func(_ *struct{}, n int) {
		points := make([]Sums, len(c.covered))
		a.average(c, lists[n], points)
		if a.free != nil {
			level := newLevel(held)
			if some := free[group{key: keys[n]}]; some != nil {
				level = some[1]
			}
			for b, mean := range level.means() {
				points[b].free = mean //nolint:gosec // a point for each bucket of the level
			}
		}
		count(c, lists[n], points)
		groups[n] = GroupFigures{Texts: a.textsOf(keys[n], by), Sums: points[0], Points: points}
	})
	return groups, err
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
	now, err := a.obstaclesNow(ctx, tl, newest)
	if err != nil {
		return nil, err
	}
	obstacle := data.NewField("obstacle", nil, frames.Each(list, func(w *Wait) *string { return now[w] }))
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
		frames.Number("freeNow", frames.Each(list, a.freeNow())), obstacle), nil
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

// freeNow returns how many GPUs are free in the window's newest slice and fit a job's request; NaN without a slice.
func (a *answer) freeNow() func(*Wait) float64 {
	var counts []int32
	known := false
	if n := len(a.slices); n > 0 {
		counts, known = a.free.At(a.slices[n-1])
	}
	return func(w *Wait) float64 {
		if !known {
			return math.NaN()
		}
		return float64(a.free.Fit(counts, w.Request.GPUMemory))
	}
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
	for b, sum := range l.totals {
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
