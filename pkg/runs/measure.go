package runs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// measured is what ads reveal about the access points' clocks, and what that rests on.
type measured struct {
	clocks clocks
	points pool.Numbered[string] // access points
	kept   *evidence             // what is taken over; shared
	gone   []bool                // by job number: what is kept of the job counts no more
	own    evidence
}

// evidence is what the ads of jobs show of clocks.
type evidence struct {
	constraints []constraint
	dates       []dated // of each ad: whose clock dated it
}

// dated names the clock that dated an ad of a job.
type dated struct {
	job        int32 // by number
	point, day int32 // access point, by number, and UTC day
}

// constraint says that the error of an access point's clock on a day lies in (low, high].
type constraint struct {
	dated
	interval
}

type interval struct{ low, high pool.Micros }

// finding is a constraint of an access point by name.
type finding struct {
	point string
	constraint
}

// clockDay is an access point, by number, on a UTC day.
type clockDay struct{ point, day int32 }

// measure finds the constraints that the runs give and the clocks' errors on all days with ads.
func (o *Observed) measure(ctx context.Context, ads *Ads, wanted Wanted) (*measured, error) {
	m := &measured{clocks: clocks{}, kept: &evidence{}}
	gone, come := map[clockDay][]interval{}, map[clockDay][]interval{}
	takingOver, _ := parallel.WithContext(ctx)
	if ads.again != nil {
		takingOver.Go(func() error {
			m.takeOver(ads.again, gone)
			return nil
		})
	}
	byMachine := make([][]finding, len(o.Machines))
	err := parallel.Each(ctx, len(o.Machines), func(l *linker, m int) {
		l.read(o, m, ads)
		l.found = l.found[:0]
		for r := range l.machine.Runs.Len() {
			job := o.jobs().of[m][r]
			if job < 0 || !ads.again.explained(job) || o.firstPiece(m, r) != r {
				continue
			}
			l.pieces = l.piecesOf(r, l.pieces[:0])
			if !slices.ContainsFunc(l.pieces, func(p int32) bool { return wanted(m, int(p)) }) {
				continue
			}
			known := l.records(r)
			for i := 0; i < len(l.pieces); {
				var run *Run
				run, i = l.join(l.pieces, i, known)
				l.found = l.constrain(run, known, job, l.found)
			}
		}
		byMachine[m] = slices.Clone(l.found)
	})
	if err = cmp.Or(takingOver.Wait(), err); err != nil {
		return nil, err
	}
	constraints := 0
	for _, list := range byMachine {
		constraints += len(list)
	}
	m.own.constraints = slices.Grow(m.own.constraints, constraints)
	for _, list := range byMachine {
		for _, c := range list {
			c.constraint.point = m.points.Number(c.point)
			at := clockDay{c.constraint.point, c.day}
			come[at] = append(come[at], c.interval)
			m.own.constraints = append(m.own.constraints, c.constraint)
		}
	}
	if err := m.date(ctx, ads); err != nil {
		return nil, err
	}
	touched, byDay := differing(gone, come), come
	if ads.again != nil {
		byDay = m.near(touched)
	}
	return m, m.fit(ctx, touched, byDay)
}

// near are the constraints that clocks are measured by on the touched days and on those around them.
func (m *measured) near(touched map[clockDay]bool) map[clockDay][]interval {
	from, to := int32(math.MaxInt32), int32(math.MinInt32)
	for t := range touched {
		from, to = min(from, t.day-2*clockDays), max(to, t.day+2*clockDays)
	}
	byDay := map[clockDay][]interval{}
	if from > to {
		return byDay
	}
	days := int(to-from) + 1
	lists := make([][]interval, days*len(m.points.All)) // by point and day: there are many constraints
	add := func(c *constraint) {
		if from <= c.day && c.day <= to {
			list := &lists[int(c.point)*days+int(c.day-from)]
			*list = append(*list, c.interval)
		}
	}
	for i := range m.kept.constraints {
		if c := &m.kept.constraints[i]; !m.gone[c.job] {
			add(c)
		}
	}
	for i := range m.own.constraints {
		add(&m.own.constraints[i])
	}
	for i, list := range lists {
		if list != nil {
			byDay[clockDay{int32(i / days), from + int32(i%days)}] = list
		}
	}
	return byDay
}

// date adds whose clock dated each ad of a job.
func (m *measured) date(ctx context.Context, ads *Ads) error {
	begin := make([]int, len(ads.asked)) // of each job's ads in m.own.dates
	n := len(m.own.dates)
	for i, list := range ads.records {
		begin[i] = n
		n += len(list)
	}
	m.own.dates = slices.Grow(m.own.dates, n-len(m.own.dates))[:n]
	var mu sync.Mutex
	return parallel.Chunks(ctx, len(ads.asked), together, func(points *map[string]int32, from, end int) {
		if *points == nil {
			*points = map[string]int32{}
		}
		for list := from; list < end; list++ {
			for i := range ads.records[list] {
				r := &ads.records[list][i]
				point, known := (*points)[r.AccessPoint]
				if !known {
					mu.Lock()
					point = m.points.Number(r.AccessPoint)
					mu.Unlock()
					(*points)[r.AccessPoint] = point
				}
				m.own.dates[begin[list]+i] = dated{ads.asked[list], point, r.day()}
			}
		}
	})
}

