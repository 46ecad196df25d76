package dashboards

import "github.com/chtc/gpureports/pkg/query"

func evictions() Dashboard {
	variables := narrowing(ownershipVariable, deviceVariable, machineVariable, userVariable)
	chosen := choiceOf(variables)
	return Dashboard{
		UID: "gpureports-backfill-evictions", File: "evictions", Title: "GPU evictions",
		Description: "How often backfill jobs are evicted, why, whose jobs, and what evictions cost",
		From:        "now-30d",
		Variables:   variables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Evictions of backfill jobs", Panels: append(evictionFigures(chosen),
				panel("Lost GPU hours by user", 12, 10, "Users whose backfill runs were evicted, and the GPU hours lost since "+
					"their last checkpoints; most hours first.",
					ask("evictions", "summary").by("user").of("evictions", "lostGpuHours").where(chosen).withoutTotals(),
					sortedBy(table(Override{"lostGpuHours", amountBar}), "Lost GPU hours")),
				panel("Who takes the GPUs over", 12, 10, "Users whose jobs on primary slots followed the evicted runs, and the "+
					"GPU hours that these runs lost since their last checkpoints; most hours first.",
					ask("evictions", "summary").by("takenOverBy").of("evictions", "lostGpuHours").where(chosen).withoutTotals(),
					sortedBy(table(Override{"takenOverBy", takenOver}, Override{"lostGpuHours", amountBar}), "Lost GPU hours")),
				panel("Eviction rate over time", 12, 9, "Evictions of backfill jobs per 100 backfill GPU hours, by machine type. "+
					"Without job ads it can be too high or too low.",
					ask("evictions", "timeseries").by("machineType").of("ratePer100GpuHours").where(chosen),
					ratios(machineTypeColors...)).points(60),
				panel("Evictions by cause", 12, 9, "Evictions of backfill jobs, by cause as far as it is known.",
					ask("evictions", "timeseries").by("cause").of("evictions").where(chosen),
					bars(causeColors...)).points(60),
				panel("Evictions by device", 24, 11, "Runs of backfill jobs that overlap the time range, evictions per 100 GPU "+
					"hours with their 95% interval, the evicted runs with a checkpoint, and the GPU hours lost since the last one. "+
					"Ambiguous ends are never counted as evictions.",
					ask("evictions", "summary").by("device").
						of("lostGpuHours", "lostPercent", "evictions", "ratePer100GpuHours", "rateLow", "rateHigh",
							"checkpointedPercent", "evictedGpuHours", "runs").
						where(chosen).withoutTotals(),
					sortedBy(table(Override{"rateLow", width(70)}, Override{"rateHigh", width(70)}), "Lost GPU hours")),
				panel(jobsEvicted, 24, 10, "Which jobs never get through? Jobs with runs on backfill slots that have not ended, "+
					"those with the most evictions first.",
					ask("evictions", "jobs").where(chosen).atMost(100),
					list(hidden("yielded"), hidden("start"), hidden("gpuHours")),
					only("Outcome", "regex", "^(?!completed|removed)")...),
				panel("Evictions by machine", 12, 10, "Evictions of backfill jobs on each machine, their rate per 100 backfill "+
					"GPU hours, and the GPU hours lost since the last checkpoints; most hours first. Machines on which jobs fail are "+
					"on the dashboard [GPU utilization](/d/gpureports-utilization).",
					ask("evictions", "summary").by("machine").of("evictions", "ratePer100GpuHours", "lostGpuHours").
						where(chosen).withoutTotals(),
					sortedBy(table(), "Lost GPU hours")),
				panel("Eviction rate by hour of the week", 12, 10, "Evictions per 100 backfill GPU hours, by weekday and local "+
					"hour.",
					ask("evictions", "hourOfWeek").of("ratePer100GpuHours").where(chosen),
					week(vermilion)),
			)},
			{Title: "Every eviction", Collapsed: true, Panels: []Panel{
				panel("Eviction events", 24, 14, "Every eviction: when, where, whose job, how long it had run, its lost hours, "+
					"the cause, and the user whose job took over.",
					ask("evictions", "events").where(chosen),
					list(hidden("gpus"), hidden("gpuIds"), hidden("category"), hidden("job"), hidden("gpuHours"), hidden("evidence"),
						hidden("savedUntil"), Override{"cause", width(130)}, Override{"ranHours", width(65)},
						Override{"lostGpuHours", width(75)})),
			}},
			{Title: "Details: outcomes, evidence and curves", Collapsed: true, Panels: []Panel{
				panel("Outcomes by device", 24, 10, "Outcomes of the runs of backfill jobs that overlap the time range.",
					ask("evictions", "summary").by("device").
						of("runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost", "ambiguous", "gpuHours",
							"medianHoursToEviction").
						where(chosen).withoutTotals(),
					table(Override{"runs", width(65)}, Override{"yielded", width(70)}, Override{"held", width(60)},
						Override{"lost", width(60)})),
				panel("Evictions by evidence and cause", 12, 10, "Evidence for each eviction: a job ad, a takeover by a job of "+
					"the owner seen in the snapshots, or the same job running again.",
					ask("evictions", "summary").by("evidence", "cause").
						of("evictions", "medianHoursToEviction", "lostGpuHours").where(chosen),
					metrics()),
				panel("How long backfill jobs run before eviction", 12, 10, "Share of the runs that have not been evicted by an "+
					"age, by device, over the first 48 hours. A run that completes can no longer be evicted (Aalen–Johansen).",
					ask("evictions", "survival").by("device").of("survival").where(chosen),
					curves(deviceColors()...), shortDevices...),
				panel("Lost GPU hours by device", 24, 8, "GPU hours of evicted runs in the time range, since their jobs' last "+
					"checkpoints.",
					ask("evictions", "timeseries").by("device").of("lostGpuHours").where(chosen),
					bars(deviceColors()...), shortDevices...).points(60),
			}},
		},
	}
}

