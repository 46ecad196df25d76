package dashboards

import "github.com/chtc/gpureports/pkg/query"

// getAGPU is for the people who submit jobs: which GPUs are free, how long they can be kept, and how long jobs wait.
func getAGPU() Dashboard {
	all := query.Filter{}
	have := ask("allocation", "summary").by("device", "memory").of("available").where(real(all))
	keeps := ask("backfillAvailability", "summary").by("device").of("hours90", "hours75", "hours50").where(all)
	long := ask("backfillAvailability", "jobLength").by("device").of("longestHours90", "bestCheckpointHours").where(all)
	long.JobHours = []float64{12}
	return Dashboard{
		UID: "gpureports-get", Title: "Get a GPU",
		Description: "For people who submit jobs: which GPUs are free, how long they stay free, and how long jobs wait",
		From:        "now-14d",
		Variables: []Variable{{Name: "howto", Label: "Site's advice",
			Description: "A sentence about this site's submit commands, such as +WantBackfill = true"}},
		Rows: []Row{{Title: "What to ask for", Panels: []Panel{
			{
				Title: "How to ask", Width: 24, Height: 4, Description: "How to request GPUs in a submit file.",
				View: View{Type: "text", Options: object{"mode": "markdown", "content": howToAsk}},
			},
			{
				Title: "GPUs by device", Width: 24, Height: 14, MaxDataPoints: 2000,
				Description: "For each device: GPUs that no job holds at the end of the time range, and GPUs in service on " +
					"average; the hours for which 90, 75 and 50% of the GPUs on backfill are kept before their owners take them " +
					"back; the longest backfill jobs of which 90% finish in one run, and how often longer ones should checkpoint. " +
					"No value: too few were ever taken back, or no backfill on this device.",
				Query: ask("allocation", "timeseries").by("device").of("free").where(real(all)),
				More:  []Query{have.withoutTotals(), keeps.withoutTotals(), long},
				View: sortedBy(table(Override{freeNow, wholeBar},
					Override{"longestHours90", with(width(110), "displayName", "90% finish: jobs up to")},
					Override{"bestCheckpointHours", with(width(110), "displayName", "Longer jobs: checkpoint every")}), freeNow),
				Transformations: []Transformation{
					{ID: "reduce", From: "A", Options: object{"reducers": []string{"lastNotNull"}, "mode": "seriesToRows",
						"labelsToFields": true, "includeTimeField": false}},
					{ID: "joinByField", Options: object{"byField": "device", "mode": "outer"}},
					{ID: "organize", Options: object{"excludeByName": object{"Field": true, "slots": true, "Slots": true,
						"jobHours":   true,
						"Job length": true},
						"indexByName": object{}, "renameByName": object{"Last *": freeNow, "device": "Device"}}},
				},
			},
			{
				Title: "Usual wait by GPU memory", Width: 24, Height: 7,
				Description: "Hours after which half and 90% of the waits of jobs that asked for this much memory are over " +
					"(Kaplan–Meier). It needs the collector's queue files; without them the table is empty.",
				Query: ask("demand", "summary").by("gpuMemory").of("waits", "medianWaitHours", "p90WaitHours").where(all).
					withoutTotals(),
				View: table(Override{"gpuMemory", atLeast(100)}),
			},
		}}},
	}
}

const (
	freeNow = "Free now"

	howToAsk = "Request GPUs with `request_gpus = 1`, and the least memory that your job needs with " +
		"`gpus_minimum_memory = 16000` (MB): the less it asks for, the more devices fit. " +
		"If the device that fits has GPUs free now, the job starts soon; otherwise see the usual wait. " +
		"A job that may be interrupted gets more GPUs on backfill: keep it shorter than the hours in which 90% of the GPUs " +
		"are kept, or let it checkpoint. $howto"
)