// differing returns the days of which not the same constraints came as had gone.
func differing(gone, come map[clockDay][]interval) map[clockDay]bool {
	days := map[clockDay]bool{}
	for _, those := range []map[clockDay][]interval{gone, come} {
		for at := range those {
			if days[at] = len(gone[at]) != len(come[at]); days[at] {
				continue
			}
			for _, list := range [][]interval{gone[at], come[at]} {
				slices.SortFunc(list, func(x, y interval) int {
					return cmp.Or(cmp.Compare(x.low, y.low), cmp.Compare(x.high, y.high))
				})
			}
			days[at] = !slices.Equal(gone[at], come[at])
		}
	}
	maps.DeleteFunc(days, func(_ clockDay, differs bool) bool { return !differs })
	return days
}

// takeOver takes over what rests on jobs that are what they were. The constraints of others have gone.
func (m *measured) takeOver(a *again, gone map[clockDay][]interval) {
	before := a.basis.measured
	m.points, m.clocks = before.points.Clone(), maps.Clone(before.clocks)
	now, same := slices.Repeat([]int32{-1}, len(a.basis.standing)), !a.lost
	for job, was := range a.was {
		if was >= 0 && !a.fresh[job] {
			now[was] = int32(job)
			same = same && was == int32(job)
		}
	}
	m.gone = make([]bool, len(a.was))
	into := m.kept
	if same && before.own.size() <= before.kept.size()/4 {
		copy(m.gone, before.gone)
		for job, fresh := range a.fresh {
			m.gone[job] = m.gone[job] || fresh
		}
		m.kept, into = before.kept, &m.own
	}
	for _, list := range [...]*evidence{before.kept, &before.own} {
		shared := list == m.kept
		if !shared {
			into.constraints = slices.Grow(into.constraints, len(list.constraints))
			into.dates = slices.Grow(into.dates, len(list.dates))
		}
		counts := func(job int32) bool { return list == &before.own || !before.gone[job] }
		for _, c := range list.constraints {
			switch job := now[c.job]; {
			case !counts(c.job):
			case job < 0:
				at := clockDay{c.point, c.day}
				gone[at] = append(gone[at], c.interval)
			case !shared:
				c.job = job
				into.constraints = append(into.constraints, c)
			}
		}
		if shared {
			continue
		}
		for _, d := range list.dates {
			if job := now[d.job]; job >= 0 && counts(d.job) {
				d.job = job
				into.dates = append(into.dates, d)
			}
		}
	}
}

// size is how much it is.
func (e *evidence) size() int { return len(e.constraints) + len(e.dates) }

// fit measures clocks on the touched days and on those around them, which use their constraints as well.
func (m *measured) fit(ctx context.Context, touched map[clockDay]bool, byDay map[clockDay][]interval) error {
	again := map[clockDay]bool{}
	for t := range touched {
		for d := t.day - clockDays; d <= t.day+clockDays; d++ { // ads of a day without constraints need one as well
			again[clockDay{t.point, d}] = true
		}
	}
	days := slices.Collect(maps.Keys(again))
	fitted := make([]*Clock, len(days)) // nil: nothing shows it
	err := parallel.Each(ctx, len(days), func(_ *struct{}, n int) {
		t := days[n]
		for d := t.day - clockDays; d <= t.day+clockDays; d++ {
			if byDay[clockDay{t.point, d}] != nil {
				c := fit(around(byDay, t))
				c.AccessPoint, c.Day = m.points.All[t.point], t.day
				fitted[n] = &c
				return
			}
		}
	})
	if err != nil {
		return err
	}
	own := map[string]bool{} // maps that are not shared
	for n, t := range days {
		point := m.points.All[t.point]
		if !own[point] {
			own[point] = true
			m.clocks[point] = maps.Clone(m.clocks[point])
			if m.clocks[point] == nil {
				m.clocks[point] = map[int32]*Clock{}
			}
		}
		if fitted[n] == nil {
			delete(m.clocks[point], t.day)
		} else {
			m.clocks[point][t.day] = fitted[n]
		}
	}
	return nil
}

// around are a day's constraints; while they are too few, with those of the days before and after it.
func around(byDay map[clockDay][]interval, at clockDay) []interval {
	found := slices.Clone(byDay[at])
	for d := int32(1); d <= clockDays && len(found) < enoughConstraints; d++ {
		found = append(append(found, byDay[clockDay{at.point, at.day - d}]...), byDay[clockDay{at.point, at.day + d}]...)
	}
	return found
}

// moved are the days on which clocks are wrong by something else than before.
func (m *measured) moved(a *again) map[clockDay]bool {
	moved := map[clockDay]bool{}
	errorOf := func(c clocks, point string, day int32) pool.Micros {
		if clock := c[point][day]; clock != nil {
			return clock.Error
		}
		return 0
	}
	for n, point := range m.points.All {
		for _, days := range []map[int32]*Clock{m.clocks[point], a.basis.measured.clocks[point]} {
			for day := range days {
				if errorOf(m.clocks, point, day) != errorOf(a.basis.measured.clocks, point, day) {
					moved[clockDay{int32(n), day}] = true
				}
			}
		}
	}
	return moved
}

// corrected returns the jobs whose ads clocks dated on days on which they moved: they are explained again as well.
func (m *measured) corrected(a *again, moved map[clockDay]bool) (jobs []int32) {
	for _, list := range [...]*evidence{m.kept, &m.own} {
		for _, d := range list.dates {
			if moved[clockDay{d.point, d.day}] && !a.fresh[d.job] && (list == &m.own || !m.gone[d.job]) {
				jobs = append(jobs, d.job)
			}
		}
	}
	slices.SortFunc(jobs, cmp.Compare[int32])
	return slices.Compact(jobs)
}
