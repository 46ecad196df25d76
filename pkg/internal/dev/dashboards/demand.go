package dashboards

import "github.com/chtc/gpureports/pkg/query"

func demand() Dashboard {
	chosen := query.Filter{Projects: []string{"$project"}, Schedds: []string{"$schedd"}}
	return withoutData("No poll of the queues", "No job waited", Dashboard{
		UID: "gpureports-demand", File: "demand", Title: "GPU demand",
		Description: "Who is waiting for GPUs, for how long, for which GPUs, and how many were free in the meantime",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "project", Label: "Project", Dimension: "jobProject", Description: "Projects of the jobs",
				Regex: "/^(?!Unknown$).*/"}, // which stands for jobs that hold GPUs and are not in the queue files
			{Name: "schedd", Label: "Access point", Dimension: "schedd", Description: "Where jobs were submitted"},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Who waits", Panels: demandFigures(chosen)},
			{Title: "Why jobs wait while GPUs sit unused", Panels: []Panel{
				panel("Why jobs wait", 24, 9, "GPUs requested by waiting jobs, by the first thing that keeps them waiting. An "+
					"estimate: what jobs require besides GPUs, CPUs and memory is not known. For a job that would fit, ask condor_q "+
					"-better-analyze.",
					ask("demand", "obstacles").by().of("waitingGpus").where(chosen),
					aligned(areas(obstacleColors...))),
				panel("Why GPUs are unused", 24, 9, "Unused GPUs, by reason, at the times that polls of the queues cover.",
					ask("demand", "unused").by().of("gpus"),
					aligned(areas(reasonColors...))),
				panel(unusedNow, 24, 10, "Where GPUs sit unused at the newest poll: the CPUs or GiB of memory that are missing "+
					"there, and the jobs that could run with them.",
					ask("demand", "unusedNow"),
					sortedBy(list(Override{"reason", atLeast(190)}), "GPUs")).last(lastDays),
			}},
			{Title: "Waits", Panels: []Panel{
				panel(waitingAndFree, 12, 9, "GPUs requested by waiting jobs, and free GPUs that would have fit them. The latter "+
					"is an upper bound: free GPUs on different machines count toward a job that needs several.",
					ask("demand", "timeseries").by().of("waitingGpus", "freeWhileWaiting").where(chosen),
					steps(state("waitingGpus", "Waiting", vermilion), state("freeWhileWaiting", "Free while waiting", freeColor))),
				panel("Waiting GPUs by memory", 12, 9, "GPUs requested by waiting jobs, by the GPU memory that the jobs ask for.",
					ask("demand", "timeseries").by("gpuMemory").of("waitingGpus").where(chosen),
					areas(memoryColors...)),
				panel("Waits by user", 12, 12, "Waits of each user's jobs that overlap the time range: the hours after which "+
					"half and 90% of them are over (Kaplan–Meier), and the GPUs requested on average.",
					ask("demand", "summary").by("user").
						of("waits", "medianWaitHours", "p90WaitHours", "waitingGpus").
						where(chosen).withoutTotals(),
					sortedBy(table(owner), "Waiting GPUs (avg.)")),
				panel("How long jobs wait", 12, 12, "Share of the waits that last longer than an age, by number of GPUs "+
					"requested, over the first 48 hours (Kaplan–Meier).",
					ask("demand", "survival").by("gpus").of("survival").where(chosen),
					curves(requestColors...)),
				panel("The oldest waits", 24, 11, "Jobs that wait at the newest poll, whatever the time range, longest first, "+
					"and what keeps them waiting after jobs that ask for more have taken theirs.",
					ask("demand", "waiting").where(chosen),
					sortedBy(list(owner, hidden("schedd"), hidden("cpus"), hidden("since"), hidden("attempts"),
						hidden("freeNow"), Override{"user", width(105)}, Override{"project", width(175)},
						Override{"obstacle", atLeast(260)}), "Hours")).last(lastDays),
			}},
			{Title: "By project and request", Collapsed: true, Panels: []Panel{
				panel("Waits by project", 24, 9, "The same figures for each list of projects.",
					waitsBy("project").where(chosen).withoutTotals(),
					sortedBy(table(), "Waiting GPUs (avg.)")),
				panel("Waits by request", 24, 10, "The same figures by the number of GPUs and the GPU memory that jobs ask for.",
					waitsBy("gpus", "gpuMemory").where(chosen),
					metrics(requestedMemory)),
				panel("Waiting GPUs by hour of the week", 24, 8, "GPUs requested by waiting jobs, on average, by weekday and "+
					"local hour (time zone of the data source).",
					ask("demand", "hourOfWeek").of("waitingGpus").where(chosen),
					week(vermilion)),
			}},
		},
	})
}

