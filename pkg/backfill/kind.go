package backfill

import "github.com/chtc/gpureports/pkg/query"

var (
	groupings = []string{"category", "device", "ownership", "machineType", "machine"}
	metrics   = []string{
		"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours", "censored", "unknownStart",
		"kmMedianHours", "restrictedMeanHours", "available", "used", "taken", "usedPercent", "hours90", "hours75", "hours50",
	}
	lengthMetrics = []string{
		"finishPercent", "finishLow", "finishHigh", "gpuHoursPerJob", "bestCheckpointHours", "gpuHoursWithCheckpoints",
		"longestHours90", "longestHours75", "longestHours50",
	}
	seriesMetrics = []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"}
)

// Kind describes the kind.
var Kind = query.Kind{
	Name: "backfillAvailability", Label: "Backfill availability",
	Description: "How long GPUs stay free for backfill, and how they are used",
	Views: []query.View{
		query.TableView("Statistics of the times for which a GPU was free for backfill", groupings, metrics,
			query.GPUFilters),
		query.SeriesView(groupings, seriesMetrics, query.GPUFilters),
		periods(),
		{
			Name: "transitions", Label: "Transitions", Description: "How often GPUs changed from one state to another",
			GroupBy: groupings, Metrics: []string{"count"}, DefaultMetrics: []string{"count"}, Filters: query.GPUFilters,
			Options: []string{"includeOldDevices", "limit"}, Alerting: query.AlertSingleMetric, Frame: query.FrameTable,
			Columns: []query.Column{query.Metric("count", "Changes", query.Count, 0,
				"Changes of state from one snapshot to the next")},
		},
		survivalView(),
		query.HeatMapView([]string{"usedPercent", "available"}, query.GPUFilters),
		jobLength(),
	},
	Columns: []query.Column{
		query.Metric("count", "Periods", query.Count, 0, "Number of complete periods; of transitions, changes of state"),
		query.Metric("meanHours", "Mean", query.Hours, 1, "Mean length of complete periods"),
		query.Metric("medianHours", "Median", query.Hours, 1, "Median length of complete periods"),
		query.Metric("minHours", "Minimum", query.Hours, 1, "Shortest complete period"),
		query.Metric("maxHours", "Maximum", query.Hours, 1, "Longest complete period"),
		query.Metric("sdHours", "Standard deviation", query.Hours, 1, "Sample standard deviation of complete periods"),
		query.Metric("gpuHours", "GPU hours", query.GPUHours, 1, "Hours of all complete periods together"),
		query.Metric("censored", "Censored", query.Count, 0, "Periods whose end was not seen"),
		query.Metric("unknownStart", "Unknown start", query.Count, 0, "Periods whose start was not seen; in no statistics"),
		query.Metric("kmMedianHours", "Kaplan–Meier median", query.Hours, 1,
			"First age at which no more than half the periods go on, unfinished ones counted in; none: not reached"),
		query.Metric("restrictedMeanHours", "Restricted mean", query.Hours, 1,
			"Area under the Kaplan–Meier curve to the longest age"),
		query.Metric("available", "Available (avg.)", query.Count, 1, "Pool GPUs free for backfill, per snapshot"),
		query.Metric("used", "Used (avg.)", query.Count, 1, "Pool GPUs with a backfill job, per snapshot"),
		query.Metric("taken", "Taken (avg.)", query.Count, 1, "Pool GPUs claimed on a primary slot, per snapshot"),
		query.Metric("usedPercent", "Used %", query.Percent, 1, "100 · used / (used + available)"),
		query.Metric("hours90", "90 % keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.90"),
		query.Metric("hours75", "75 % keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.75"),
		query.Metric("hours50", "50 % keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.50"),
		query.Metric("ended", "Ended", query.Count, 0, "Complete periods that ended"),

		query.TextColumn("endReason", "Ended by", ""),
		query.TextColumn("leftTruncated", "Began earlier", "True start more than 7 days before the time range"),
		query.TextColumn("from", "From", ""),
		query.TextColumn("to", "To", ""),
	},
}

func periods() query.View {
	v := query.ListView("periods", "Periods", "Every single time for which a GPU was free for backfill",
		query.GPUFilters).With("duration")
	v.Duration = "vacancy"
	v.Columns = []query.Column{
		query.TextColumn("censored", "Censored", "The end was not seen"),
		query.TextColumn("unknownStart", "Unknown start", "The start was not seen; in no statistics"),
	}
	return v
}

func survivalView() query.View {
	v := query.SurvivalView("Share of GPUs that last longer than x hours", groupings, query.GPUFilters).With("duration")
	v.Duration = "tenure"
	return v
}

func jobLength() query.View {
	return query.View{
		Name: "jobLength", Label: "Job length", Description: "How likely backfill jobs of some hours finish, what they " +
			"cost, and how often they should save",
		GroupBy: groupings, Metrics: lengthMetrics, DefaultMetrics: lengthMetrics, Filters: query.GPUFilters,
		Options:  []string{"includeOldDevices", "jobHours", "overheadMinutes", "limit"},
		JobHours: []float64{1, 2, 4, 6, 8, 12, 24},
		Alerting: query.AlertNone, Frame: query.FrameTable,
		Columns: []query.Column{
			query.Metric("jobHours", "Job length", query.Hours, -1, "Hours that a job computes"),
			query.Metric("finishPercent", "Finishes", query.Percent, 1, "Share of jobs of this length that finish in one run"),
			query.Metric("finishLow", "95 % low", query.Percent, 1, "Lower bound of the 95 % interval"),
			query.Metric("finishHigh", "95 % high", query.Percent, 1, "Upper bound of the 95 % interval"),
			query.Metric("gpuHoursPerJob", "GPU hours a job", query.GPUHours, 2,
				"Expected hours that a GPU is held until the job has finished, if an evicted one begins again"),
			query.Metric("bestCheckpointHours", "Save every", query.Hours, 2, "Interval of checkpoints with the lowest cost"),
			query.Metric("gpuHoursWithCheckpoints", "GPU hours with checkpoints", query.GPUHours, 2,
				"Expected hours that a GPU is held until the job has finished, if it saves that often"),
			query.Metric("longestHours90", "90 % finish up to", query.Hours, 1, "First length that fewer than 90 % finish"),
			query.Metric("longestHours75", "75 % finish up to", query.Hours, 1, "First length that fewer than 75 % finish"),
			query.Metric("longestHours50", "50 % finish up to", query.Hours, 1, "First length that fewer than 50 % finish"),
		},
	}
}
