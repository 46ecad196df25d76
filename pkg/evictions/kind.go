package evictions

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
)

var (
	groupings       = append(slices.Clone(seriesGroupings[:len(seriesGroupings)-1]), "evidence", "takenOverBy")
	seriesGroupings = query.By("category", "device", "memory", "ownership", "machineType", "machine", "user",
		"jobProject", "cause", "takenOverBy")
	seriesMetrics = []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "runs", "yielded", "evictedGpuHours",
		"maxEvictionsPerJob"}
	userFilters = append(slices.Clone(query.UserFilters), "jobProjects")
	filters     = append(slices.Clone(userFilters), "takenOverBy")
)

var metrics = aggregate.Metrics[Sums]{
	aggregate.Define("runs", "Runs", query.Count, 0, "Runs of backfill jobs that overlap the time range",
		func(s *Sums) float64 { return float64(s.Runs) }),
	aggregate.Define("evictions", "Evictions", query.Count, 0, "Runs that ended in an eviction", ended(runs.Evicted)),
	aggregate.Define("yielded", "Yielded", query.Count, 0, "Runs whose job saved a checkpoint and left, because its "+
		"slot would not take it back: not an eviction, and nothing is lost", ended(runs.Yielded)),
	aggregate.Define("completed", "Completed", query.Count, 0, "Runs whose job completed", ended(runs.Completed)),
	aggregate.Define("removed", "Removed", query.Count, 0, "Runs whose job was removed", ended(runs.Removed)),
	aggregate.Define("held", "Held", query.Count, 0, "Runs whose job was put on hold", ended(runs.Held)),
	aggregate.Define("running", "Running", query.Count, 0, "Runs still open at the end of the time range",
		ended(runs.Running)),
	aggregate.Define("lost", "Lost", query.Count, 0, "Runs whose end is hidden by a gap or the machine's absence",
		ended(runs.Lost)),
	aggregate.Define("ambiguous", "Ambiguous", query.Count, 0,
		"Runs with no evidence of how they ended; never counted as evictions", ended(runs.Ambiguous)),
	aggregate.Define("unseen", "Unseen", query.Count, 0, "Runs between two snapshots, known from epoch ads only; "+
		"counted in all other figures", func(s *Sums) float64 { return float64(s.Unseen) }),
	aggregate.Define("gpuHours", "GPU hours", query.GPUHours, 1, "GPUs that backfill jobs held, over time",
		func(s *Sums) float64 { return s.GPUHours }),
	aggregate.Define("ratePer100GpuHours", "Evictions per 100 GPU hours", query.Count, 2,
		"100 · evictions / backfill GPU hours", func(s *Sums) float64 { return s.rate(float64(s.Outcomes[runs.Evicted])) }),
	aggregate.Define("rateLow", "Rate, 95% low", query.Count, 2, "Lower bound of the 95% interval (Garwood)",
		func(s *Sums) float64 { low, _ := survival.Garwood(s.Outcomes[runs.Evicted]); return s.rate(low) }),
	aggregate.Define("rateHigh", "Rate, 95% high", query.Count, 2, "Upper bound of the 95% interval (Garwood)",
		func(s *Sums) float64 { _, high := survival.Garwood(s.Outcomes[runs.Evicted]); return s.rate(high) }),
	aggregate.Define("evictedPercent", "Evicted %", query.Percent, 1,
		"100 · evicted / (evicted + yielded + completed + removed + held)", (*Sums).evictedPercent),
	aggregate.Define("medianHoursToEviction", "Median to eviction", query.Hours, 1, "Median length of evicted runs",
		(*Sums).medianHours),
	aggregate.Define("lostGpuHours", "Lost GPU hours", query.GPUHours, 1,
		"GPU hours of evicted runs since their jobs last saved a checkpoint, as far as epoch ads say so",
		func(s *Sums) float64 { return s.Lost }),
	aggregate.Define("lostPercent", "Lost %", query.Percent, 1, "100 · lost GPU hours / backfill GPU hours",
		func(s *Sums) float64 { return aggregate.Percent(s.Lost, s.GPUHours) }),
	aggregate.Define("evictedGpuHours", "Evicted GPU hours", query.GPUHours, 1,
		"GPU hours of evicted runs: the loss if no checkpoint was ever saved", func(s *Sums) float64 { return s.Evicted }),
	aggregate.Define("checkpointedPercent", "Checkpointed %", query.Percent, 1,
		"100 · evicted runs in which the job had saved a checkpoint / evicted runs",
		func(s *Sums) float64 { return aggregate.Percent(float64(s.Saved), float64(s.Outcomes[runs.Evicted])) }),
	aggregate.Define("maxEvictionsPerJob", "Most evictions of a job", query.Count, 0,
		"The most evictions of one job; runs without a GlobalJobId are left out",
		func(s *Sums) float64 { return float64(s.most()) }),
}

// ended is the figure of the runs with an outcome.
func ended(as runs.Outcome) func(*Sums) float64 {
	return func(s *Sums) float64 { return float64(s.Outcomes[as]) }
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "evictions", Label: "Evictions", Description: "Runs of backfill jobs: how they ended and what evictions cost",
	Views: []query.View{
		query.TableView("Runs, evictions, their rate and the hours lost", groupings, metrics.Names(), filters),
		query.SeriesView(seriesGroupings, seriesMetrics, filters),
		query.ListView("events", "Events", "Every single eviction", filters),
		query.ListView("runs", "Runs", "Every run of a backfill job and its outcome", userFilters),
		query.ListView("jobs", "Jobs", "How often each job ran, was evicted and yielded, and what it lost",
			userFilters),
		query.SurvivalView("Share of runs that are not evicted within x hours", groupings[:6], userFilters),
		query.HeatMapView([]string{"ratePer100GpuHours", "evictions"}, filters),
		query.ListView("annotations", "Eviction marks", "Evictions as annotations", filters),
	},
	Columns: append(metrics.Columns(),
		query.Metric("ranHours", "Ran", query.Hours, 1, "Length of the run"),
		query.TextColumn("savedUntil", "Saved until", "When the job last saved a checkpoint in this run; otherwise its "+
			"start"),
	),
}
