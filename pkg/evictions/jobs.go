package evictions

import (
	"cmp"
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// jobRuns counts a job's runs in a window (methodology section 8, view jobs).
type jobRuns struct {
	job                     string
	first, last             *linked.Run // by when they begin
	runs, evictions, yields int64
	gpuHours, lost          float64
	user                    timeline.Symbol // from the last run that names one
	named                   pool.Micros     // when that run began
}

// add adds one of the job's runs.
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

// jobs lists the jobs with runs in the window by evictions, then by hours lost, most first, so that those that never
// finish stand out.
func (a *answer) jobs() data.Frames {
	var keys pool.Numbered[timeline.Job]
	var list []*jobRuns
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
		a.About.Info("%s without a GlobalJobId left out", frames.Count(nameless, "run"))
	}
	slices.SortFunc(list, func(x, y *jobRuns) int {
		byLost := cmp.Compare(y.lost, x.lost)
		if math.Abs(x.lost-y.lost) <= 1e-9 {
			byLost = 0
		}
		return cmp.Or(cmp.Compare(y.evictions, x.evictions), byLost, cmp.Compare(x.job, y.job))
	})
	list = list[:a.About.Shown(len(list))]
	return frames.Columns(a.Plan, a.About,
		frames.Text("job", frames.Each(list, func(j *jobRuns) string { return a.Plan.Shown("job", j.job) })),
		frames.Text("user", frames.Each(list, func(j *jobRuns) string { return a.Plan.Shown("user", a.Names[j.user]) })),
		frames.Numbers("runs", frames.Each(list, func(j *jobRuns) int64 { return j.runs })),
		frames.Numbers("evictions", frames.Each(list, func(j *jobRuns) int64 { return j.evictions })),
		frames.Numbers("yielded", frames.Each(list, func(j *jobRuns) int64 { return j.yields })),
		frames.Number("gpuHours", frames.Each(list, func(j *jobRuns) float64 { return j.gpuHours })),
		frames.Number("lostGpuHours", frames.Each(list, func(j *jobRuns) float64 { return j.lost })),
		frames.Time("start", frames.Each(list, func(j *jobRuns) pool.Micros { return j.first.Start })),
		frames.Time("end", frames.Each(list, func(j *jobRuns) pool.Micros {
			if j.last.Result == runs.Running {
				return frames.NoTime
			}
			return j.last.Until
		})),
		frames.Text("outcome", frames.Each(list, func(j *jobRuns) string { return j.last.Result.String() })))
}
