package backfill

import "github.com/chtc/gpureports/pkg/query"

var (
	groupings = []string{"category", "device", "ownership", "machineType", "machine"}
	metrics   = []string{
		"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours", "censored", "unknownStart",
		"kmMedianHours", "restrictedMeanHours", "available", "used", "taken", "usedPercent", "hours90", "hours75", "hours50",
	}
	seriesMetrics = []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"}
)

// Kind describes the kind.
var Kind = query.Kind{
	Name: "backfillAvailability", Label: "Backfill availability", Description: "How long GPUs stay free for backfill, and how they are used",
	Views: []query.View{
		query.TableView("Statistics of the times for which a GPU was free for backfill", groupings, metrics, query.GPUFilters),
		query.SeriesView(groupings, seriesMetrics, query.GPUFilters),
		periods(),
		{
			Name: "transitions", Label: "Transitions", Description: "How often GPUs changed from one state to another",
			GroupBy: groupings, Metrics: []string{"count"}, DefaultMetrics: []string{"count"}, Filters: query.GPUFilters,
			Options: []string{"includeOldDevices", "limit"}, Alerting: query.AlertSingleMetric, Frame: query.FrameTable,
			Columns: []query.Column{query.Metric("count", "Changes", query.Count, 0, "Changes of state from one snapshot to the next")},
		},
		survivalView(),
		query.HeatMapView([]string{"usedPercent", "available"}, query.GPUFilters),
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
		query.Metric("kmMedianHours", "Kaplan–Meier median", query.Hours, 1, "First age at which no more than half the periods go on, unfinished ones counted in; none: not reached"),
		query.Metric("restrictedMeanHours", "Restricted mean", query.Hours, 1, "Area under the Kaplan–Meier curve to the longest age"),
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
	v := query.ListView("periods", "Periods", "Every single time for which a GPU was free for backfill", query.GPUFilters).With("duration")
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
