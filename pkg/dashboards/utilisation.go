package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

// Panels of GPU utilisation that alert rules lead to.
const (
	idleNow      = "Held idle now"
	usedOverTime = "Utilisation over time"
)

func utilisation() Dashboard {
	chosen := chosenOfUsers
	return Dashboard{
		UID: "gpureports-utilisation", Title: "GPU utilisation",
		Description: "Which held GPUs compute, which do not, whose they are, and what that costs",
		From:        "now-7d",
		Variables:   userVariables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Do held GPUs compute?", Panels: append(utilisationFigures(chosen),
				Panel{
					Title: "Held GPUs", Width: 12, Height: 9,
					Description: "GPUs held by jobs that computed and that did not, on average, stacked: what " +
						"HTCondor's reports tell of. GPUs without a report are in neither.",
					Query: ask("utilization", "timeseries").by().of("busy", "idle").where(chosen),
					View:  areas(state("busy", "Busy", busyColor), state("idle", "Idle", idleColor)),
				},
				Panel{
					Title: usedOverTime, Width: 12, Height: 9,
					Description: "The share of the held GPUs that computed, by device. The dashed line is the " +
						"alert rule's for H200.",
					Query: ask("utilization", "timeseries").by("device").of("utilizationPercent").
						where(chosen),
					View:            alertsBelow(percent(lines(deviceColors()...)), halfUsed),
					Transformations: shortDevices,
				},
				Panel{
					Title: idleNow, Width: 24, Height: 10,
					Description: "Jobs that held their GPUs for two hours or more without computing at the end of " +
						"the time range, the longest first.",
					Query: ask("utilization", "idle").where(chosen),
					View:  list(slices.Concat(runColumns, []Override{hidden("end"), hidden("start"), hidden("hours")})...),
				},
				Panel{
					Title: "Utilisation by user", Width: 12, Height: 12,
					Description: "GPU hours that each user held, the share of them in which the GPUs computed, and " +
						"the hours in which they computed nothing; the most idle hours first.",
					Query: utilisationBy("user").where(chosen).withoutTotals(),
					View:  sortedBy(table(utilisationColumns...), "Idle GPU hours"),
				},
				Panel{
					Title: "Utilisation by device", Width: 12, Height: 12,
					Description: "The same for each GPU model.",
					Query:       utilisationBy("device").where(chosen).withoutTotals(),
					View:        sortedBy(table(utilisationColumns...), "Idle GPU hours"),
				},
			)},
			{Title: "Hours of the week", Collapsed: true, Panels: []Panel{
				{
					Title: "Utilisation by hour of the week", Width: 12, Height: 8,
					Description: "The share of the held GPUs that computed, by weekday and local hour (of the data " +
						"source's time zone).",
					Query: ask("utilization", "hourOfWeek").of("utilizationPercent").where(chosen),
					View:  percentWeek(busyColor),
				},
				{
					Title: "GPUs held idle by hour of the week", Width: 12, Height: 8,
					Description: "GPUs that jobs held without computing, on average, by weekday and local hour.",
					Query:       ask("utilization", "hourOfWeek").of("idle").where(chosen),
					View:        week(idleColor),
				},
			}},
			{Title: "Runs", Collapsed: true, Panels: []Panel{
				{
					Title: "The costliest idle runs", Width: 24, Height: 14,
					Description: "Runs of jobs that overlap the time range, with the GPU hours in it in which " +
						"their GPUs computed nothing; the most first.",
					Query: ask("utilization", "runs").where(chosen),
					View: sortedBy(list(slices.Concat(runColumns, []Override{hidden("idleSince"), hidden("job"), hidden("end")})...),
						"Idle"),
				},
			}},
		},
	}
}

func utilisationBy(grouping string) Query {
	return ask("utilization", "summary").by(grouping).of("heldGpuHours", "utilizationPercent", "idleGpuHours")
}

var utilisationColumns = []Override{{"utilizationPercent", percentBar}}

// runColumns are those of lists of runs.
var runColumns = []Override{
	hidden("gpuIds"), hidden("category"), {"idleHours", width(80)}, {"idleSince", minutes},
	{"utilizationPercent", percentBar},
}

func utilisationFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct{ title, description, metric string }{
		{"Busy", "The share of the held GPU hours in which GPUs computed, of those that HTCondor's reports tell of.",
			"utilizationPercent"},
		{"Held", "GPU hours that jobs held.", "heldGpuHours"},
		{"Idle", "GPU hours in idle stretches: at least half an hour without computing.", "idleGpuHours"},
		{"Idle part", "Idle GPU hours, of those that reports tell of.", "idlePercent"},
		{"Idle runs", "Runs with an idle stretch.", "idleRuns"},
		{"Known", "The share of the held GPU hours that HTCondor's reports tell of.", "measuredPercent"},
	} {
		panels = append(panels, Panel{
			Title: f.title, Description: f.description, Width: 4, Height: 4,
			Query: ask("utilization", "summary").by().of(f.metric).
				where(chosen), View: stat("/.*/", Override{"heldGpuHours", wholeHours}, Override{"idleGpuHours", wholeHours}),
		})
	}
	return panels
}
