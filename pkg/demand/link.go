package demand

import (
	"cmp"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// missedBy returns a function that reports whether no poll saw a job idle although its access point is polled.
func missedBy(rows *queues.View) func(timeline.Job) bool {
	points, idle := polledPoints(rows), map[timeline.Job]bool{}
	for _, d := range rows.Days {
		for i := range d.Rows {
			if r := &d.Rows[i]; !r.Running {
				idle[r.Job] = true
			}
		}
	}
	return func(job timeline.Job) bool { return points[job.Schedd] && !idle[job] }
}

// wantedJobs are the jobs whose runs matter to a window: those that were idle, and with job ads those that polls missed
// (nil: there are no ads) and that may have begun in the window.
func wantedJobs(o *runs.Observed, queued []sightings, missed func(timeline.Job) bool,
	w pool.Window) map[timeline.Job]bool {
	wanted := map[timeline.Job]bool{}
	for _, list := range queued {
		wanted[list.idle[0].Job] = true
	}
	if missed == nil {
		return wanted
	}
	began := map[timeline.Job]pool.Micros{} // at the latest
	for m := range o.Machines {
		for i := range o.Machines[m].Runs {
			r := &o.Machines[m].Runs[i]
			if first := o.View.Times[r.First]; !r.Job.IsNone() && missed(r.Job) &&
				(began[r.Job] == 0 || first < began[r.Job]) {
				began[r.Job] = first
			}
		}
	}
	for job, at := range began {
		if at+runs.Tolerance >= w.From && micros(job.QDate) <= w.To {
			wanted[job] = true
		}
	}
	return wanted
}

type jobRuns struct {
	job    timeline.Job
	number int32 // see [runs.Observed.JobOf]; −1 if only an ad shows its first run
	runs   []Run // in the order in which they began
	ads    []jobs.Ad
}

// runsByJob gathers the runs of wanted jobs, and those near a window that only ads show; all: by machine.
func runsByJob(o *runs.Observed, x *runs.Explanations, wanted map[timeline.Job]bool,
	w pool.Window) (known map[timeline.Job]*jobRuns, all []*jobRuns) {
	known = map[timeline.Job]*jobRuns{}
	add := func(e *runs.Explained, number int32, ads ...jobs.Ad) {
		of := known[e.Job]
		if of == nil {
			of = &jobRuns{job: e.Job, number: number}
			known[e.Job] = of
			all = append(all, of)
		}
		if of.runs = append(of.runs, runOf(o, e)); len(of.ads) == 0 {
			of.ads = ads
		}
	}
	for m := range x.Machines {
		for i := range x.Machines[m].Runs {
			if e := &x.Machines[m].Runs[i]; wanted[e.Job] {
				add(e, o.JobOf(m, int(e.Number)))
			}
		}
		for i := range x.Machines[m].Unseen {
			e := &x.Machines[m].Unseen[i]
			if !e.Job.IsNone() && e.Start >= w.From-runs.Reach && e.Start <= w.To+pool.Day {
				add(e, -1, *e.Ad)
			}
		}
	}
	for _, of := range all {
		sortRuns(of.runs)
	}
	return known, all
}

// runOf is a run with the middle of two snapshots for a start or end that no ad has and that lies between them.
func runOf(o *runs.Observed, e *runs.Explained) Run {
	times := o.View.Times
	r := Run{Start: e.Start, End: e.End, Machine: e.Place.Machine,
		Whole: e.Outcome != runs.Running && e.Outcome != runs.Lost}
	if e.Last < e.First {
		return r // only an ad shows it
	}
	r.Seen, r.Estimated = times[e.First], !e.StartByAd
	if r.Estimated && int(e.First) > o.First && !o.GapAfter(e.First-1) {
		r.Start = middle(times[e.First-1], times[e.First])
	}
	if !e.EndByAd && e.Ending == runs.Vanished {
		r.End = middle(times[e.Last], times[e.Gone])
	}
	r.End = max(r.End, r.Start)
	return r
}

// elsewhere returns a run on a machine outside the snapshots for each running row that no known run overlaps. A run
// began between the poll before the first one that saw it and that one.
func elsewhere(p *Polls, running []*queues.Row, runs []Run) (all []Run) {
	for _, r := range running {
		first, last := micros(r.First), micros(r.Last)
		if slices.ContainsFunc(runs, func(run Run) bool {
			return run.Start <= last && run.End >= first-p.Cadence(first)
		}) {
			continue
		}
		run := Run{Start: first, End: last, Seen: first, Estimated: true, Elsewhere: true}
		if i := p.from(first); i > 0 {
			run.Start = middle(p.Times[i-1], first)
		}
		all = append(all, run)
	}
	return all
}

func middle(a, b pool.Micros) pool.Micros { return a + (b-a)/2 }

// adOnly makes the waits of missed jobs, which began between two polls: their ads say when they were queued.
func adOnly(clocks *runs.Ads, missed func(timeline.Job) bool, all []*jobRuns, p *Polls, rows *queues.View) []Wait {
	var waits []Wait
	for _, of := range all {
		job := of.job
		if !missed(job) || len(of.ads) == 0 {
			continue
		}
		ad := &of.ads[len(of.ads)-1]
		if ad.RequestGPUs > pool.MostGPUs {
			continue
		}
		user, _, _ := strings.Cut(ad.User, "@")
		list := pool.ProjectList(ad.ChtcProjects)
		w := Wait{
			Job: job, Schedd: job.Schedd, Owner: rows.Names.Symbol(cmp.Or(ad.Owner, user)),
			Project: rows.Names.Symbol(list), NoList: list == "",
			Request: queues.Request{GPUs: max(1, ad.RequestGPUs), CPUs: ad.RequestCPUs, Memory: ad.RequestMemory,
				GPUMemory: max(0, ad.RequestGPUMemory)},
			Begin: queuedAt(of.ads, job), First: 1, Last: 0, AdOnly: true,
		}
		w.started(&of.runs[0])
		started := of.runs[0].Start
		if start := firstStart(clocks, of.ads); start != 0 && start < started-runs.Tolerance {
			// The first run is not one of the known ones.
			started, w.End, w.Ran, w.RanUntil, w.RunOn = start, max(start, w.Begin), 0, 0, 0
		}
		w.Known, w.Counted = w.Begin, w.Begin
		if w.Begin != 0 && w.Begin-runs.Tolerance <= started && p.Covers(w.Begin) && p.Covers(w.End) {
			waits = append(waits, w)
		}
	}
	return waits
}

// queuedAt is a job's QDate; 0 = not known.
func queuedAt(list []jobs.Ad, job timeline.Job) pool.Micros {
	if i := slices.IndexFunc(list, func(ad jobs.Ad) bool { return ad.QDate != 0 }); i >= 0 {
		return list[i].QDate.Micros()
	}
	return micros(job.QDate)
}

// firstStart is the start of a job's first run, by the corrected dates of its ads; 0 = not stored.
func firstStart(clocks *runs.Ads, list []jobs.Ad) (first pool.Micros) {
	for i := range list {
		if t := clocks.Date(&list[i], list[i].JobStartDate); t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}
