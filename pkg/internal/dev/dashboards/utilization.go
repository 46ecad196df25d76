package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

// Panels of GPU utilization that alert rules lead to.
const (
	idleNow      = "Held idle now"
	usedOverTime = "Utilization over time"
)

func utilization() Dashboard {
	chosen := choiceOf(userVariables)
	return Dashboard{
		UID: "gpureports-utilization", File: "utilization", Title: "GPU utilization",
		Description: "Which held GPUs compute, which sit idle, who holds them, and what idle GPUs cost",
		From:        "now-7d",
		Variables:   userVariables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Do held GPUs compute?", Panels: append(append([]Panel{callList(chosen)}, utilizationFigures(chosen)...),
				panel("Held GPUs", 12, 9, "GPUs held by jobs that computed and that sat idle for half an hour or more, on "+
					"average, as HTCondor reports it, in complete buckets. The rest of the held GPUs computed now and then, or has "+
					"no report.",
					ask("utilization", "timeseries").by().of("busy", "idle").where(chosen).complete(),
					saying("No complete hour in the time range", areas(state("busy", "Busy", busyColor),
						state("idle", "Idle", idleColor)))),
				panel(usedOverTime, 12, 9, "Share of the held GPUs that computed: a row for each device, a cell for each part of "+
					"the time range. An alert rule watches H200.",
					ask("utilization", "timeseries").by("device").of("utilizationPercent").where(chosen),
					hourMap(), shortDevices...).points(30),
				panel(idleNow, 24, 10, "Jobs whose GPUs have not computed for two hours or more now, whatever the time range, "+
					"longest first.",
					ask("utilization", "idle").where(chosen),
					list(slices.Concat(runColumns, []Override{hidden("end"), hidden("start"), hidden("hours"),
						hidden("idleSince"), hidden("utilizationPercent")})...)).last(lastWeek),
				panel("Utilization by user", 12, 12, "GPU hours held by each user, the share of them in which the GPUs computed, "+
					"and the hours in which they did not; most idle hours first.",
					utilizationBy("user").where(chosen).withoutTotals(),
					sortedBy(table(utilizationColumns...), "Idle GPU hours")),
				panel("Utilization by device", 12, 12, "The same figures for each GPU model.",
					utilizationBy("device").where(chosen).withoutTotals(),
					sortedBy(table(utilizationColumns...), "Idle GPU hours")),
			)},
			{Title: "Failing machines and unused memory", Collapsed: true, Panels: []Panel{
				panel("Machines on which jobs fail", 24, 10, "Runs that failed within 10 minutes on each machine, compared with "+
					"what the same users' runs do elsewhere: the most suspect first. Job ads tell failures; an alert rule watches "+
					"suspects.",
					ask("utilization", failures).by("machine").where(startsOf(chosen)),
					list(append(slices.Clip(failureColumns), hidden("device"), hidden("ratioHigh"))...)),
				panel("Used GPU memory", 24, 12, "GPU hours of each device by the GPU memory that the runs used at most, as job "+
					"ads tell it: who holds a large GPU for little memory? Frameworks that reserve all memory in advance look as if "+
					"they needed it.",
					ask("utilization", "summary").by("device", "usedMemory").of("heldGpuHours", "runs").where(chosen).withoutTotals(),
					sortedBy(table(Override{"heldGpuHours", amountBar}), "Held GPU hours")),
			}},
			{Title: "Hours of the week", Collapsed: true, Panels: []Panel{
				panel("Utilization by hour of the week", 12, 8, "Share of the held GPUs that computed, by weekday and local hour "+
					"(time zone of the data source).",
					ask("utilization", "hourOfWeek").of("utilizationPercent").where(chosen),
					week(busyColor)),
				panel("GPUs held idle by hour of the week", 12, 8, "GPUs held by jobs that did not compute, on average, by "+
					"weekday and local hour.",
					ask("utilization", "hourOfWeek").of("idle").where(chosen),
					week(idleColor)),
			}},
			{Title: "Runs", Collapsed: true, Panels: []Panel{
				panel(idleRuns, 24, 14, "Runs of jobs that overlap the time range, with the GPU hours in which their GPUs did "+
					"not compute; most idle hours first.",
					ask("utilization", "runs").where(chosen),
					sortedBy(list(slices.Concat(runColumns, []Override{hidden("idleSince"), hidden("job"), hidden("end")})...),
						"Idle")),
			}},
		},
	}
}

