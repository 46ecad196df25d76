package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

// user is about one person: what they hold, held, lost and to whom, and wait for.
func user() Dashboard {
	chosen := query.Filter{Users: []string{"$user"}}
	waiting := query.Filter{Users: []string{"$owner"}}
	figure := func(title, description, kind, metric string, filter query.Filter, properties object) Panel {
		return compared(title, description, kind, metric, filter, properties)
	}
	hours := with(wholeHours, "displayName", "This period")
	return Dashboard{
		UID: "gpureports-user", File: "user", Title: "GPU user",
		Description: "One user: GPU hours by project and device, runs, evictions and who took over, idle GPUs, and waits",
		From:        "now-30d",
		Variables: []Variable{
			{Name: "user", Label: "User", Dimension: "user", Description: "The user to look at", Single: true},
			{Name: "owner", Label: "Name in the queues", Dimension: "user", Regex: "/^([^@]+)/", Single: true, Hidden: true,
				Description: "The user without the domain, as the queues name them", Filter: chosen},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "User $user", Panels: []Panel{
				figure("GPU hours", "GPU hours held by the user's jobs, on all slots, in whole slices while snapshots cover "+
					"them, as GPU users counts. GPU utilization counts from the times of the runs, which gives slightly less.",
					"userHours", "gpuHours", chosen, hours),
				figure("Lost since checkpoint", "GPU hours of evicted runs since the user's jobs last saved a checkpoint.",
					"evictions", "lostGpuHours", chosen, hours),
				figure("Idle GPU hours", "GPU hours in which the user's jobs held GPUs and did not compute on them, in stretches "+
					"of at least half an hour, from the times of the runs.", "utilization", "idleGpuHours", chosen, hours),
				panel("GPU hours by device", 12, 9, "GPU hours of the user by GPU model.",
					ask("userHours", "timeseries").by("device").where(chosen),
					bars(deviceColors()...), shortDevices...).points(60),
				panel("GPU hours by project", 12, 9, "GPU hours of the user by the projects with priority on the machines.",
					ask("userHours", "timeseries").by("project").where(chosen),
					bars()).points(60),
				panel("Lost GPU hours by cause", 9, 10, "When the user lost how much: GPU hours of evicted runs since their "+
					"jobs' last checkpoints, at the times of the evictions, by cause as far as it is known.",
					ask("evictions", "timeseries").by("cause").of("lostGpuHours").where(chosen),
					bars(causeColors...)).points(60),
				lostTo("Lost to whom", "Evictions of the user's backfill jobs and the GPU hours that they lost since their last "+
					"checkpoints, by the user whose job took the GPUs over; most hours first.", 15, chosen, "takenOverBy"),
				panel("GPUs held now", 24, 9, "GPUs that the user's jobs hold in the newest snapshot, whatever the time range.",
					ask("allocation", "current").where(chosen),
					list(hidden("user"), hidden("memoryGB"), hidden("category"), hidden("hours")), heldOnly...).last(lastDays),
				panel("Idle GPUs now", 24, 7, "The user's jobs whose GPUs have not computed for two hours or more, whatever the "+
					"time range, longest first.",
					ask("utilization", "idle").where(chosen),
					list(slices.Concat(runColumns, []Override{hidden("user"), hidden("end"), hidden("start"),
						hidden("hours")})...)).last(lastWeek),
				panel("Waiting jobs", 24, 8, "The user's jobs that wait at the newest poll of the queues, whatever the time "+
					"range, longest first, and what keeps them waiting.",
					ask("demand", "waiting").where(waiting),
					sortedBy(list(hidden("user"), hidden("schedd"), hidden("attempts"), hidden("freeNow"), hidden("since"),
						Override{"project", width(170)}, Override{"obstacle", atLeast(260)}), "Hours")).last(lastDays),
			}},
			{Title: "Every eviction", Collapsed: true, Panels: []Panel{
				panel("Eviction events", 24, 12, "Every eviction of the user's jobs: when, where, how long they had run, what "+
					"they lost, and the user whose job took over.",
					ask("evictions", "events").where(chosen),
					list(hidden("user"), hidden("gpus"), hidden("gpuIds"), hidden("category"), hidden("gpuHours"),
						hidden("evidence"), hidden("savedUntil"), Override{"cause", width(130)},
						Override{"ranHours", width(65)})),
				panel("Outcomes of backfill jobs", 24, 5, "How the user's runs on backfill slots ended.",
					ask("evictions", "summary").by().of("runs", "evictions", "yielded", "completed", "removed", "held", "running",
						"ratePer100GpuHours", "lostGpuHours", "checkpointedPercent").where(chosen).withoutTotals(),
					table()),
			}},
			{Title: "Runs", Collapsed: true, Panels: []Panel{
				panel("Runs of the user", 24, 14, "Runs that overlap the time range, with the GPU hours in which their GPUs did "+
					"not compute; most idle hours first.",
					ask("utilization", "runs").where(chosen),
					sortedBy(list(slices.Concat(runColumns, []Override{hidden("user"), hidden("idleSince"),
						hidden("end")})...), "Idle")),
			}},
			{Title: "Waits", Collapsed: true, Panels: []Panel{
				panel("Waits by request", 24, 8, "The user's waits that overlap the time range, by the number of GPUs and the GPU "+
					"memory that the jobs ask for.",
					waitsBy("gpus", "gpuMemory").where(waiting).withoutTotals(),
					table(requestedMemory)),
			}},
		},
	}
}
