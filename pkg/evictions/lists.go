package evictions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// newest returns the runs that a list shows, newest first; those that end together by machine and first snapshot.
func (a *answer) newest(shows func(*linked.Run) bool) frames.Rows[linked.Run] {
	list := slices.DeleteFunc(a.runs, func(r *linked.Run) bool { return !shows(r) })
	return frames.Newest(a.About, list, func(r *linked.Run) pool.Micros { return r.Until })
}

// evicted returns the runs that were evicted in the window, newest first.
func (a *answer) evicted() frames.Rows[linked.Run] {
	return a.newest(func(r *linked.Run) bool { return r.Result == runs.Evicted && a.takenOver(r) })
}

func (a *answer) events(context.Context) (data.Frames, error) {
	list := a.evicted()
	return frames.Columns(a.Plan, a.About, slices.Concat(
		[]*data.Field{list.Time("time", func(r *linked.Run) pool.Micros { return r.End })},
		a.Subject(list),
		[]*data.Field{
			list.Number("ranHours", func(r *linked.Run) float64 { return pool.Hours(r.Length()) }),
			list.Number("gpuHours", func(r *linked.Run) float64 { return r.GPUHours(r.Length()) }),
			list.Text("cause", func(r *linked.Run) string { return r.Cause.String() }),
			list.Text("evidence", func(r *linked.Run) string { return r.Evidence.String() }),
			list.Text("takenOverBy", a.takenOverBy),
			list.Time("savedUntil", savedUntil),
			list.Number("lostGpuHours", lost),
		})...), nil
}

func (a *answer) list(context.Context) (data.Frames, error) {
	list := a.newest(func(*linked.Run) bool { return true })
	evidence := func(r *linked.Run) string {
		if r.Result == runs.Running {
			return runs.None.String()
		}
		return r.Evidence.String()
	}
	cause := func(r *linked.Run) string {
		if r.Result == runs.Running {
			return runs.NoCause.String()
		}
		return r.Cause.String()
	}
	return frames.Columns(a.Plan, a.About, append(a.Subject(list),
		list.Time("start", func(r *linked.Run) pool.Micros { return r.Start }),
		list.Time("end", func(r *linked.Run) pool.Micros { return r.Until }),
		list.Number("hours", func(r *linked.Run) float64 { return pool.Hours(r.Length()) }),
		list.Text("outcome", func(r *linked.Run) string { return r.Result.String() }),
		list.Text("evidence", evidence),
		list.Text("cause", cause),
		list.Text("link", func(r *linked.Run) string { return r.Link.String() }),
		list.Time("savedUntil", savedUntil),
		list.Number("lostGpuHours", lost),
		list.Number("evictedGpuHours", evictedHours))...), nil
}

// savedUntil is when the job of an evicted run last saved its work; other runs have none.
func savedUntil(r *linked.Run) pool.Micros {
	if r.Result != runs.Evicted {
		return frames.NoTime
	}
	return r.LastSave()
}

// lost are the GPU-hours that an eviction cost; other runs have none.
var lost = onlyEvicted(func(r *linked.Run) float64 { return r.GPUHours(max(0, r.Until-r.LastSave())) })

var evictedHours = onlyEvicted(func(r *linked.Run) float64 { return r.GPUHours(r.Length()) })

// onlyEvicted is a figure that only evicted runs have.
func onlyEvicted(figure func(*linked.Run) float64) func(*linked.Run) float64 {
	return func(r *linked.Run) float64 {
		if r.Result != runs.Evicted {
			return math.NaN()
		}
		return figure(r)
	}
}

func (a *answer) takenOverBy(r *linked.Run) string {
	if !r.Takeover {
		return ""
	}
	return a.Plan.Shown("takenOverBy", a.Names[r.TakenBy])
}

