package backfill

import (
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
)

var (
	groupings     = query.By("category", "device", "ownership", "machineType", "machine")
	tableMetrics  = metrics.Names()[:len(metrics)-1] // the last one is of series only
	seriesMetrics = []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"}
)

var metrics = aggregate.Metrics[Sums]{
	aggregate.Define("count", "Periods", query.Count, 0, "Number of complete periods; for transitions, of changes of "+
		"state", func(s *Sums) float64 { return float64(len(s.periods[vacancy].hours)) }),
	aggregate.Define("meanHours", "Mean", query.Hours, 1, "Mean length of complete periods", (*Sums).meanHours),
	aggregate.Define("medianHours", "Median", query.Hours, 1, "Median length of complete periods",
		vacancies(1, pool.Median)),
	aggregate.Define("minHours", "Minimum", query.Hours, 1, "Shortest complete period",
		vacancies(1, slices.Min[[]float64])),
	aggregate.Define("maxHours", "Maximum", query.Hours, 1, "Longest complete period",
		vacancies(1, slices.Max[[]float64])),
	aggregate.Define("sdHours", "Standard deviation", query.Hours, 1, "Sample standard deviation of complete periods",
		vacancies(2, func(hours []float64) float64 { return stat.StdDev(hours, nil) })),
	aggregate.Define("gpuHours", "GPU hours", query.GPUHours, 1, "Hours of all complete periods together",
		vacancies(0, floats.Sum)),
	aggregate.Define("censored", "Censored", query.Count, 0, "Periods whose end was not seen", number(censored)),
	aggregate.Define("unknownStart", "Unknown start", query.Count, 0,
		"Periods whose start was not seen; not in any statistics", number(unknownStart)),
	aggregate.Define("kmMedianHours", "Kaplan–Meier median", query.Hours, 1,
		"Age by which half the periods have ended, counting unfinished ones; empty if not reached",
		func(s *Sums) float64 { return s.periods[vacancy].curve.HoursTo(0.5) }),
	aggregate.Define("restrictedMeanHours", "Restricted mean", query.Hours, 1,
		"Area under the Kaplan–Meier curve to the longest age",
		func(s *Sums) float64 { return s.periods[vacancy].restrictedMean() }),
	aggregate.Define("available", "Available (avg.)", query.Count, 1, "Pool GPUs free for backfill, per snapshot",
		func(s *Sums) float64 { return s.average(s.Available) }),
	aggregate.Define("used", "Used (avg.)", query.Count, 1, "Pool GPUs with a backfill job, per snapshot",
		func(s *Sums) float64 { return s.average(s.Used) }),
	aggregate.Define("taken", "Taken (avg.)", query.Count, 1, "Pool GPUs claimed on a primary slot, per snapshot",
		func(s *Sums) float64 { return s.average(s.Taken) }),
	aggregate.Define("usedPercent", "Used %", query.Percent, 1, "100 · used / (used + available)",
		func(s *Sums) float64 { return s.usedPercent() }),
	aggregate.Define("hours90", "90% keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.90",
		tenureBelow(0.9)),
	aggregate.Define("hours75", "75% keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.75",
		tenureBelow(0.75)),
	aggregate.Define("hours50", "50% keep it for", query.Hours, 1, "First hour at which the tenure curve is below 0.50",
		tenureBelow(0.5)),
	aggregate.Define("ended", "Ended", query.Count, 0, "Complete periods that ended",
		func(s *Sums) float64 { return float64(s.ended) }),
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "backfillAvailability", Label: "Backfill availability",
	Description: "How long GPUs stay free for backfill, and how they are used",
	Views: []query.View{
		query.TableView("Statistics on the periods in which a GPU was free for backfill", groupings, tableMetrics,
			query.GPUFilters),
		query.SeriesView(groupings, seriesMetrics, query.GPUFilters),
		ofDuration("vacancy", query.ListView("periods", "Periods", "Every single period in which a GPU was free for "+
			"backfill", query.GPUFilters), query.TextColumn("censored", "Censored", "The end was not seen"),
			query.TextColumn("unknownStart", "Unknown start", "The start was not seen; not in any statistics")),
		{
			Name: "transitions", Label: "Transitions", Description: "How often GPUs changed from one state to another",
			GroupBy: groupings, Metrics: []string{"count"}, DefaultMetrics: []string{"count"}, Filters: query.GPUFilters,
			Options: []string{"includeOldDevices", "limit"}, Alerting: query.AlertSingleMetric, Frame: query.FrameTable,
			Columns: []query.Column{query.Metric("count", "Changes", query.Count, 0,
				"Changes of state from one snapshot to the next")},
		},
		ofDuration("tenure", query.SurvivalView("Share of GPUs that last longer than x hours", groupings, query.GPUFilters)),
		query.HeatMapView([]string{"usedPercent", "available"}, query.GPUFilters),
		{
			Name: "jobLength", Label: "Job length", Description: "How likely backfill jobs of given lengths are to finish, " +
				"their cost, and how often to checkpoint",
			GroupBy: groupings, Metrics: lengthMetrics.Names(), DefaultMetrics: lengthMetrics.Names(),
			Filters:  query.GPUFilters,
			Options:  []string{"includeOldDevices", "jobHours", "overheadMinutes", "limit"},
			JobHours: []float64{1, 2, 4, 6, 8, 12, 24},
			Alerting: query.AlertNone, Frame: query.FrameTable,
			Columns: append(lengthMetrics.Columns(), jobHoursColumn),
		},
		{
			Name: "advice", Label: "Advice", Description: "How long a backfill job can be and how often to checkpoint, in " +
				"a sentence",
			GroupBy: groupings, Filters: query.GPUFilters,
			Options:  []string{"includeOldDevices", "jobHours", "overheadMinutes", "limit"},
			JobHours: []float64{12},
			Alerting: query.AlertNone, Frame: query.FrameTable,
			Columns: []query.Column{
				query.TextColumn("advice", "Advice", "The longest jobs of which 90% finish in one run, and the interval of "+
					"checkpoints with the lowest cost for jobs of this length"),
				jobHoursColumn,
				query.Metric("runs", "Runs", query.Count, 0, "Backfill runs whose start is known"),
			},
		},
	},
	Columns: append(metrics.Columns(),
		query.TextColumn("endReason", "Ended by", ""),
		query.TextColumn("leftTruncated", "Began earlier", "True start more than 7 days before the time range"),
		query.TextColumn("from", "From", ""),
		query.TextColumn("to", "To", ""),
	),
}