// failures is the view of machines on which jobs fail.
const failures = "failures"

// failureColumns are columns of the lists of failures.
var failureColumns = []Override{
	{"suspect", object{"custom.cellOptions": object{"type": "color-text"}, "mappings": []object{{"type": "value",
		"options": object{"0": object{"text": "no", "color": "text"}, "1": object{"text": "yes", "color": vermilion}}}}}},
	{"lastFailure", minutes},
	{"commonest", atLeast(130)},
}

// startsOf is the part of a filter that failures know.
func startsOf(f query.Filter) query.Filter {
	return query.Filter{Categories: f.Categories, Slots: f.Slots, Devices: f.Devices, Machines: f.Machines,
		Ownerships: f.Ownerships, Users: f.Users}
}

// callList has a row for each user who holds idle GPUs now.
func callList(chosen query.Filter) Panel {
	runs := Link{Title: "Idle runs of this user", UID: "gpureports-utilization", Panel: idleNow, Variable: "user"}
	lost := Transformation{ID: "calculateField", Options: object{"mode": "binary", "alias": lostSoFar, "binary": object{
		"left":     object{"matcher": object{"id": "byName", "options": "Idle"}},
		"operator": "*", "right": object{"matcher": object{"id": "byName", "options": "GPUs"}}}}}
	return panel("Who to contact", 24, 9, "Users whose jobs hold GPUs and have not computed on them for two hours or "+
		"more now, whatever the time range: how many GPUs, since when (the longest), and the GPU hours lost so far, most "+
		"first. Select a user to see the runs.",
		ask("utilization", "idle").where(chosen),
		table(Override{"User", linkedTo(runs, 260)}, Override{"GPUs held idle", object{"decimals": 0}},
			Override{"Idle since", minutes}, Override{lostSoFar, wholeBar}),
		lost, grouped(object{"User": groupKey, "GPUs": aggregated("sum"), "Idle since": aggregated("min"),
			lostSoFar: aggregated("sum")}),
		organized(object{"User": 0, "GPUs (sum)": 1, "Idle since (min)": 2, lostSoFar + " (sum)": 3},
			object{"GPUs (sum)": "GPUs held idle", "Idle since (min)": "Idle since", lostSoFar + " (sum)": lostSoFar}),
		largestFirst(lostSoFar)).last(lastWeek)
}

const (
	lostSoFar = "GPU hours lost so far"
	idleRuns  = "The costliest idle runs"
)

// lastWeek is the time in which idle stretches of jobs that hold GPUs now are sought.
const lastWeek = "7d"

func utilizationBy(grouping string) Query {
	return ask("utilization", "summary").by(grouping).of("heldGpuHours", "utilizationPercent", "idleGpuHours")
}

var utilizationColumns = []Override{{"utilizationPercent", percentBar}}

// runColumns are the columns of lists of runs.
var runColumns = []Override{
	hidden("gpuIds"), hidden("category"), {"idleHours", width(80)}, {"idleSince", minutes},
	{"utilizationPercent", percentBar},
}

func utilizationFigures(chosen query.Filter) []Panel {
	figure := func(title, description, metric string, properties object) Panel {
		return compared(title, description, "utilization", metric, chosen, properties)
	}
	return []Panel{
		figure("Busy (% of measured)", "Share of the held GPU hours in which the GPUs computed. GPU hours without a report "+
			"from HTCondor do not count.", "utilizationPercent", nil),
		figure("Held GPU hours", "GPU hours held by jobs, from the times of their runs. GPU users counts the slices of "+
			"snapshots in which a job held a GPU, which gives slightly more.", "heldGpuHours", wholeHours),
		figure("Idle GPU hours", "GPU hours in idle stretches of at least half an hour.", "idleGpuHours", wholeHours),
		figure("Idle (% of measured)", "Idle GPU hours as a share of the GPU hours with a report from HTCondor.",
			"idlePercent", nil),
		figure("Runs with idle GPUs", "Runs with an idle stretch.", "idleRuns", nil),
		figure("Measured (% of held)", "Share of the held GPU hours with a report from HTCondor.", "measuredPercent", nil),
	}
}
