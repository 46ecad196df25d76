package dashboards

import "github.com/chtc/gpureports/pkg/query"

// getAGPU is for the people who submit jobs: which GPUs are free, how long they can be kept, and how long jobs wait.
func getAGPU() Dashboard {
	all := query.Filter{}
	long := ofLength(ask("backfillAvailability", "jobLength").by("device").
		of("finishPercent", "longestHours90", "longestHours75", "longestHours50", "bestCheckpointHours").where(all))
	return Dashboard{
		UID: "gpureports-get", File: "get-a-gpu", Title: "Get a GPU",
		Description: "For people who submit jobs: which GPUs are free, how long they stay free, and how long jobs wait",
		From:        "now-30d",
		Variables: []Variable{jobLength, {Name: "howto", Label: "Site's advice",
			Description: "A sentence about this site's submit commands, such as +WantBackfill = true"}},
		Rows: []Row{{Title: "What to ask for", Panels: []Panel{
			{
				Title: "How to ask", Width: 24, Height: 4, Description: "How to request GPUs in a submit file.",
				View: View{Type: "text", Options: object{"mode": "markdown", "content": howToAsk}},
			},
			panel("GPUs by device", 24, 14, "For each device: GPUs that no job holds in the newest snapshot, all GPUs, and "+
				"their memory; the share of backfill jobs of the chosen length that finish in one run; the longest jobs of which "+
				"90, 75 and 50% do, counted from their start; and how often longer ones should checkpoint. No value: too few "+
				"runs to tell, or no backfill on this device.",
				ask("allocation", "current").where(all).atMost(query.MaxRows),
				sortedBy(table(Override{freeNow, with(wholeBar, "noValue", "0")}, Override{"GPUs", width(70)},
					Override{"Memory", with(width(80), "unit", "suffix:GB")},
					Override{"finishPercent", with(percentBar, "displayName", "Jobs of $hours h that finish")},
					Override{"longestHours90", with(width(110), "displayName", "90% finish: jobs up to")},
					Override{"longestHours75", with(width(110), "displayName", "75% finish: jobs up to")},
					Override{"longestHours50", with(width(110), "displayName", "50% finish: jobs up to")},
					Override{"bestCheckpointHours", with(width(110), "displayName", "Save every")}), freeNow),
				[]Transformation{
					including("State", "regex", "^Free$").from("A"),
					grouped(object{"GPU": aggregated("count"), "Device": groupKey}).from("A"),
					organized(object{}, object{"Device": "device", "GPU (count)": freeNow}).from("A"),
					grouped(object{"GPU": aggregated("count"), "Memory": aggregated("max"), "Device": groupKey}).from("B"),
					organized(object{}, object{"Device": "device", "GPU (count)": "GPUs", "Memory (max)": "Memory"}).from("B"),
					joinedBy("device"),
					organized(object{}, object{"device": "Device"}, "Field", "slots", "jobHours", "Job length"),
				}...).and(ask("allocation", "current").where(all).atMost(query.MaxRows), long).points(2000),
			panel("Usual wait by GPU memory", 24, 7, "Hours after which half and 90% of the waits of jobs that asked for this "+
				"much memory are over (Kaplan–Meier), and the share of waits that took no longer than 90% did in the "+
				"7 days before: near 90% the usual wait can be relied on. A request for 40 GB is in the class <48GB. It needs "+
				"the collector's queue files; without them the table is empty.",
				ask("demand", "summary").by("gpuMemory").of("waits", "medianWaitHours", "p90WaitHours", "p90HeldPercent").
					where(all).withoutTotals(),
				saying("No job waited, or no poll of the queues", table(Override{"gpuMemory", atLeast(100)},
					Override{"medianWaitHours", notYet}, Override{"p90WaitHours", notYet}, Override{"p90HeldPercent", notYet}))),
			panel("Advice for backfill jobs", 24, 9, "For each device: how long backfill jobs can be, how often longer ones "+
				"should checkpoint, and the smallest class of GPU memory that most of its backfill jobs would have fitted, as "+
				"job ads tell it: ask for no more, and more devices fit. Frameworks that reserve all memory in advance look as "+
				"if they "+
				"needed it.",
				ofLength(ask("backfillAvailability", "advice").by("device").where(all)),
				table(Override{"device", width(190)}, Override{"advice", with(atLeast(500), "custom.wrapText", true)},
					hidden("jobHours"), hidden("runs"))),
		}}},
	}
}

// jobLength is the length of a job in hours, as the user of a dashboard knows it.
var jobLength = Variable{Name: "hours", Label: "Job length (h)", Description: "How long your job runs, in hours",
	Values: []string{"1", "2", "4", "6", "8", "12", "24"}, Single: true, Chosen: "12"}

// ofLength asks about jobs of the chosen length.
func ofLength(q Query) Query {
	q.JobHours = []any{"$hours"}
	return q
}

// notYet stands where fewer waits are over than a figure needs.
var notYet = object{"noValue": "–"}

const (
	freeNow = "Free now"

	howToAsk = "Request GPUs with `request_gpus = 1`, and the least memory that your job needs with " +
		"`gpus_minimum_memory = 40000` (MB, here 40 GB): the less it asks for, the more devices fit. " +
		"If the device that fits has GPUs free now, the job starts soon; otherwise see the usual wait. " +
		"A job that may be interrupted gets more GPUs on backfill: keep it shorter than the length up to which 90% finish, " +
		"or let it checkpoint. $howto"
)