func (a *answer) annotations(context.Context) (data.Frames, error) {
	list := a.evicted()
	text := func(r *linked.Run) string {
		text := fmt.Sprintf("%s ran %s h on %s (%s); %s, by %s", a.Plan.Shown("user", a.Names[r.User]),
			frames.Decimal(pool.Hours(r.Length())), a.IDs(r), a.Plan.Shown("device", a.Names[r.Place.Device]),
			r.Cause, r.Evidence)
		if by := a.takenOverBy(r); by != "" {
			text += "; taken over by " + by
		}
		return text
	}
	end := func(r *linked.Run) pool.Micros { return r.End }
	return frames.Columns(a.Plan, a.About, list.Time("time", end), list.Time("timeEnd", end),
		list.Text("title", func(r *linked.Run) string { return "Evicted: " + a.Names[r.Place.Machine] }),
		list.Text("text", text),
		list.Text("tags", func(r *linked.Run) string { return "eviction," + r.Cause.String() })), nil
}

// jobRuns counts a job's runs in a window (methodology section 8, view jobs).
type jobRuns struct {
	job                     string
	first, last             *linked.Run // by when they begin
	runs, evictions, yields int64
	gpuHours, lost          float64
	user                    timeline.Symbol // from the last run that names one
	named                   pool.Micros     // when that run began
}

func (j *jobRuns) add(r *linked.Run, w pool.Window) {
	if j.runs == 0 || r.Start < j.first.Start {
		j.first = r
	}
	if j.runs == 0 || r.Start >= j.last.Start {
		j.last = r
	}
	if r.User != 0 && r.Start >= j.named {
		j.user, j.named = r.User, r.Start
	}
	j.runs++
	j.gpuHours += r.GPUHoursIn(r.Start, w.From, w.To)
	switch r.Result {
	case runs.Evicted:
		j.evictions++
		j.lost += r.GPUHoursIn(r.LastSave(), w.From, w.To)
	case runs.Yielded:
		j.yields++
	}
}

// jobs lists the jobs with runs in the window by evictions, then by hours lost, most first: those that never finish.
func (a *answer) jobs(context.Context) (data.Frames, error) {
	var keys pool.Numbered[timeline.Job]
	var list frames.Rows[jobRuns]
	nameless := 0
	for _, r := range a.runs {
		if r.Job.IsNone() {
			nameless++
			continue
		}
		n := int(keys.Number(r.Job))
		if n == len(list) {
			list = append(list, &jobRuns{job: a.Observed.View.Names.JobText(r.Job)})
		}
		list[n].add(r, a.Plan.Window)
	}
	if nameless > 0 {
		a.About.Count("Runs without a GlobalJobId, left out", nameless, "%s without a GlobalJobId left out",
			frames.Count(nameless, "run"))
	}
	// Sums of hours differ in their last digits: nearly equal ones are equal.
	mostFirst := func(x, y *jobRuns) int {
		byLost := cmp.Compare(y.lost, x.lost)
		if math.Abs(x.lost-y.lost) <= 1e-9 {
			byLost = 0
		}
		return cmp.Or(cmp.Compare(y.evictions, x.evictions), byLost)
	}
	frames.Sort(a.Plan, list, mostFirst, "job", func(j *jobRuns) string { return j.job })
	list = list[:a.About.Shown(len(list))]
	return frames.Columns(a.Plan, a.About,
		list.Text("job", func(j *jobRuns) string { return a.Plan.Shown("job", j.job) }),
		list.Text("user", func(j *jobRuns) string { return a.Plan.Shown("user", a.Names[j.user]) }),
		list.Whole("runs", func(j *jobRuns) int64 { return j.runs }),
		list.Whole("evictions", func(j *jobRuns) int64 { return j.evictions }),
		list.Whole("yielded", func(j *jobRuns) int64 { return j.yields }),
		list.Number("gpuHours", func(j *jobRuns) float64 { return j.gpuHours }),
		list.Number("lostGpuHours", func(j *jobRuns) float64 { return j.lost }),
		list.Time("start", func(j *jobRuns) pool.Micros { return j.first.Start }),
		list.Time("end", func(j *jobRuns) pool.Micros {
			if j.last.Result == runs.Running {
				return frames.NoTime
			}
			return j.last.Until
		}),
		list.Text("outcome", func(j *jobRuns) string { return j.last.Result.String() })), nil
}
