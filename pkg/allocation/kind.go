package allocation

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/query"
)

var (
	groupings = query.By("category", "slots", "device", "memory", "machine", "ownership", "project",
		"preventReason")
	healthMetrics = []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost", "jobsLagSeconds",
		"linkRate", "clockErrorSeconds"}
	machineFilters = query.FilterBy("devices", "memories", "machines", "ownerships", "projects", "idle")
)

var metrics = aggregate.Metrics[point]{
	aggregate.Define("allocatedPercent", "Allocated %", query.Percent, 1,
		"Allocated share of the GPUs that can be allocated: 100 · Σ claimed / Σ (claimed + unclaimed) over the slices",
		(*point).allocatedPercent),
	aggregate.Define("allocated", "Allocated (avg.)", query.Count, 1,
		"GPUs held by jobs, on average over the slices: Σ claimed / N", average(counts.Claimed)),
	aggregate.Define("available", "Available (avg.)", query.Count, 1,
		"GPUs that can be allocated: Σ (claimed + unclaimed) / N", (*point).available),
	aggregate.Define("free", "Free (avg.)", query.Count, 1, "GPUs without a job on primary and backfill slots that a "+
		"job may start on, / N; each counted once", average(counts.Free)),
	aggregate.Define("unclaimed", "Unclaimed (avg.)", query.Count, 1,
		"GPUs not claimed in their category, including those that a backfill job uses: Σ unclaimed / N",
		average(counts.Unclaimed)),
	aggregate.Define("drained", "Drained (avg.)", query.Count, 1, "GPUs that are draining: Σ drained / N",
		average(counts.Drained)),
	aggregate.Define("prevented", "Prevented (avg.)", query.Count, 1,
		"GPUs without a job on which none may start (PreventJobsReason), / N", average(counts.Prevented)),
}

// needs are the classes that metrics are made from.
var needs = map[string][]counts.Class{
	"allocatedPercent": {counts.Claimed, counts.Unclaimed}, "available": {counts.Claimed, counts.Unclaimed},
	"allocated": {counts.Claimed}, "free": {counts.Free}, "unclaimed": {counts.Unclaimed},
	"drained": {counts.Drained}, "prevented": {counts.Prevented},
}

// ClassesOf are the classes that metrics are made from.
func ClassesOf(metrics []string) (all []counts.Class) {
	for _, m := range metrics {
		all = append(all, needs[m]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// point is a bucket of a group's GPU-slices.
type point struct {
	sums   *counts.Sums
	bucket int
	slices float64 // N
}

func (p *point) of(class counts.Class) float64 { return p.sums[class][p.bucket] }

// allocatedPercent is the allocated share of the GPUs that can be; NaN if there are none.
func (p *point) allocatedPercent() float64 {
	return aggregate.Percent(p.of(counts.Claimed), p.of(counts.Claimed)+p.of(counts.Unclaimed))
}

func (p *point) available() float64 {
	return (p.of(counts.Claimed) + p.of(counts.Unclaimed)) / p.slices
}

// average is the number of GPUs that count as a class, on average over the slices.
func average(class counts.Class) func(*point) float64 {
	return func(p *point) float64 { return p.of(class) / p.slices }
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "allocation", Label: "Allocation", Description: "How many GPUs are allocated, available, free or drained",
	DefaultGroupBy: []string{"category"},
	Views: []query.View{
		sided(query.SeriesView(groupings, metrics.Names(), query.UserFilters)),
		sided(query.TableView("Averages over the time range, with totals", groupings, metrics.Names(), query.UserFilters)),
		query.ListView("current", "Current", "What every GPU is doing at the newest snapshot", query.UserFilters),
		{
			Name: "stateTimeline", Label: "State timeline", Description: "The state of every GPU over time; with more than " +
				"500 GPUs, of each device on each machine",
			Filters: query.GPUFilters, Options: []string{"includeOldDevices", "legend", "limit"},
			Alerting: query.AlertNone,
			Frame:    query.FrameStateTimeline,
		},
		changesView(),
		query.ListView("machines", "Machines", "Every machine with its GPUs and what was allocated", machineFilters),
		{
			Name: "health", Label: "Health", Description: "How fresh and how complete the data are",
			Metrics: healthMetrics, DefaultMetrics: healthMetrics, Options: []string{"last"}, Alerting: query.AlertSingleMetric,
			Frame: query.FrameTable,
		},
		{
			Name: "annotations", Label: "Collector gaps", Description: "Times without snapshots, as annotations",
			Options: []string{"limit"}, Alerting: query.AlertNone, Frame: query.FrameTable,
		},
	},
	Columns: append(metrics.Columns(),
		query.Metric("snapshotAgeSeconds", "Age of the newest snapshot", query.Seconds, 0,
			"Now − newest snapshot in any file"),
		query.Metric("coveragePercent", "Coverage", query.Percent, 1,
			"Share of the time range that snapshots cover: 100 · D / time range"),
		query.Metric("gpusSeen", "GPUs seen", query.Count, 0, "GPUs in the newest snapshot of the time range"),
		query.Metric("gpusLost", "GPUs lost", query.Count, 0, "GPUs seen in the 24 h before the newest snapshot and not "+
			"in it"),
		query.Metric("jobsLagSeconds", "Lag of job ads", query.Seconds, 0, "Now − newest job ad"),
		query.Metric("linkRate", "Link rate", query.Percent, 1, "Share of ended backfill runs that a job ad explains"),
		query.Metric("clockErrorSeconds", "Clock error", query.Seconds, 0,
			"Largest error of an access point's clock, according to job ads and snapshots; dates are corrected"),
		query.TextColumn("state", "State", ""),
		query.TextColumn("since", "Since", "Beginning of the unbroken sequence with the same state, user and job, at most "+
			"7 days back"),
		query.TextColumn("projects", "Projects", ""),
		query.TextColumn("devices", "Devices", ""),
		query.TextColumn("lastSeen", "Last seen", ""),
		query.TextColumn("excludedReason", "Excluded", "Why the machine is left out of all figures"),
		query.Metric("drainedGpuHours", "Drained GPU hours", query.GPUHours, 1,
			"GPU hours in which the machine's GPUs were drained on primary slots: Σ drained / N · D"),
		query.Metric("wholeGpus", "Whole GPUs", query.Count, 0, "GPUs that are not divided"),
		query.TextColumn("migParts", "MIG parts", "Parts of GPUs (Multi-Instance GPU), by profile"),
		query.TextColumn("preventReasons", "Prevented by", "PreventJobsReason of the machine's slots, most recent first"),
		query.TextColumn("preventState", "Prevented", "active: set in the machine's last snapshot; lifted: set earlier"),
		query.TextColumn("preventLastSeen", "Last prevented", "The last snapshot with a reason"),
		query.Metric("backfillAllocated", "Backfill allocated (avg.)", query.Count, 1,
			"GPUs claimed on backfill slots: Σ claimed / N"),
	),
}

// sided is a view that never adds real and backfill slots, and that knows users of claimed GPUs only.
func sided(v query.View) query.View {
	v.Sides, v.UserMetrics = true, []string{"allocated"}
	return v
}

func changesView() query.View {
	v := query.ListView("changes", "Changes",
		"GPUs and machines that came or went, drains and new users in the time range",
		query.FilterBy("devices", "memories", "machines", "ownerships"))
	v.Columns = []query.Column{
		query.TextColumn("change", "Change", "A machine is new or gone if it is with all of its GPUs"),
		query.TextColumn("since", "Since", "First row of new GPUs, last row of those that are gone, begin or end of a "+
			"drain, first GPU of a new user"),
	}
	return v
}