// jobsEvicted is the panel that the alert rule leads to.
const jobsEvicted = "Jobs that are evicted again and again"

// evictionFigures sum up the time range.
func evictionFigures(chosen query.Filter) []Panel {
	figure := func(title, description, metric string, properties object) Panel {
		return compared(title, description, "evictions", metric, chosen, properties)
	}
	return []Panel{
		figure("Lost since checkpoint", "GPU hours of evicted runs since their jobs last saved a checkpoint, or since the "+
			"start of the run: an upper bound where no job ad says when they saved.", "lostGpuHours", wholeHours),
		figure("Evicted GPU hours", "GPU hours of evicted runs: what would be lost if no job ever saved a checkpoint.",
			"evictedGpuHours", wholeHours),
		figure("Checkpointed (%)", "Evicted runs in which the job had saved a checkpoint, of all evicted runs.",
			"checkpointedPercent", nil),
		figure("Lost (% of GPU hours)", "GPU hours lost since the last checkpoints, of all backfill GPU hours.",
			"lostPercent", nil),
		figure("Evictions per 100 h", "Evictions of backfill jobs per 100 backfill GPU hours. Without job ads it can be "+
			"too high or too low.", "ratePer100GpuHours", per100Hours),
		panel("Evictions and yields", 8, 3, "Runs of backfill jobs that ended in an eviction, and those whose job saved a "+
			"checkpoint and left because its slot would not take it back: they lose nothing.",
			ask("evictions", "summary").by().of("evictions", "yielded").where(chosen).withoutTotals(),
			stats("/.*/")),
	}
}

// lostTo is what the evictions of users' jobs lost, and to whom.
func lostTo(title, description string, wide int, chosen query.Filter, groupings ...string) Panel {
	return panel(title, wide, 10, description,
		ask("evictions", "summary").by(groupings...).
			of("evictions", "lostGpuHours", "evictedGpuHours", "checkpointedPercent").where(chosen).withoutTotals(),
		sortedBy(table(Override{"takenOverBy", takenOver}, Override{"lostGpuHours", amountBar}), "Lost GPU hours"))
}

// takenOver says it where no primary job is seen on the GPUs.
var takenOver = with(linkedTo(toUser, 130), "mappings", []object{
	{"type": "special", "options": object{"match": "empty", "result": object{"text": "Not seen"}}},
})
