package utilization

import "github.com/chtc/gpureports/pkg/query"

var (
	groupings     = []string{"category", "device", "memory", "machine", "ownership", "project", "user"}
	seriesMetrics = []string{"utilizationPercent", "busy", "idle"}
	tableMetrics  = []string{
		"heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours", "idlePercent", "runs",
		"idleRuns",
	}
)

// Kind describes the kind.
var Kind = query.Kind{
	Name: "utilization", Label: "Utilisation", Description: "What held GPUs do: busy, idle, since when, whose",
	Views: []query.View{
		hourly(query.SeriesView(groupings, seriesMetrics, query.UserFilters)),
		query.TableView("Held, measured, busy and idle GPU hours, with totals", groupings, tableMetrics, query.UserFilters),
		query.ListView("runs", "Runs", "Every run of a job and what its GPUs did", query.UserFilters),
		query.ListView("idle", "Idle now", "Runs whose GPUs have computed nothing for 2 h or more, longest first",
			query.UserFilters),
		query.HeatMapView([]string{"utilizationPercent", "idle"}, query.UserFilters),
	},
	Columns: []query.Column{
		query.Metric("utilizationPercent", "Utilisation %", query.Percent, 1,
			"100 · busy / measured GPU hours; none below one measured GPU hour"),
		query.Metric("busy", "Busy (avg.)", query.Count, 1, "GPUs that compute, on average over the covered time"),
		query.Metric("idle", "Idle (avg.)", query.Count, 1, "GPUs held in idle stretches of 30 min or more, on average "+
			"over the covered time"),
		query.Metric("heldGpuHours", "Held GPU hours", query.GPUHours, 1, "GPU hours of the runs"),
		query.Metric("measuredPercent", "Measured %", query.Percent, 1,
			"100 · measured / held GPU hours: between two reports of GPUsAverageUsage without a gap"),
		query.Metric("busyGpuHours", "Busy GPU hours", query.GPUHours, 1,
			"GPU hours in which jobs computed, by GPUsAverageUsage un-averaged between two snapshots"),
		query.Metric("idleGpuHours", "Idle GPU hours", query.GPUHours, 1,
			"GPU hours of stretches of 30 min or more in which less than 1 % of the run's GPU time was busy"),
		query.Metric("idlePercent", "Idle %", query.Percent, 1, "100 · idle / measured GPU hours; none below one measured "+
			"GPU hour"),
		query.Metric("runs", "Runs", query.Count, 0, "Runs that overlap the time range, on real and backfill slots"),
		query.Metric("idleRuns", "Idle runs", query.Count, 0, "Runs with an idle stretch in the time range"),

		query.Metric("idleHours", "Idle", query.Hours, 1, "Length of the run's idle stretches in the time range; of runs "+
			"idle now, of the stretch that goes on"),
		query.TextColumn("idleSince", "Idle since", "Beginning of the idle stretch of a run that is idle now"),
	},
}

// hourly is a view of series whose shortest bucket is an hour: reports of usage show no more.
func hourly(v query.View) query.View {
	v.BucketMinutes = 60
	return v
}
