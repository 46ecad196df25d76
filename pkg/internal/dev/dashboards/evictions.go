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
					Title: "Lost GPU hours by user", Width: 12, Height: 10,
					Description: "Users whose backfill runs were evicted, and the GPU hours lost since their last " +
						"checkpoints; most hours first.",
					Query: ask("evictions", "summary").by("user").
						of("evictions", "lostGpuHours").where(chosen).withoutTotals(),
					View: sortedBy(table(Override{"lostGpuHours", amountBar}), "Lost GPU hours"),
				},
				Panel{
					Title: "Who takes the GPUs over", Width: 12, Height: 10,
					Description: "Users whose jobs on primary slots followed the evicted runs, and the GPU hours that these runs " +
						"lost since their last checkpoints; most hours first.",
					Query: ask("evictions", "summary").by("takenOverBy").of("evictions", "lostGpuHours").where(chosen).
						withoutTotals(),
					View: sortedBy(table(Override{"takenOverBy", takenOver}, Override{"lostGpuHours", amountBar}), "Lost GPU hours"),
				},
				Panel{
					Title: "Eviction rate over time", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "Evictions of backfill jobs per 100 backfill GPU hours, by machine type. Without " +
						"job ads it can be too high or too low.",
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
						"with their 95% interval, the evicted runs with a checkpoint, and the GPU hours lost since " +
						"the last one. Ambiguous ends are never counted as evictions.",
					Query: ask("evictions", "summary").by("device").
						of("runs", "evictions", "ratePer100GpuHours", "rateLow", "rateHigh", "checkpointedPercent",
							"evictedGpuHours", "lostGpuHours", "lostPercent").
						where(chosen).withoutTotals(),
					View: sortedBy(table(Override{"checkpointedPercent", width(110)},
						Override{"rateLow", width(70)}, Override{"rateHigh", width(70)}), "Lost GPU hours"),
				},
				Panel{
					Title: jobsEvicted, Width: 24, Height: 10,
					Description: "Which jobs never get through? Jobs with runs on backfill slots that have not ended, those with " +
						"the most evictions first.",
					Query:           ask("evictions", "jobs").where(chosen).atMost(100),
					View:            list(hidden("yielded"), hidden("start"), hidden("gpuHours")),
					Transformations: []Transformation{including("Outcome", "regex", "^(?!completed|removed)")},
				},
				Panel{
					Title: "Evictions by machine", Width: 12, Height: 10,
					Description: "Evictions of backfill jobs on each machine, their rate per 100 backfill GPU hours, and the " +
						"GPU hours lost since the last checkpoints; most hours first.",
					Query: ask("evictions", "summary").by("machine").of("evictions", "ratePer100GpuHours", "lostGpuHours").
						where(chosen).withoutTotals(),
					View: sortedBy(table(), "Lost GPU hours"),
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
					Description: "Every eviction: when, where, whose job, how long it had run, when it last saved, the " +
						"cause, and the user whose job took over.",
					Query: ask("evictions", "events").where(chosen),
					View: list(hidden("gpus"), hidden("gpuIds"), hidden("category"), hidden("job"), hidden("gpuHours"),
						hidden("evidence")),
				},
			}},
			{Title: "Details: outcomes, evidence and curves", Collapsed: true, Panels: []Panel{
				{
					Title: "Outcomes by device", Width: 24, Height: 10,
					Description: "Outcomes of the runs of backfill jobs that overlap the time range.",
					Query: ask("evictions", "summary").by("device").
						of("runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost", "ambiguous", "gpuHours",
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
					Description:     "GPU hours of evicted runs in the time range, since their jobs' last checkpoints.",
					Query:           ask("evictions", "timeseries").by("device").of("lostGpuHours").where(chosen),
					View:            bars(deviceColors()...),
					Transformations: shortDevices,
				},
			}},
		},
	}
}

// jobsEvicted is the panel that the alert rule leads to.
const jobsEvicted = "Jobs that are evicted again and again"

// evictionFigures sum up the time range.
func evictionFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct {
		title, description, metric string
		properties                 object
	}{
		{"Lost since checkpoint", "GPU hours of evicted runs since their jobs last saved a checkpoint, or since the start " +
			"of the run: an upper bound where no job ad says when they saved.", "lostGpuHours", wholeHours},
		{"Evicted GPU hours", "GPU hours of evicted runs: what would be lost if no job ever saved a checkpoint.",
			"evictedGpuHours", wholeHours},
		{"Checkpointed (%)", "Evicted runs in which the job had saved a checkpoint, of all evicted runs.",
			"checkpointedPercent", nil},
		{"Lost (% of GPU hours)", "GPU hours lost since the last checkpoints, of all backfill GPU hours.", "lostPercent",
			nil},
		{"Evictions per 100 h", "Evictions of backfill jobs per 100 backfill GPU hours. Without job ads it can be too high " +
			"or too low.",
			"ratePer100GpuHours", per100Hours},
	} {
		panels = append(panels, compared(f.title, f.description, "evictions", f.metric, chosen, f.properties))
	}
	return append(panels, Panel{
		Title: "Evictions and yields", Width: 8, Height: 3,
		Description: "Runs of backfill jobs that ended in an eviction, and those whose job saved a checkpoint and left " +
			"because its slot would not take it back: they lose nothing.",
		Query: ask("evictions", "summary").by().of("evictions", "yielded").where(chosen).withoutTotals(),
		View:  stats("/.*/"),
	})
}

// lostTo is what the evictions of users' jobs lost, and to whom.
func lostTo(title, description string, chosen query.Filter, groupings ...string) Panel {
	return Panel{
		Title: title, Width: 24, Height: 10, Description: description,
		Query: ask("evictions", "summary").by(groupings...).
			of("evictions", "lostGpuHours", "evictedGpuHours", "checkpointedPercent").where(chosen).withoutTotals(),
		View: sortedBy(table(Override{"takenOverBy", takenOver}, Override{"lostGpuHours", amountBar}), "Lost GPU hours"),
	}
}

// takenOver says it where no primary job is seen on the GPUs.
var takenOver = object{"custom.width": 0, "custom.minWidth": 130, "mappings": []object{
	{"type": "special", "options": object{"match": "empty", "result": object{"text": "Not seen"}}},
}}
