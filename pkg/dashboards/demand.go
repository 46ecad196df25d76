package dashboards

import "github.com/chtc/gpureports/pkg/query"

func demand() Dashboard {
	chosen := query.Filter{Projects: []string{"$project"}}
	return Dashboard{
		UID: "gpureports-demand", Title: "GPU demand",
		Description: "Who waits for GPUs, how long, for what, and what stood free meanwhile",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "project", Label: "Project", Dimension: "project", Description: "Projects of the jobs"},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Who waits", Panels: append(demandFigures(chosen),
				Panel{
					Title: waitingAndFree, Width: 12, Height: 9,
					Description: "GPUs that waiting jobs ask for, and those of them that stood free and would have " +
						"fitted: an upper bound, for GPUs on different machines count for a job of several.",
					Query: ask("demand", "timeseries").by().of("waitingGpus", "freeWhileWaiting").where(chosen),
					View: steps(state("waitingGpus", "Waiting", vermilion),
						state("freeWhileWaiting", "Free while waiting", freeColor)),
				},
				Panel{
					Title: "Waiting GPUs by memory", Width: 12, Height: 9,
					Description: "GPUs that waiting jobs ask for, by the GPU memory that they ask for.",
					Query:       ask("demand", "timeseries").by("gpuMemory").of("waitingGpus").where(chosen),
					View:        areas(memoryColors...),
				},
				Panel{
					Title: "Waits by user", Width: 12, Height: 12,
					Description: "Waits of each user's jobs that overlap the time range: the time that half and 90 " +
						"% of them wait (Kaplan–Meier), and the GPUs that wait on average.",
					Query: ask("demand", "summary").by("user").
						of("waits", "medianWaitHours", "p90WaitHours", "waitingGpus").
						where(chosen).withoutTotals(),
					View: sortedBy(table(owner), "Waiting GPUs (avg.)"),
				},
				Panel{
					Title: "How long jobs wait", Width: 12, Height: 12,
					Description: "Share of the waits that go on beyond an age, by number of GPUs asked for, over " +
						"the first 48 hours (Kaplan–Meier).",
					Query: ask("demand", "survival").by("gpus").of("survival").where(chosen),
					View:  curves(requestColors...),
				},
				Panel{
					Title: "The oldest waits", Width: 24, Height: 11,
					Description: "Jobs that wait at the newest poll of the time range, the longest first, with the " +
						"GPUs that are free and have the memory they ask for. Where there are some, something " +
						"other than GPUs is missing.",
					Query: ask("demand", "waiting").where(chosen),
					View: sortedBy(list(owner, hidden("schedd"), hidden("cpus"), Override{"hours", object{"custom.width": 90}}),
						"Hours"),
				},
			)},
			{Title: "By project and request", Collapsed: true, Panels: []Panel{
				{
					Title: "Waits by project", Width: 24, Height: 9,
					Description: "The same for each list of projects.",
					Query:       waitsBy("project").where(chosen).withoutTotals(),
					View:        table(),
				},
				{
					Title: "Waits by request", Width: 24, Height: 10,
					Description: "The same by number of GPUs and GPU memory that jobs ask for.",
					Query:       waitsBy("gpus", "gpuMemory").where(chosen),
					View:        metrics(),
				},
				{
					Title: "Waiting GPUs by hour of the week", Width: 24, Height: 8,
					Description: "GPUs that waiting jobs ask for, on average, by weekday and local hour (of the " +
						"data source's time zone).",
					Query: ask("demand", "hourOfWeek").of("waitingGpus").where(chosen),
					View:  week(vermilion),
				},
			}},
		},
	}
}

// waitingAndFree is the panel that the alert rule leads to.
const waitingAndFree = "Waiting and free GPUs"

func waitsBy(groupings ...string) Query {
	return ask("demand", "summary").by(groupings...).
		of("waits", "started", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingGpus",
			"oldestHours")
}

func demandFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct{ title, description, metric string }{
		{"GPUs", "GPUs that waiting jobs ask for, on average over the time range.", "waitingGpus"},
		{"Jobs", "Jobs that wait, on average.", "waitingJobs"},
		{"Users", "Users with a waiting job, on average.", "waitingUsers"},
		{"Median wait", "Half of the waits are over by then (Kaplan–Meier).", "medianWaitHours"},
		{"90 % started", "90 % of the waits are over by then (Kaplan–Meier).", "p90WaitHours"},
		{"Free", "GPUs that stood free and would have fitted waiting jobs, on average: an upper bound.", "freeWhileWaiting"},
	} {
		panels = append(panels, Panel{
			Title: f.title, Description: f.description, Width: 4, Height: 4,
			Query: ask("demand", "summary").by().of(f.metric).where(chosen), View: stat("/.*/", waitFigures...),
		})
	}
	return panels
}

// waitFigures show averages of whole things without decimals.
var waitFigures = []Override{
	{"waitingGpus", object{"decimals": 0}}, {"waitingJobs", object{"decimals": 0}},
	{"waitingUsers", object{"decimals": 0}},
	{"freeWhileWaiting", object{"decimals": 0}},
}

// owner is a user as the queue names him, without the domain that a running job has: other dashboards do not know the
// name.
var owner = Override{"user", object{"links": []Link{}, "custom.width": 150}}

// Classes of requests.
var (
	requestColors = colors(map[string]string{"1": blue, "2": green, "3-4": orange, "5-8": purple, ">8": vermilion})
	memoryColors  = colors(map[string]string{"any": grey, "<48GB": blue, "48GB": purple, "80GB": orange,
		">80GB": vermilion})
)