// withoutData says why figures and charts can be empty: series without a poll, what is about waits also without waits.
// If there are no queue files at all, a notice says so.
func withoutData(unpolled, idle string, d Dashboard) Dashboard {
	for _, row := range d.Rows {
		for _, p := range row.Panels {
			switch {
			case p.View.Type == "table", p.View.Defaults["noValue"] != nil:
			case p.Query.view().Frame == query.FrameSeries:
				saying(unpolled, p.View)
			default:
				saying(idle, p.View)
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

// requestedMemory is a column as wide as its title.
var requestedMemory = Override{"gpuMemory", atLeast(95)}

func waitsBy(groupings ...string) Query {
	return ask("demand", "summary").by(groupings...).
		of("waits", "started", "medianWaitHours", "p90WaitHours", "meanWaitHours", "expansionFactor", "waitingGpus",
			"oldestHours")
}

// demandFigures lead with the newest poll; the waits cover the time range.
func demandFigures(chosen query.Filter) []Panel {
	now := func(title, description, metric string) Panel {
		return panel(title, 8, 3, description, ask("demand", "timeseries").by().of(metric).where(chosen),
			sparkline(stat("", waitFigures...))).points(finest).last(lastDays)
	}
	return []Panel{
		now("GPUs wanted now", "GPUs requested by waiting jobs.", "waitingGpus"),
		now("Jobs waiting now", "Jobs that wait for GPUs.", "waitingJobs"),
		now("Users waiting now", "Users with a waiting job.", "waitingUsers"),
		panel(query.Groupings[query.ByReason].Shown["fits"], 8, 3, "Unused GPUs that a waiting job would fit, with its CPUs "+
			"and memory, at the newest poll: the sum of these rows of Unused GPUs now. More GPUs match waiting jobs by number "+
			"and GPU memory only: Waiting and free GPUs below.",
			ask("demand", "unusedNow").where(query.Filter{Reasons: []string{"fits"}}),
			saying("None, or no poll", summed("/^GPUs$/"))).last(lastDays),
		compared("Median wait", "Hours after which half of the waits in the time range are over (Kaplan–Meier).", "demand",
			"medianWaitHours", chosen, nil),
		compared("90% wait", "Hours after which 90% of the waits in the time range are over (Kaplan–Meier).", "demand",
			"p90WaitHours", chosen, nil),
	}
}

// waitFigures show whole things without decimals.
var waitFigures = []Override{
	{"waitingGpus", object{"decimals": 0}}, {"waitingJobs", object{"decimals": 0}},
	{"waitingUsers", object{"decimals": 0}},
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
	obstacleColors = reasons(query.ByObstacle, map[string]string{"gpus": blue, "gpuMemory": "#88CCEE", "shape": purple,
		"cpus": vermilion, "memory": "#882255", "fits": green})
	reasonColors = reasons(query.ByReason, map[string]string{"prevented": "#332288", "drained": drainedColor,
		"other": "#B0A090",
		"fits":  green, "cpus": vermilion, "memory": "#882255", "shape": purple, "gpuMemory": "#88CCEE", "noDemand": grey})
)

// reasons fixes the colors of the values of a grouping, by their words.
func reasons(grouping query.Grouping, byValue map[string]string) []Override {
	shown := map[string]string{}
	for value, color := range byValue {
		shown[query.Groupings[grouping].Shown[value]] = color
	}
	return colors(shown)
}

// aligned gives charts that are read one below the other the same time axis: as much room beside each.
func aligned(v View) View {
	legend := v.Options["legend"].(object)
	legend["calcs"], legend["sortBy"] = []string{"lastNotNull", "mean"}, "Last *"
	v.Defaults["custom"].(object)["axisWidth"] = 50
	return v
}
