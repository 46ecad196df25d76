package utilization

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/query"
)

var (
	groupings = query.By("category", "device", "memory", "machine", "ownership", "project", "user",
		"jobProject", "usedMemory")
	filters       = append(slices.Clone(query.UserFilters), "jobProjects", "usedMemory")
	seriesMetrics = []string{"utilizationPercent", "busy", "idle"}
	tableMetrics  = []string{
		"heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours", "idlePercent", "runs",
		"idleRuns",
	}
)

var metrics = aggregate.Metrics[Sums]{
	aggregate.Define("utilizationPercent", "Utilization %", query.Percent, 1,
		"100 · busy / measured GPU hours; none below one measured GPU hour",
		func(s *Sums) float64 { return s.percent(s.Busy) }),
	aggregate.Define("busy", "Busy (avg.)", query.Count, 1, "GPUs that compute, on average over the covered time",
		func(s *Sums) float64 { return s.BusyGPUs }),
	aggregate.Define("idle", "Idle (avg.)", query.Count, 1, "GPUs held in idle stretches of 30 min or more, on average "+
		"over the covered time", func(s *Sums) float64 { return s.IdleGPUs }),
	aggregate.Define("heldGpuHours", "Held GPU hours", query.GPUHours, 1, "GPU hours of the runs",
		func(s *Sums) float64 { return s.Held }),
	aggregate.Define("measuredPercent", "Measured %", query.Percent, 1,
		"100 · measured / held GPU hours: between two reports of GPUsAverageUsage without a gap",
		func(s *Sums) float64 { return aggregate.Percent(s.Measured, s.Held) }),
	aggregate.Define("busyGpuHours", "Busy GPU hours", query.GPUHours, 1,
		"GPU hours in which jobs computed, by GPUsAverageUsage un-averaged between two snapshots",
		func(s *Sums) float64 { return s.Busy }),
	aggregate.Define("idleGpuHours", "Idle GPU hours", query.GPUHours, 1,
		"GPU hours of stretches of 30 min or more in which less than 1% of the run's GPU time was busy",
		func(s *Sums) float64 { return s.Idle }),
	aggregate.Define("idlePercent", "Idle %", query.Percent, 1, "100 · idle / measured GPU hours; none below one "+
		"measured GPU hour", func(s *Sums) float64 { return s.percent(s.Idle) }),
	aggregate.Define("runs", "Runs", query.Count, 0, "Runs that overlap the time range, on primary and backfill slots",
		func(s *Sums) float64 { return float64(s.Runs) }),
	aggregate.Define("idleRuns", "Idle runs", query.Count, 0, "Runs with an idle stretch in the time range",
		func(s *Sums) float64 { return float64(s.IdleRuns) }),
	aggregate.Define("idleNow", "GPUs idle now", query.Count, 0,
		"GPUs whose runs have computed nothing for 2 h or more at the newest snapshot: those of the view idle",
		func(s *Sums) float64 { return float64(s.IdleNow) }),
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "utilization", Label: "Utilization", Description: "What held GPUs are doing: busy or idle, since when, and " +
		"whose",
	Views: []query.View{
		hourly(query.SeriesView(groupings, seriesMetrics, filters)),
		query.TableView("Held, measured, busy and idle GPU hours, with totals", groupings, tableMetrics,
			filters).WithBeside("", "idleNow"), // the total of the list of runs that are idle now, on request
		query.ListView("runs", "Runs", "Every run of a job and the activity of its GPUs", filters),
		query.ListView("idle", "Idle now", "Runs whose GPUs have computed nothing for 2 h or more, longest first",
			filters),
		query.HeatMapView([]string{"utilizationPercent", "idle"}, filters),
		{ // of machines, or of their GPUs, without totals
			Name: failures, Label: "Failures", Description: "Machines on which more runs fail at once than the same users' " +
				"runs elsewhere, the most suspect first",
			GroupBy: []string{"machine", "gpu"}, Metrics: failureMetrics.Names(), DefaultMetrics: failureMetrics.Names(),
			Groups:  [][]string{{"machine"}, {"machine", "gpu"}},
			Filters: []string{"categories", "slots", "devices", "machines", "ownerships", "users"},
			Options: []string{"includeOldDevices", "shortMinutes", "limit"}, Alerting: query.AlertSingleMetric,
			Frame: query.FrameTable,
		},
	},
	Columns: slices.Concat(metrics.Columns(), failureMetrics.Columns(), []query.Column{
		query.Metric("idleHours", "Idle", query.Hours, 1, "Length of the run's idle stretches in the time range; for runs "+
			"idle now, of the current stretch"),
		query.TextColumn("idleSince", "Idle since", "Beginning of the idle stretch of a run that is idle now"),
		query.TextColumn("lastFailure", "Last failure", "Start of the last run that failed"),
		query.TextColumn("commonest", "Commonest reason", "Reason of most failures"),
	}),
}

// hourly is a view of series whose shortest bucket is an hour: reports of usage show no more.
func hourly(v query.View) query.View {
	v.BucketMinutes = 60
	return v
}
