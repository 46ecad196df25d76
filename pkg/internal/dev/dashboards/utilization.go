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
	chosen := chosenOfUsers
	return Dashboard{
		UID: "gpureports-utilization", Title: "GPU utilization",
		Description: "Which held GPUs compute, which sit idle, who holds them, and what idle GPUs cost",
		From:        "now-7d",
		Variables:   userVariables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Do held GPUs compute?", Panels: append(append([]Panel{callList(chosen)}, utilizationFigures(chosen)...),
				Panel{
					Title: "Held GPUs", Width: 12, Height: 9,
					Description: "GPUs held by jobs that computed and that sat idle for half an hour or more, on average, as " +
						"HTCondor reports it, in complete buckets. The rest of the held GPUs computed now and then, or has no report.",
					Query: ask("utilization", "timeseries").by().of("busy", "idle").where(chosen).complete(),
					View:  areas(state("busy", "Busy", busyColor), state("idle", "Idle", idleColor)),
				},
				Panel{
					Title: usedOverTime, Width: 12, Height: 9, MaxDataPoints: 30,
					Description: "Share of the held GPUs that computed: a row for each device, a cell for each part of the time " +
						"range. An alert rule watches H200.",
					Query:           ask("utilization", "timeseries").by("device").of("utilizationPercent").where(chosen),
					View:            hourMap(),
					Transformations: shortDevices,
				},
				Panel{
					Title: idleNow, Width: 24, Height: 10,
					Description: "Jobs whose GPUs have not computed for two hours or more at the end of the time " +
						"range, longest first.",
					Query: ask("utilization", "idle").where(chosen),
					View: orNone(list(slices.Concat(runColumns, []Override{hidden("end"), hidden("start"), hidden("hours"),
						hidden("idleSince"), hidden("utilizationPercent")})...)),
				},
				Panel{
					Title: "Utilization by user", Width: 12, Height: 12,
					Description: "GPU hours held by each user, the share of them in which the GPUs computed, and the " +
						"hours in which they did not; most idle hours first.",
					Query: utilizationBy("user").where(chosen).withoutTotals(),
					View:  sortedBy(table(utilizationColumns...), "Idle GPU hours"),
				},
				Panel{
					Title: "Utilization by device", Width: 12, Height: 12,
					Description: "The same figures for each GPU model.",
					Query:       utilizationBy("device").where(chosen).withoutTotals(),
					View:        sortedBy(table(utilizationColumns...), "Idle GPU hours"),
				},
			)},
			{Title: "Hours of the week", Collapsed: true, Panels: []Panel{
				{
					Title: "Utilization by hour of the week", Width: 12, Height: 8,
					Description: "Share of the held GPUs that computed, by weekday and local hour (time zone of the " +
						"data source).",
					Query: ask("utilization", "hourOfWeek").of("utilizationPercent").where(chosen),
					View:  week(busyColor),
				},
				{
					Title: "GPUs held idle by hour of the week", Width: 12, Height: 8,
					Description: "GPUs held by jobs that did not compute, on average, by weekday and local hour.",
					Query:       ask("utilization", "hourOfWeek").of("idle").where(chosen),
					View:        week(idleColor),
				},
			}},
			{Title: "Runs", Collapsed: true, Panels: []Panel{
				{
					Title: idleRuns, Width: 24, Height: 14,
					Description: "Runs of jobs that overlap the time range, with the GPU hours in which their GPUs did" +
						" not compute; most idle hours first.",
					Query: ask("utilization", "runs").where(chosen),
					View: sortedBy(list(slices.Concat(runColumns, []Override{hidden("idleSince"), hidden("job"), hidden("end")})...),
						"Idle"),
				},
			}},
		},
	}
}

// callList has a row for each user who holds idle GPUs now.
func callList(chosen query.Filter) Panel {
	runs := Link{Title: "Idle runs of this user", UID: "gpureports-utilization", Panel: idleNow, Variable: "user"}
	lost := Transformation{ID: "calculateField", Options: object{"mode": "binary", "alias": lostSoFar, "binary": object{
		"left":     object{"matcher": object{"id": "byName", "options": "Idle"}},
		"operator": "*", "right": object{"matcher": object{"id": "byName", "options": "GPUs"}}}}}
	return Panel{
		Title: "Who to contact", Width: 24, Height: 9,
		Description: "Users whose jobs hold GPUs and have not computed on them for two hours or more: how many GPUs, since " +
			"when (the longest), and the GPU hours lost so far, most first. Select a user to see the runs.",
		Query: ask("utilization", "idle").where(chosen),
		View: orNone(table(Override{"User", linkedTo(runs, 260)}, Override{"GPUs held idle", object{"decimals": 0}},
			Override{"Idle since", minutes}, Override{lostSoFar, wholeBar})),
		Transformations: []Transformation{lost,
			{ID: "groupBy", Options: object{"fields": object{"User": groupKey,
				"GPUs": aggregated("sum"), "Idle since": aggregated("min"), lostSoFar: aggregated("sum")}}},
			{ID: "organize", Options: object{"excludeByName": object{}, "indexByName": object{"User": 0, "GPUs (sum)": 1,
				"Idle since (min)": 2, lostSoFar + " (sum)": 3}, "renameByName": object{"GPUs (sum)": "GPUs held idle",
				"Idle since (min)": "Idle since", lostSoFar + " (sum)": lostSoFar}}},
			{ID: "sortBy", Options: object{"fields": object{}, "sort": []object{{"field": lostSoFar, "desc": true}}}},
		},
	}
}

const (
	lostSoFar = "GPU hours lost so far"
	idleRuns  = "The costliest idle runs"
)

func utilizationBy(grouping string) Query {
	return ask("utilization", "summary").by(grouping).of("heldGpuHours", "utilizationPercent", "idleGpuHours")
}

var utilizationColumns = []Override{{"utilizationPercent", percentBar}}

// runColumns are the columns of lists of runs.
var runColumns = []Override{
	hidden("gpuIds"), hidden("category"), {"idleHours", width(80)}, {"idleSince", minutes},
	{"utilizationPercent", percentBar},
}

func utilizationFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct {
		title, description, metric string
		properties                 object
	}{
		{"Busy (% of measured)", "Share of the held GPU hours in which the GPUs computed. GPU hours without a report " +
			"from HTCondor do not count.",
			"utilizationPercent", nil},
		{"Held GPU hours", "GPU hours held by jobs.", "heldGpuHours", wholeHours},
		{"Idle GPU hours", "GPU hours in idle stretches of at least half an hour.", "idleGpuHours", wholeHours},
		{"Idle (% of measured)", "Idle GPU hours as a share of the GPU hours with a report from HTCondor.", "idlePercent",
			nil},
		{"Runs with idle GPUs", "Runs with an idle stretch.", "idleRuns", nil},
		{"Measured (% of held)", "Share of the held GPU hours with a report from HTCondor.", "measuredPercent",
			nil},
	} {
		panels = append(panels, compared(f.title, f.description, "utilization", f.metric, chosen, f.properties))
	}
	return panels
}