// ofDuration is a view of periods by a measure, which is vacancies or tenures by default, with columns about them.
func ofDuration(byDefault string, v query.View, columns ...query.Column) query.View {
	v = v.With("duration")
	v.Duration, v.Columns = byDefault, columns
	return v
}

// lengthMetrics are the metrics of the view jobLength.
var lengthMetrics = aggregate.Metrics[job]{
	aggregate.Define("finishPercent", "Finishes", query.Percent, 1, "Share of jobs of this length that finish in one run",
		finishes(func(at survival.Point) float64 { return at.Survival })),
	aggregate.Define("finishLow", "95% low", query.Percent, 1, "Lower bound of the 95% interval",
		finishes(func(at survival.Point) float64 { low, _ := at.Interval(); return low })),
	aggregate.Define("finishHigh", "95% high", query.Percent, 1, "Upper bound of the 95% interval",
		finishes(func(at survival.Point) float64 { _, high := at.Interval(); return high })),
	aggregate.Define("gpuHoursPerJob", "GPU hours per job", query.GPUHours, 2,
		"Expected hours that a GPU is held until the job has finished, if an evicted job starts over", (*job).gpuHours),
	aggregate.Define("bestCheckpointHours", "Checkpoint every", query.Hours, 2,
		"Interval of checkpoints with the lowest cost",
		func(j *job) float64 { interval, _ := j.checkpoints(); return interval }),
	aggregate.Define("gpuHoursWithCheckpoints", "GPU hours with checkpoints", query.GPUHours, 2,
		"Expected hours that a GPU is held until the job has finished, if it checkpoints that often",
		func(j *job) float64 { _, cost := j.checkpoints(); return cost }),
	aggregate.Define("usedCheckpointHours", "Jobs checkpoint every", query.Hours, 2,
		"Interval of checkpoints that evicted jobs used: twice the mean time since the last one", (*job).usedInterval),
	aggregate.Define("longestHours90", "90% finish up to", query.Hours, 1, "First length that fewer than 90% finish",
		func(j *job) float64 { return j.curve.HoursBelow(0.9) }),
	aggregate.Define("longestHours75", "75% finish up to", query.Hours, 1, "First length that fewer than 75% finish",
		func(j *job) float64 { return j.curve.HoursBelow(0.75) }),
	aggregate.Define("longestHours50", "50% finish up to", query.Hours, 1, "First length that fewer than 50% finish",
		func(j *job) float64 { return j.curve.HoursBelow(0.5) }),
}

// jobHoursColumn is the length of the jobs that a row is about.
var jobHoursColumn = query.Metric("jobHours", "Job length", query.Hours, -1, "Hours that a job computes")
