package dashboards

import "github.com/chtc/gpureports/pkg/query"

func evictions() Dashboard {
	chosen := chosenOfBackfill
	return Dashboard{
		UID: "gpureports-backfill-evictions", Title: "GPU evictions",
		Description: "How often backfill jobs are evicted, why, whose jobs, and what evictions cost",
		From:        "now-30d",
		Variables:   []Variable{ownershipVariable, deviceVariable, machineVariable},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Evictions of backfill jobs", Panels: append(evictionFigures(chosen),
				Panel{
					Title: "Eviction rate over time", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "Evictions of backfill jobs per 100 backfill GPU hours, by machine type. Without " +
						"a job source it is a lower bound.",
					Query: ask("evictions", "timeseries").by("machineType").of("ratePer100GpuHours").
						where(chosen),
					View: ratios(machineTypeColors...),
				},
				Panel{
					Title: "Evictions by cause", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "Evictions of backfill jobs, by cause as far as it is known.",
					Query:       ask("evictions", "timeseries").by("cause").of("evictions").where(chosen),
					View:        bars(causeColors...),
				},
				Panel{
					Title: "Evictions by device", Width: 24, Height: 11,
					Description: "Runs of backfill jobs that overlap the time range, evictions per 100 GPU hours " +
						"with their 95 % interval, and the GPU hours of evicted runs (an upper bound of the loss " +
						"where jobs checkpoint). Ambiguous ends are never counted as evictions.",
					Query: ask("evictions", "summary").by("device").
						of("runs", "evictions", "ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "lostGpuHours",
							"lostPercent").
						where(chosen).withoutTotals(),
					View: table(),
				},
				Panel{
					Title: "Lost GPU hours by user", Width: 12, Height: 10,
					Description: "Users whose backfill runs were evicted, and the most GPU hours that these evictions " +
						"can have cost; most hours first.",
					Query: ask("evictions", "summary").by("user").
						of("evictions", "lostGpuHours", "lostPercent").where(chosen).withoutTotals(),
					View: sortedBy(table(Override{"evictions", width(90)}, Override{"lostGpuHours", amountBar},
						Override{"lostPercent", width(80)}), "Lost GPU hours"),
				},
				Panel{
					Title: "Eviction rate by hour of the week", Width: 12, Height: 10,
					Description: "Evictions per 100 backfill GPU hours, by weekday and local hour.",
					Query:       ask("evictions", "hourOfWeek").of("ratePer100GpuHours").where(chosen),
					View:        week(vermilion),
				},
			)},
			{Title: "Every eviction", Collapsed: true, Panels: []Panel{
				{
					Title: "Eviction events", Width: 24, Height: 14,
					Description: "Every eviction: when, where, whose job, how long it had run, the cause, and the user" +
						" whose job took over.",
					Query: ask("evictions", "events").where(chosen),
					View: list(hidden("gpus"), hidden("gpuIds"), hidden("category"), hidden("job"), hidden("gpuHours"),
						hidden("evidence")),
				},
			}},
			{Title: "For specialists: outcomes, evidence and curves", Collapsed: true, Panels: []Panel{
				{
					Title: "Outcomes by device", Width: 24, Height: 10,
					Description: "Outcomes of the runs of backfill jobs that overlap the time range.",
					Query: ask("evictions", "summary").by("device").
						of("runs", "evictions", "completed", "removed", "held", "running", "lost", "ambiguous", "gpuHours",
							"medianHoursToEviction").
						where(chosen).withoutTotals(),
					View: table(),
				},
				{
					Title: "Evictions by evidence and cause", Width: 12, Height: 10,
					Description: "Evidence for each eviction: a job ad, a takeover by a job of the owner seen in the " +
						"snapshots, or the same job running again.",
					Query: ask("evictions", "summary").by("evidence", "cause").
						of("evictions", "medianHoursToEviction", "lostGpuHours").where(chosen),
					View: metrics(),
				},
				{
					Title: "How long backfill jobs run before eviction", Width: 12, Height: 10,
					Description: "Share of the runs that have not been evicted by an age, by device, over the first 48" +
						" hours. A run that completes can no longer be evicted (Aalen–Johansen).",
					Query:           ask("evictions", "survival").by("device").of("survival").where(chosen),
					View:            curves(deviceColors()...),
					Transformations: shortDevices,
				},
				{
					Title: "Lost GPU hours by device", Width: 24, Height: 8, MaxDataPoints: 60,
					Description:     "GPU hours of evicted runs in the time range: an upper bound if jobs checkpoint.",
					Query:           ask("evictions", "timeseries").by("device").of("lostGpuHours").where(chosen),
					View:            bars(deviceColors()...),
					Transformations: shortDevices,
				},
			}},
		},
	}
}

// evictionFigures sum up the time range.
func evictionFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct{ title, description, metric string }{
		{"Rate", "Evictions of backfill jobs per 100 backfill GPU hours. Without a job source it is a lower bound.",
			"ratePer100GpuHours"},
		{"Lost", "GPU hours of evicted runs, of all backfill GPU hours: an upper bound where jobs checkpoint.",
			"lostPercent"},
		{"Lost hours", "GPU hours of evicted runs: an upper bound where jobs checkpoint.", "lostGpuHours"},
		{"Evictions", "Runs of backfill jobs that ended in an eviction.", "evictions"},
		{"Evicted", "Evicted runs, of those that were evicted, completed, removed or put on hold.", "evictedPercent"},
		{"Median run", "Median length of the evicted runs.", "medianHoursToEviction"},
	} {
		panels = append(panels, Panel{
			Title: f.title, Description: f.description, Width: 4, Height: 4,
			Query: ask("evictions", "summary").by().of(f.metric).where(chosen),
			View:  stat("/.*/", Override{"lostGpuHours", wholeHours}, Override{"ratePer100GpuHours", per100Hours}),
		})
	}
	return panels
}
