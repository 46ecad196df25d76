package demand

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/query"
)

var (
	groupings     = query.By("user", "project", "schedd", "gpus", "gpuMemory", "ownGpus")
	seriesMetrics = []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", freeWhileWaiting,
		"startedElsewhere"}
	tableMetrics = slices.DeleteFunc(metrics.Names(), func(name string) bool {
		return slices.Contains(append([]string{"gpus", "withinLow", "withinHigh", p90HeldPercent}, ownMetrics...), name)
	})
	ownMetrics = []string{"withinPercent", "startedOnOwnPercent"} // beside ownGpus
	filters    = []string{"users", "projects", "schedds", "gpus", "gpuMemory"}
	ownFilters = append(slices.Clone(filters), "ownGpus")
	gpuFilters = query.FilterBy("devices", "machines", "ownerships", "memories", "reasons")
)

var metrics = aggregate.Metrics[Sums]{
	aggregate.Define("waits", "Waits", query.Count, 0, "Waits that overlap the time range",
		func(s *Sums) float64 { return s.Waits }),
	aggregate.Define("started", "Started", query.Count, 0, "Waits that ended with a run of the job",
		func(s *Sums) float64 { return s.Started }),
	aggregate.Define("startedElsewhere", "Started elsewhere", query.Count, 0, "Started waits whose run only the poller "+
		"saw: no snapshot or job ad shows the machine", func(s *Sums) float64 { return s.Elsewhere }),
	aggregate.Define("left", "Left", query.Count, 0, "Waits that ended otherwise: the job was removed or held, or ran "+
		"unseen by snapshots and the poller", func(s *Sums) float64 { return s.Left }),
	aggregate.Define("medianWaitHours", "Median wait", query.Hours, 1,
		"Kaplan–Meier: first age at which no more than half still wait; none: not reached",
		func(s *Sums) float64 { return s.median }),
	aggregate.Define("p90WaitHours", "90% wait at most", query.Hours, 1,
		"Kaplan–Meier: first age at which no more than a tenth still waits; none: not reached",
		func(s *Sums) float64 { return s.p90 }),
	aggregate.Define("meanWaitHours", "Mean wait (started)", query.Hours, 1,
		"Plain mean of the waits that ended with a run, as XDMoD counts them",
		func(s *Sums) float64 { return aggregate.Ratio(s.Waited, s.Started) }),
	aggregate.Define("expansionFactor", "Expansion factor", query.Count, 2,
		"Σ (wait + run) / Σ run, weighted by GPUs, of jobs whose run has ended",
		func(s *Sums) float64 { return aggregate.Ratio(s.efforts, s.ran) }),
	aggregate.Define("waitingJobs", "Waiting jobs (avg.)", query.Count, 1,
		"Jobs in a wait, on average over the time between polls", func(s *Sums) float64 { return s.Jobs }),
	aggregate.Define("waitingGpus", "Waiting GPUs (avg.)", query.Count, 1,
		"GPUs that waiting jobs ask for, on average over the time between polls", func(s *Sums) float64 { return s.GPUs }),
	aggregate.Define("gpus", "GPUs", query.Count, 0, "RequestGPUs of a job; for unused GPUs, how many there are",
		func(s *Sums) float64 { return s.GPUs }),
	aggregate.Define("waitingUsers", "Waiting users (avg.)", query.Count, 1,
		"Users with a waiting job, on average over the time between polls", func(s *Sums) float64 { return s.Users }),
	aggregate.Define("oldestHours", "Oldest wait", query.Hours, 1,
		"Longest wait of the jobs that the newest poll saw idle", (*Sums).oldestHours),
	aggregate.Define("withinPercent", "Started within", query.Percent, 1, "Kaplan–Meier: share that starts within "+
		"`withinMinutes` (10 by default); none: too few waits are known from early on",
		func(s *Sums) float64 { return s.within }),
	aggregate.Define("withinLow", "Started within, 95% low", query.Percent, 1,
		"Lower bound of the 95% interval of `withinPercent`", func(s *Sums) float64 { return s.withinLow }),
	aggregate.Define("withinHigh", "Started within, 95% high", query.Percent, 1,
		"Upper bound of the 95% interval of `withinPercent`", func(s *Sums) float64 { return s.withinHigh }),
	aggregate.Define("startedOnOwnPercent", "Started on own GPUs", query.Percent, 1, "Of started waits with own GPUs, "+
		"those whose run is on a machine of one of them",
		func(s *Sums) float64 { return aggregate.Percent(s.onOwn, s.knownRun) }),
	aggregate.Define(p90HeldPercent, "Usual wait kept", query.Percent, 1,
		"Kaplan–Meier: share of the waits that begin in the time range and are at most as long as nine in ten were in "+
			"the 7 days before their day",
		func(s *Sums) float64 { return s.p90Held }),
	aggregate.Define(freeWhileWaiting, "Free while waiting (avg.)", query.Count, 1,
		"Free GPUs that waiting jobs could have taken by number and memory: an upper bound",
		func(s *Sums) float64 { return s.free }),
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "demand", Label: "Demand", Description: "Who is waiting for GPUs, for how long, and what is free in the " +
		"meantime",
	Views: []query.View{
		aboutJobs(query.SeriesView(groupings, seriesMetrics, ownFilters)),
		aboutJobs(query.TableView("Waits that overlap the time range, and how long they take", groupings, tableMetrics,
			ownFilters)).WithBeside("ownGpus", ownMetrics...).WithBeside("", "withinLow", "withinHigh", p90HeldPercent).
			With("withinMinutes"),
		aboutJobs(query.ListView("waiting", "Waiting", "Every job waiting at the newest poll", filters)),
		aboutJobs(query.SurvivalView("Share of jobs still waiting after x hours",
			[]string{"user", "project", "gpus", "gpuMemory", "ownGpus"}, ownFilters)),
		aboutJobs(query.HeatMapView([]string{"waitingGpus"}, filters)),
		aboutJobs(always("obstacle", "obstacles", "Obstacles", "Requests of waiting jobs, by the first obstacle",
			[]string{"obstacle", "user", "project", "gpus", "gpuMemory"}, []string{"waitingGpus", "waitingJobs"}, filters)),
		aboutJobs(always("reason", "unused", "Unused GPUs", "Unused GPUs, by reason",
			query.By("reason", "device", "memory", "ownership"), []string{"gpus"}, gpuFilters)),
		aboutJobs(query.ListView("unusedNow", "Unused now", "Unused GPUs by machine at the newest poll, and what would help",
			gpuFilters)),
	},
	Columns: append(metrics.Columns(),
		query.NameColumn(query.Users, "user", "User", "Owner of the jobs"),
		query.TextColumn("project", "Project", "Projects of the jobs (ChtcProjects)"),
		query.TextColumn("schedd", "Access point", "ScheddName"),
		query.Metric("missing", "Missing CPUs or GiB", query.Count, 1, "Additional CPUs, or GiB of memory, that would "+
			"let a job run there"),
		query.Metric("servesJobs", "Serves jobs", query.Count, 0,
			"Jobs for which that would be enough, each on its own; fits: jobs that take GPUs of the row"),
		query.TextColumn("gpuMemory", "Requested GPU memory", "Class of RequestGPUMemory"),
		query.Metric("cpus", "CPUs", query.Count, 0, "RequestCPUs"),
		query.Metric("memoryGb", "Memory", "decgbytes", 0, "RequestMemory / 1024"),
		query.Metric("gpuMemoryGb", "GPU memory", "decgbytes", 0, "RequestGPUMemory / 1024; none: any"),
		query.Metric("attempts", "Attempts", query.Count, 0, "Runs of the job that began before this wait"),
		query.Metric("freeNow", "Free now", query.Count, 0, "GPUs free in the newest slice with the requested memory"),
	),
}

// always is a series view with a grouping that is there whether a query names it or not.
func always(grouping, name, label, description string, groupBy, metrics, filters []string) query.View {
	v := query.SeriesView(groupBy, metrics, filters)
	v.Name, v.Label, v.Description, v.Always = name, label, description, grouping
	return v
}

// aboutJobs is a view to which no device matters, and whose projects are those of jobs.
func aboutJobs(v query.View) query.View {
	v.OfJobs = true
	v.Options = slices.DeleteFunc(slices.Clone(v.Options),
		func(option string) bool { return option == "includeOldDevices" })
	return v
}
