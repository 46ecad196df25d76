package dashboards

import "github.com/chtc/gpureports/pkg/query"

func demand() Dashboard {
	chosen := query.Filter{Projects: []string{"$project"}, Schedds: []string{"$schedd"}}
	return withoutData("No queue files, or no job waits", Dashboard{
		UID: "gpureports-demand", Title: "GPU demand",
		Description: "Who is waiting for GPUs, for how long, for which GPUs, and how many were free in the meantime",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "project", Label: "Project", Dimension: "project", Description: "Projects of the jobs"},
			{Name: "schedd", Label: "Access point", Dimension: "schedd", Description: "Where jobs were submitted"},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Who waits", Panels: demandFigures(chosen)},
			{Title: "Why jobs wait while GPUs sit unused", Panels: []Panel{
				{
					Title: "Why jobs wait", Width: 24, Height: 9,
					Description: "GPUs requested by waiting jobs, by the first thing that keeps them waiting. An estimate: what " +
						"jobs require besides GPUs, CPUs and memory is not known. For a job that would fit, ask " +
						"condor_q -better-analyze.",
					Query: ask("demand", "obstacles").by().of("waitingGpus").where(chosen),
					View:  aligned(areas(obstacleColors...)),
				},
				{
					Title: "Why GPUs are unused", Width: 24, Height: 9,
					Description: "Unused GPUs, by reason, at the times that polls of the queues cover.",
					Query:       ask("demand", "unused").by().of("gpus"),
					View:        aligned(areas(reasonColors...)),
				},
				{
					Title: unusedNow, Width: 24, Height: 10,
					Description: "Where GPUs sit unused at the newest poll: the CPUs or GiB of memory that are missing there, and " +
						"the jobs that could run with them.",
					Query: ask("demand", "unusedNow"),
					View:  sortedBy(list(Override{"reason", atLeast(190)}), "GPUs"),
				},
			}},
			{Title: "Waits", Panels: []Panel{
				{
					Title: waitingAndFree, Width: 12, Height: 9,
					Description: "GPUs requested by waiting jobs, and free GPUs that would have fit them. The latter is an upper " +
						"bound: free GPUs on different machines count toward a job that needs several.",
					Query: ask("demand", "timeseries").by().of("waitingGpus", "freeWhileWaiting").where(chosen),
					View: steps(state("waitingGpus", "Waiting", vermilion),
						state("freeWhileWaiting", "Free while waiting", freeColor)),
				},
				{
					Title: "Waiting GPUs by memory", Width: 12, Height: 9,
					Description: "GPUs requested by waiting jobs, by the GPU memory that the jobs ask for.",
					Query:       ask("demand", "timeseries").by("gpuMemory").of("waitingGpus").where(chosen),
					View:        areas(memoryColors...),
				},
				{
					Title: "Waits by user", Width: 12, Height: 12,
					Description: "Waits of each user's jobs that overlap the time range: the hours after which half " +
						"and 90% of them are over (Kaplan–Meier), and the GPUs requested on average.",
					Query: ask("demand", "summary").by("user").
						of("waits", "medianWaitHours", "p90WaitHours", "waitingGpus").
						where(chosen).withoutTotals(),
					View: sortedBy(table(owner, Override{"waitingGpus", width(105)}), "Waiting GPUs (avg.)"),
				},
				{
					Title: "How long jobs wait", Width: 12, Height: 12,
					Description: "Share of the waits that last longer than an age, by number of GPUs requested, over " +
						"the first 48 hours (Kaplan–Meier).",
					Query: ask("demand", "survival").by("gpus").of("survival").where(chosen),
					View:  curves(requestColors...),
				},
				{
					Title: "The oldest waits", Width: 24, Height: 11,
					Description: "Jobs that are waiting at the newest poll of the time range, longest first, and what keeps " +
						"them waiting after jobs that ask for more have taken theirs.",
					Query: ask("demand", "waiting").where(chosen),
					View: sortedBy(list(owner, hidden("schedd"), hidden("cpus"), hidden("since"), hidden("attempts"),
						hidden("freeNow"), Override{"obstacle", atLeast(230)}),
						"Hours"),
				},
			}},
			{Title: "By project and request", Collapsed: true, Panels: []Panel{
				{
					Title: "Waits by project", Width: 24, Height: 9,
					Description: "The same figures for each list of projects.",
					Query:       waitsBy("project").where(chosen).withoutTotals(),
					View:        sortedBy(table(), "Waiting GPUs (avg.)"),
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
	})
}

// withoutData says in figures and charts why they can be empty. In a table it would appear in each empty cell.
func withoutData(reason string, d Dashboard) Dashboard {
	for _, row := range d.Rows {
		for _, p := range row.Panels {
			if p.View.Type != "table" {
				saying(reason, p.View)
			}
		}
	}
	return d
}

// The panels that alert rules lead to.
const (
	waitingAndFree = "Waiting and free GPUs"
	unusedNow      = "Unused GPUs now"
)

func waitsBy(groupings ...string) Query {
	return ask("demand", "summary").by(groupings...).
		of("waits", "started", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingGpus",
			"oldestHours")
}

// demandFigures lead with the newest poll; the waits cover the time range.
func demandFigures(chosen query.Filter) (panels []Panel) {
	for _, f := range []struct{ title, description, metric string }{
		{"GPUs wanted now", "GPUs requested by waiting jobs.", "waitingGpus"},
		{"Jobs waiting now", "Jobs that wait for GPUs.", "waitingJobs"},
		{"Users waiting now", "Users with a waiting job.", "waitingUsers"},
		{"Free GPUs that fit", "GPUs that are free now and would fit waiting jobs: an upper bound. Red at or above the " +
			"alert rule's threshold.", "freeWhileWaiting"},
	} {
		panels = append(panels, Panel{
			Title: f.title, Description: f.description, Width: 8, Height: 3, MaxDataPoints: finest, Last: lastDays,
			Query: ask("demand", "timeseries").by().of(f.metric).where(chosen), View: sparkline(stat("", waitFigures...)),
		})
	}
	for _, f := range []struct{ title, description, metric string }{
		{"Median wait", "Hours after which half of the waits in the time range are over (Kaplan–Meier).", "medianWaitHours"},
		{"90% wait", "Hours after which 90% of the waits in the time range are over (Kaplan–Meier).", "p90WaitHours"},
	} {
		panels = append(panels, compared(f.title, f.description, "demand", f.metric, chosen, nil))
	}
	return panels
}

// waitFigures show whole things without decimals.
var waitFigures = []Override{
	{"waitingGpus", object{"decimals": 0}}, {"waitingJobs", object{"decimals": 0}},
	{"waitingUsers", object{"decimals": 0}},
	{"freeWhileWaiting", object{"decimals": 0, "thresholds": levels("text", freeWhileWaiting, vermilion)}},
}

// owner is a user as the queue names him, without the domain that a running job has: the link finds him with any.
var owner = Override{"user", with(atLeast(100), "links", []Link{{Title: toUser.Title, UID: toUser.UID, Variable: "user",
	Value: "%2F%5E${__data.fields.user:percentencode}%28%40%7C%24%29%2F"}})} // /^user(@|$)/

// Classes of requests.
var (
	requestColors = colors(map[string]string{"1": blue, "2": green, "3-4": orange, "5-8": purple, ">8": vermilion})
	memoryColors  = colors(map[string]string{"any": grey, "<48GB": blue, "48GB": purple, "80GB": orange,
		">80GB": vermilion})
)

// What keeps jobs waiting and GPUs unused: of one color what says the same on both sides.
var (
	obstacleColors = reasons("obstacle", map[string]string{"gpus": blue, "gpuMemory": "#88CCEE", "shape": purple,
		"cpus": vermilion, "memory": "#882255", "fits": green})
	reasonColors = reasons("reason", map[string]string{"prevented": "#332288", "drained": drainedColor, "other": "#B0A090",
		"fits": green, "cpus": vermilion, "memory": "#882255", "shape": purple, "gpuMemory": "#88CCEE", "noDemand": grey})
)

// reasons fixes the colors of the values of a grouping, by their words.
func reasons(grouping string, byValue map[string]string) []Override {
	shown := map[string]string{}
	for value, color := range byValue {
		shown[query.ShownAs[grouping][value]] = color
	}
	return colors(shown)
}

// aligned gives charts that are read one below the other the same time axis: as much room beside each.
func aligned(v View) View {
	legend := v.Options["legend"].(object)
	legend["width"], legend["calcs"], legend["sortBy"] = 340, []string{"lastNotNull", "mean"}, "Last *"
	v.Defaults["custom"].(object)["axisWidth"] = 50
	return v
}
