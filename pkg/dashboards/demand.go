package dashboards

import "github.com/chtc/gpureports/pkg/query"

func demand() Dashboard {
	chosen := query.Filter{Projects: []string{"$project"}, Schedds: []string{"$schedd"}}
	return Dashboard{
		UID: "gpureports-demand", Title: "GPU demand",
		Description: "Who waits for GPUs, how long, for which GPUs, and how many were free meanwhile",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "project", Label: "Project", Dimension: "project", Description: "Projects of the jobs"},
			{Name: "schedd", Label: "Access point", Dimension: "schedd", Description: "Where jobs were submitted"},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Who waits", Panels: append(demandFigures(chosen),
				Panel{
					Title: waitingAndFree, Width: 12, Height: 9,
					Description: "GPUs requested by waiting jobs, and free GPUs that would have fitted them. The " +
						"latter is an upper bound: free GPUs on different machines count towards a job that " +
						"needs several.",
					Query: ask("demand", "timeseries").by().of("waitingGpus", "freeWhileWaiting").where(chosen),
					View: steps(state("waitingGpus", "Waiting", vermilion),
						state("freeWhileWaiting", "Free while waiting", freeColor)),
				},
				Panel{
					Title: "Waiting GPUs by memory", Width: 12, Height: 9,
					Description: "GPUs requested by waiting jobs, by the GPU memory that the jobs ask for.",
					Query:       ask("demand", "timeseries").by("gpuMemory").of("waitingGpus").where(chosen),
					View:        areas(memoryColors...),
				},
				Panel{
					Title: "Waits by user", Width: 12, Height: 12,
					Description: "Waits of each user's jobs that overlap the time range: the hours after which half " +
						"and 90 % of them are over (Kaplan–Meier), and the GPUs requested on average.",
					Query: ask("demand", "summary").by("user").
						of("waits", "medianWaitHours", "p90WaitHours", "waitingGpus").
						where(chosen).withoutTotals(),
					View: sortedBy(table(owner), "Waiting GPUs (avg.)"),
				},
				Panel{
					Title: "How long jobs wait", Width: 12, Height: 12,
					Description: "Share of the waits that last longer than an age, by number of GPUs requested, over " +
						"the first 48 hours (Kaplan–Meier).",
					Query: ask("demand", "survival").by("gpus").of("survival").where(chosen),
					View:  curves(requestColors...),
				},
				Panel{
					Title: "The oldest waits", Width: 24, Height: 11,
					Description: "Jobs that are waiting at the newest poll of the time range, longest first, with the " +
						"number of free GPUs that have enough memory. If there are any, the job lacks " +
						"something other than GPUs.",
					Query: ask("demand", "waiting").where(chosen),
					View: sortedBy(list(owner, hidden("schedd"), hidden("cpus"), Override{"hours", object{"custom.width": 90}},
						Override{"job", atLeast(300)}), "Hours"),
				},
			)},
			{Title: "By project and request", Collapsed: true, Panels: []Panel{
				{
					Title: "Waits by project", Width: 24, Height: 9,
					Description: "The same figures for each list of projects.",
					Query:       waitsBy("project").where(chosen).withoutTotals(),
					View:        table(),
				},
				{
					Title: "Waits by request", Width: 24, Height: 10,
					Description: "The same figures by the number of GPUs and the GPU memory that jobs ask for.",
					Query:       waitsBy("gpus", "gpuMemory").where(chosen),
					View:        metrics(),
				},
				{
					Title: "Waiting GPUs by hour of the week", Width: 24, Height: 8,
					Description: "GPUs requested by waiting jobs, on average, by weekday and local hour (time zone of " +
						"the data source).",
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
		{"GPUs", "GPUs requested by waiting jobs, on average over the time range.", "waitingGpus"},
		{"Jobs", "Waiting jobs, on average over the time range.", "waitingJobs"},
		{"Users", "Users with a waiting job, on average over the time range.", "waitingUsers"},
		{"Median", "Hours after which half of the waits are over (Kaplan–Meier).", "medianWaitHours"},
		{"90 %", "Hours after which 90 % of the waits are over (Kaplan–Meier).", "p90WaitHours"},
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
