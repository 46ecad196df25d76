package demand

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"unique"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// since is from when on rows matter to a window.
func since(p *Polls, w pool.Window) pool.Micros {
	after := w.From - joining*p.longest() // a run may have begun so long after the last poll that saw the job idle
	if i := p.upTo(w.From); i >= 0 {
		after = min(after, p.Times[i]) // what waited at the poll before the window takes free GPUs
	}
	return after
}

// rowsByJob gathers all rows of the jobs that were seen idle after a time, each job's in the order of time.
func rowsByJob(v *pressure.View, after pool.Micros) [][]*pressure.Row {
	numbers := map[timeline.Job]int{}
	for _, d := range v.Days {
		if micros(d.Last) < after {
			continue
		}
		for i := range d.Rows {
			if r := &d.Rows[i]; micros(r.Last) >= after {
				if _, known := numbers[r.Job]; !known {
					numbers[r.Job] = len(numbers)
				}
			}
		}
	}
	all := make([][]*pressure.Row, len(numbers))
	for _, d := range v.Days {
		for i := range d.Rows {
			if n, wanted := numbers[d.Rows[i].Job]; wanted {
				all[n] = append(all[n], &d.Rows[i])
			}
		}
	}
	for _, rows := range all {
		slices.SortStableFunc(rows, func(a, b *pressure.Row) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
		})
	}
	return all
}

// measures are what a group of waits adds up to in a window.
type measures struct {
	waits, started, left int
	cohort               survival.Cohort
	hours                []float64 // see quantiles, once they are asked for
	waited               float64   // hours, of those that started
	efforts, ran         float64   // GPU-hours: wait + run, and run
	oldest               pool.Micros
}

// add adds a wait that overlaps the window. newest is the newest poll in the window.
func (m *measures) add(w *Wait, window pool.Window, newest pool.Micros) {
	m.waits++
	it := itemOf(w, window)
	switch {
	case it.Fate == survival.Event:
		m.started++
		m.waited += pool.Hours(w.End - w.Begin)
		if w.RanUntil != 0 && w.RanUntil <= window.To {
			m.efforts += w.Request.GPUs * pool.Hours(w.End-w.Begin+w.Ran)
			m.ran += w.Request.GPUs * pool.Hours(w.Ran)
		}
	case w.Outcome == Left && window.Contains(w.End):
		m.left++
	}
	m.cohort.Add(it)
	if w.sees(newest) {
		m.oldest = max(m.oldest, newest-w.Begin+1) // 0: none waits
	}
}

// itemOf returns a wait as a survival curve of a window takes it.
func itemOf(w *Wait, window pool.Window) survival.Item {
	it := survival.Item{Entry: max(w.Known, window.From) - w.Begin, Exit: min(w.End, window.To) - w.Begin}
	if w.Outcome == Started && window.Contains(w.End) {
		it.Fate = survival.Event
	}
	return it
}

// metric returns a metric of waits; NaN where it has no value. Averages over time are not among them.
func (m *measures) metric(name string) float64 {
	switch name {
	case "waits":
		return float64(m.waits)
	case "started":
		return float64(m.started)
	case "left":
		return float64(m.left)
	case "medianWaitHours":
		return m.quantiles()[0]
	case "p90WaitHours":
		return m.quantiles()[1]
	case "meanWaitHours":
		return m.waited / float64(m.started) // NaN without any
	case "expansionFactor":
		return ratio(m.efforts, m.ran)
	case "oldestHours":
		if m.oldest > 0 {
			return pool.Hours(m.oldest - 1)
		}
	}
	return math.NaN()
}

// quantiles are the hours until a half and a tenth still wait.
func (m *measures) quantiles() []float64 {
	if m.hours == nil {
		for _, age := range m.cohort.Summary([]float64{survival.AtMost(0.5), survival.AtMost(0.1)}).Reached {
			hours := math.NaN()
			if age >= 0 {
				hours = pool.Hours(age)
			}
			m.hours = append(m.hours, hours)
		}
	}
	return m.hours
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// group is what waits are counted under; what is not asked for is zero.
type group struct {
	user, project, schedd timeline.Symbol
	gpus, memory          unique.Handle[string] // quicker to hash than texts
}

// groupOf returns the group of a wait by some groupings.
func groupOf(w *Wait, by []string) (k group) {
	for _, name := range by {
		switch name {
		case "user":
			k.user = w.Owner
		case "project":
			k.project = w.Project
		case "schedd":
			k.schedd = w.Schedd
		case "gpus":
			k.gpus = unique.Make(gpusClass(w.Request.GPUs))
		case "gpuMemory":
			k.memory = unique.Make(memoryClass(w.Request.GPUMemory))
		}
	}
	return k
}

// gpusClass is the class of the number of GPUs that a job asks for.
func gpusClass(gpus float64) string {
	switch {
	case gpus < 2:
		return "1"
	case gpus < 3:
		return "2"
	case gpus < 5:
		return "3-4"
	case gpus < 9:
		return "5-8"
	}
	return ">8"
}

// memoryClass is the class of the memory that each of a job's GPUs must have.
func memoryClass(mib float64) string {
	if mib == 0 {
		return "any"
	}
	return pool.MemoryClass(mib)
}

// users adds, to a level, each of a group's users while a job of theirs waits.
func addUsers(l *level, all []*Wait) {
	byUser := slices.Clone(all)
	slices.SortStableFunc(byUser, func(a, b *Wait) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner),
			cmp.Compare(a.Counted, b.Counted))
	})
	for i := 0; i < len(byUser); {
		user, from, to := byUser[i].Owner, byUser[i].Counted, byUser[i].End
		for i++; i < len(byUser) && byUser[i].Owner == user && byUser[i].Counted <= to; i++ {
			to = max(to, byUser[i].End)
		}
		l.add(from, to, 1)
	}
}

// takenUntil returns a clock's measure of the time in which it is known how many free GPUs waiting jobs could have
// taken.
func takenUntil(all []Taken) func(pool.Micros) pool.Micros {
	before := make([]pool.Micros, len(all)+1)
	for i, t := range all {
		before[i+1] = before[i] + t.To - t.From
	}
	return func(t pool.Micros) pool.Micros {
		i := sort.Search(len(all), func(i int) bool { return all[i].From >= t })
		if i == 0 {
			return 0
		}
		return before[i-1] + min(t, all[i-1].To) - all[i-1].From
	}
}
