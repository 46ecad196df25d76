package demand

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

var (
	groupings     = []string{"user", "project", "schedd", "gpus", "gpuMemory"}
	seriesMetrics = []string{"waitingGpus", "waitingJobs", "waitingUsers", "started", freeWhileWaiting}
	tableMetrics  = []string{
		"waits", "started", "left", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor",
		"waitingJobs", "waitingGpus", "waitingUsers", "oldestHours", freeWhileWaiting,
	}
	filters = []string{"users", "projects", "schedds", "gpus", "gpuMemory"}
)

// Kind describes the kind.
var Kind = query.Kind{
	Name: "demand", Label: "Demand", Description: "Who waits for GPUs, how long, and what is free meanwhile",
	Views: []query.View{
		aboutJobs(query.SeriesView(groupings, seriesMetrics, filters)),
		aboutJobs(query.TableView("Waits that overlap the time range, and how long they take", groupings, tableMetrics,
			filters)),
		aboutJobs(query.ListView("waiting", "Waiting", "Every job that waits at the newest poll", filters)),
		aboutJobs(query.SurvivalView("Share of jobs that still wait after x hours",
			[]string{"user", "project", "gpus", "gpuMemory"}, filters)),
		aboutJobs(query.HeatMapView([]string{"waitingGpus"}, filters)),
	},
	Columns: []query.Column{
		query.Metric("waits", "Waits", query.Count, 0, "Waits that overlap the time range"),
		query.Metric("started", "Started", query.Count, 0, "Waits that ended with a run of the job"),
		query.Metric("left", "Left", query.Count, 0, "Waits that ended otherwise: removed, held, or run where no snapshot "+
			"shows it"),
		query.Metric("medianWaitHours", "Median wait", query.Hours, 1,
			"Kaplan–Meier: first age at which no more than half still wait; none: not reached"),
		query.Metric("p90WaitHours", "90 % wait at most", query.Hours, 1,
			"Kaplan–Meier: first age at which no more than a tenth still waits; none: not reached"),
		query.Metric("meanWaitHours", "Mean wait (started)", query.Hours, 1,
			"Plain mean of the waits that ended with a run, as XDMoD counts them"),
		query.Metric("expansionFactor", "Expansion factor", query.Count, 2,
			"Σ (wait + run) / Σ run, weighted by GPUs, of jobs whose run has ended"),
		query.Metric("waitingJobs", "Waiting jobs (avg.)", query.Count, 1,
			"Jobs in a wait, on average over the time between polls"),
		query.Metric("waitingGpus", "Waiting GPUs (avg.)", query.Count, 1,
			"GPUs that waiting jobs ask for, on average over the time between polls"),
		query.Metric("waitingUsers", "Waiting users (avg.)", query.Count, 1,
			"Users with a waiting job, on average over the time between polls"),
		query.Metric("oldestHours", "Oldest wait", query.Hours, 1, "Longest wait of the jobs that the newest poll saw idle"),
		query.Metric(freeWhileWaiting, "Free while waiting (avg.)", query.Count, 1,
			"Free GPUs that waiting jobs could have taken by number and memory: an upper bound"),

		query.NameColumn(query.Users, "user", "User", "Owner of the jobs"),
		query.TextColumn("project", "Project", "Projects of the jobs (ChtcProjects)"),
		query.TextColumn("schedd", "Access point", "ScheddName"),
		query.Metric("gpus", "GPUs", query.Count, 0, "RequestGPUs"),
		query.TextColumn("gpuMemory", "GPU memory asked for", "Class of RequestGPUMemory"),
		query.Metric("cpus", "CPUs", query.Count, 0, "RequestCPUs"),
		query.Metric("memoryGb", "Memory", "decgbytes", 0, "RequestMemory / 1024"),
		query.Metric("gpuMemoryGb", "GPU memory", "decgbytes", 0, "RequestGPUMemory / 1024; none: any"),
		query.Metric("attempts", "Attempts", query.Count, 0, "Runs of the job that began before this wait"),
		query.Metric("freeNow", "Free now", query.Count, 0, "GPUs free in the newest slice that have the memory that the "+
			"job asks for"),
	},
}

// aboutJobs is a view to which no device matters.
func aboutJobs(v query.View) query.View {
	v.Options = slices.DeleteFunc(slices.Clone(v.Options),
		func(option string) bool { return option == "includeOldDevices" })
	return v
}
