package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

func supply() Dashboard {
	chosen := choiceOf(backfillVariables)
	usedByDevice := ask("backfillAvailability", "summary").by("device").of("available", "used", "usedPercent").
		where(chosen).withoutTotals()
	return Dashboard{
		UID: "gpureports-backfill", File: "supply", Title: "GPU backfill supply",
		Description: "How many GPUs backfill jobs can get, how long a GPU stays free, and how long a job " +
			"can keep it",
		From:        "now-30d",
		Variables:   append(slices.Clip(backfillVariables), jobLength),
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Backfill supply", Panels: append(supplyFigures(chosen),
				panel("How long can a backfill job be?", 24, 12, "For each model: the longest jobs of which 90% finish in one "+
					"run, and how often jobs of the chosen length should checkpoint to cost the fewest GPU hours, if they are longer "+
					"and each checkpoint takes 5 minutes.",
					ofLength(ask("backfillAvailability", "advice").by("device").where(chosen)),
					table(Override{"device", width(190)},
						Override{"advice", with(atLeast(500), "custom.wrapText", true)}, hidden("jobHours"), hidden("runs"))),
				panel("Backfill pool", 12, 10, "GPUs of the backfill pool, on average: used by backfill jobs, available to them, "+
					"and taken by jobs of their owners.",
					ask("backfillAvailability", "timeseries").by().of("used", "available", "taken").where(chosen),
					areas(backfillPoolColors...)),
				panel("How long a backfill GPU can be kept", 12, 10, "Share of GPUs that their owners have not taken back by an "+
					"age, counted from when the GPU joined the backfill pool, by machine type, over the first 48 hours "+
					"(Kaplan–Meier with 95% intervals).",
					ask("backfillAvailability", "survival").by("machineType").where(chosen),
					curves(curvesOfMachineTypes...)),
				panel("Supply by device", 24, 12, "GPUs of each model that were available to backfill jobs and used by them, on "+
					"average.",
					usedByDevice,
					sortedBy(table(Override{"available", width(110)}, Override{"usedPercent", percentBar}), "Available (avg.)")),
				panel("Used share by hour of the week", 12, 8, "Share of the backfill GPUs in use, by weekday and local hour "+
					"(time zone of the data source).",
					ask("backfillAvailability", "hourOfWeek").of("usedPercent").where(chosen),
					week(backfillColor)),
				panel("Available GPUs by hour of the week", 12, 8, "GPUs that a backfill job could get at once, by weekday and "+
					"local hour.",
					ask("backfillAvailability", "hourOfWeek").of("available").where(chosen),
					week(freeColor)),
			)},
			{Title: "Details: job lengths, free periods and transitions", Collapsed: true, Panels: vacancies(chosen)},
		},
	}
}

// longJobs asks what becomes of jobs that are longer than most GPUs are kept.
func longJobs(chosen query.Filter) Query {
	return ofLength(ask("backfillAvailability", "jobLength").by("device").
		of("longestHours90", "longestHours75", "finishPercent", "gpuHoursPerJob", "bestCheckpointHours",
			"gpuHoursWithCheckpoints", "usedCheckpointHours").
		where(chosen))
}

// jobLengthColumns say what the figures mean for a job.
var jobLengthColumns = []Override{
	hidden("jobHours"),
	{"longestHours90", object{"displayName": "90% finish: jobs up to"}},
	{"longestHours75", object{"displayName": "75% finish: jobs up to"}},
	{"finishPercent", with(percentBar, "displayName", "Jobs of $hours h that finish")},
	{"gpuHoursPerJob", object{"displayName": "GPU hours for $hours h, starting over each time", "unit": "suffix:h",
		"decimals": 1}},
	{"bestCheckpointHours", object{"displayName": "Save every"}},
	{"gpuHoursWithCheckpoints", object{"displayName": "GPU hours for $hours h with checkpoints",
		"unit": "suffix:h", "decimals": 1, "custom.width": 110}},
	{"usedCheckpointHours", object{"displayName": "Evicted jobs saved every"}},
}

