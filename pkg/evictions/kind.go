package evictions

import "github.com/chtc/gpureports/pkg/query"

var (
	groupings = []string{"category", "device", "ownership", "machineType", "machine", "user", "cause", "evidence"}
	metrics   = []string{
		"runs", "evictions", "completed", "removed", "held", "running", "lost", "ambiguous", "unseen", "gpuHours",
		"ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostGpuHours", "lostPercent",
	}
	seriesMetrics = []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "runs"}
)

// Kind describes the kind.
var Kind = query.Kind{
	Name: "evictions", Label: "Evictions", Description: "Runs of backfill jobs: how they ended and what evictions cost",
	Views: []query.View{
		query.TableView("Runs, evictions, their rate and the hours lost", groupings, metrics, query.UserFilters),
		query.SeriesView(groupings[:7], seriesMetrics, query.UserFilters),
		query.ListView("events", "Events", "Every single eviction", query.UserFilters),
		query.ListView("runs", "Runs", "Every run of a backfill job and its outcome", query.UserFilters),
		query.SurvivalView("Share of runs that are not evicted within x hours", groupings[:4], query.UserFilters),
		query.HeatMapView([]string{"ratePer100GpuHours", "evictions"}, query.UserFilters),
		query.ListView("annotations", "Eviction marks", "Evictions as annotations", query.UserFilters),
	},
	Columns: []query.Column{
		query.Metric("runs", "Runs", query.Count, 0, "Runs of backfill jobs that overlap the time range"),
		query.Metric("evictions", "Evictions", query.Count, 0, "Runs that ended in an eviction"),
		query.Metric("completed", "Completed", query.Count, 0, "Runs whose job completed"),
		query.Metric("removed", "Removed", query.Count, 0, "Runs whose job was removed"),
		query.Metric("held", "Held", query.Count, 0, "Runs whose job was put on hold"),
		query.Metric("running", "Running", query.Count, 0, "Runs that go on at the end of the time range"),
		query.Metric("lost", "Lost", query.Count, 0, "Runs that a gap or the machine's absence hides the end of"),
		query.Metric("ambiguous", "Ambiguous", query.Count, 0, "Runs that ended without evidence how; never counted as "+
			"evictions"),
		query.Metric("unseen", "Unseen", query.Count, 0, "Runs between two snapshots, known from epoch ads only; counted "+
			"in all other figures"),
		query.Metric("gpuHours", "GPU hours", query.GPUHours, 1, "GPUs that backfill jobs held, over time"),
		query.Metric("ratePer100GpuHours", "Evictions per 100 GPU hours", query.Count, 2,
			"100 · evictions / backfill GPU hours"),
		query.Metric("rateLow", "Rate, 95 % low", query.Count, 2, "Lower bound of the 95 % interval (Garwood)"),
		query.Metric("rateHigh", "Rate, 95 % high", query.Count, 2, "Upper bound of the 95 % interval (Garwood)"),
		query.Metric("evictedPercent", "Evicted %", query.Percent, 1,
			"100 · evicted / (evicted + completed + removed + held)"),
		query.Metric("medianHoursToEviction", "Median to eviction", query.Hours, 1, "Median length of evicted runs"),
		query.Metric("lostGpuHours", "Lost GPU hours", query.GPUHours, 1,
			"GPU hours of evicted runs: an upper bound where jobs checkpoint"),
		query.Metric("lostPercent", "Lost %", query.Percent, 1, "100 · lost GPU hours / backfill GPU hours"),

		query.Metric("ranHours", "Ran", query.Hours, 1, "Length of the run"),
		query.NameColumn(query.Users, "takenOverBy", "Taken over by", "RemoteOwner of the primary claim"),
	},
}