// supplyFigures are what a user of backfill asks first.
func supplyFigures(chosen query.Filter) []Panel {
	figure := func(title, description, metric string) Panel {
		return compared(title, description, "backfillAvailability", metric, chosen, nil)
	}
	evicted := func(title, description, metric string, properties object) Panel {
		p := compared(title, description, "evictions", metric, chosen, properties)
		p.View = linked(p.View, []Link{toEvictions})
		return p
	}
	available := panel("Available GPUs now", 8, 3, "GPUs that a backfill job could get in the newest snapshot, "+
		"whatever the time range.",
		ask("backfillAvailability", "timeseries").by().of("available").where(chosen),
		stat("", Override{"available", object{"decimals": 0}})).points(finest).last(lastDays)
	return []Panel{
		available,
		figure("Used (% of supply)", "Share of the GPUs available to backfill jobs over the time range that they used.",
			"usedPercent"),
		figure("Median tenure", "Hours after which the owners have taken back half of the GPUs, counted from when a "+
			"GPU joined the backfill pool. No value: fewer were ever taken back.", "hours50"),
		panel("90% of jobs up to", 8, 3, "The longest backfill jobs of which 90% finish in one run, counted from their "+
			"start.",
			ask("backfillAvailability", "jobLength").by().of("longestHours90").where(chosen),
			stat("/finish/")),
		evicted("Evictions per 100 h", "Evictions of backfill jobs per 100 backfill GPU hours over the time range. "+
			"Without job ads it can be too high or too low.", "ratePer100GpuHours", per100Hours),
		evicted("Lost (% of GPU hours)", "GPU hours of evicted runs since their jobs' last checkpoints, of all "+
			"backfill GPU hours.", "lostPercent", nil),
	}
}

// vacancies are the statistics of free periods.
func vacancies(chosen query.Filter) []Panel {
	curve := ask("backfillAvailability", "survival").by("machineType").where(chosen)
	curve.Duration = "vacancy"
	return []Panel{
		panel("Job lengths and checkpoints", 24, 11, "For each model: the longest job that finishes in one run with a "+
			"probability of 90% and of 75%; the share of jobs of the chosen length that finish in one run; and how often "+
			"longer jobs should checkpoint to cost the fewest GPU hours, if each checkpoint takes 5 minutes. The last column "+
			"shows how often evicted jobs did so.",
			longJobs(chosen),
			table(jobLengthColumns...)),
		panel("Free periods by device", 24, 10, "Periods in which a GPU was free for backfill jobs. The figures from Mean "+
			"to GPU hours are for complete periods that ended in the time range. Censored periods are still going on or were "+
			"cut by a gap; the Kaplan–Meier figures include them.",
			ask("backfillAvailability", "summary").by("device").
				of("count", "meanHours", "medianHours", "maxHours", "sdHours", "gpuHours", "censored", "unknownStart",
					"kmMedianHours", "restrictedMeanHours").
				where(chosen).withoutTotals(),
			sortedBy(table(Override{"count", width(70)}, Override{"meanHours", width(70)},
				Override{"medianHours", width(70)}, Override{"gpuHours", width(75)}, Override{"kmMedianHours", width(110)},
				Override{"restrictedMeanHours", width(95)}), "GPU hours")),
		panel("By machine type", 24, 6, "The same figures for machines of researchers and CHTC (Priority) and for open "+
			"capacity (Shared), with the hours for which 90, 75 and 50% of the GPUs can be kept.",
			ask("backfillAvailability", "summary").by("machineType").
				of("count", "meanHours", "medianHours", "gpuHours", "available", "used", "taken", "usedPercent", "hours90",
					"hours75", "hours50").
				where(chosen),
			metrics()),
		panel("How long a GPU stays free", 12, 9, "Share of the free periods that last longer than an age, by machine type "+
			"(Kaplan–Meier with 95% intervals). A period ends when a job takes the GPU or the slot disappears.",
			curve,
			curves(curvesOfMachineTypes...)),
		panel("Transitions", 12, 9, "How often a GPU changed from the state in the row to the state in the column between "+
			"two consecutive snapshots. From used to used: another job.",
			ask("backfillAvailability", "transitions").by().of("count").where(chosen),
			transitionMatrix(),
			[]Transformation{
				{ID: "groupingToMatrix", Options: object{"columnField": "to", "rowField": "from", "valueField": "count",
					"emptyValue": "null"}},
			}...),
	}
}

// curvesOfMachineTypes colors both machine types with their intervals.
var curvesOfMachineTypes = func() (overrides []Override) {
	for _, o := range []pool.Ownership{pool.ResearcherOwned, pool.OpenCapacity} {
		name := o.MachineType()
		for _, field := range []string{name, name + " · 95% low", name + " · 95% high"} {
			overrides = append(overrides, Override{field, fixed(ownershipHues[o])})
		}
	}
	return overrides
}()

func transitionMatrix() View {
	var names []Override
	for _, state := range []string{"available", "used", "taken", "blocked", "absent"} {
		names = append(names, Override{state, object{"displayName": state}}) // or each would be called as the count
	}
	v := table(names...)
	v.Defaults["custom"].(object)["cellOptions"] = object{"type": "color-background", "mode": "basic"}
	v.Defaults["color"] = object{"mode": "continuous-blues"}
	return v
}
