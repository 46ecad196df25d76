package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

const (
	machineStates = "State of each GPU" // the panel with the marks of evictions
	failuresHere  = "Failures"          // the panel that the alert rule leads to
)

func machine() Dashboard {
	chosen := query.Filter{Machines: []string{"$machine"}}
	return Dashboard{
		UID: "gpureports-machine", File: "machine", Title: "GPU machine",
		Description: "One machine: the state of each GPU, its users and jobs, drains and evictions",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "machine", Label: "Machine", Dimension: "machine", Description: "The machine to look at", Single: true},
		},
		Annotations: []Annotation{gaps, {Name: "Evictions", Color: vermilion, Query: ask("evictions", "annotations").
			where(chosen), Panels: []string{machineStates}}},
		Rows: []Row{
			{Title: "Machine $machine", Panels: []Panel{
				panel(machineStates, 24, 10, "Use of each GPU: by a job of its owner or of open capacity (Claimed), by a "+
					"backfill job, by none (Free), or by none because no jobs may start (Prevented, Drained). Blank where there is "+
					"no snapshot. Vertical lines are evictions of backfill jobs.",
					ask("allocation", "stateTimeline").where(chosen),
					stateTimeline(), renamed(`^\S+ (.*)$`)), // without the machine's name
				panel("Machine", 24, 5, "Owner, devices and use over the time range.",
					ask("allocation", "machines").where(chosen),
					list(hidden("machine"), hidden("devices"), // the list below has them
						hidden("drained"))), // its hours say the same
				panel("GPUs and jobs now", 24, 9, "Each GPU in the newest snapshot, whatever the time range, with its state, the "+
					"user and job that hold it, and since when.",
					ask("allocation", "current").where(chosen),
					list(hidden("machine"), hidden("category"), hidden("memoryGB"))).last(lastDays),
				panel(failuresHere, 24, 5, "Runs that failed within 10 minutes on this machine, compared with what the same "+
					"users' runs do elsewhere.",
					ask("utilization", failures).by("machine").where(chosen),
					list(append(slices.Clip(failureColumns), hidden("machine"), hidden("device"))...)),
				panel("Use of primary slots", 12, 8, "GPUs of this machine on primary slots: held by jobs, free, drained, or "+
					"closed to jobs (PreventJobsReason).",
					ask("allocation", "timeseries").by().of("allocated", "free", "drained", "prevented").where(real(chosen)),
					steps(state("allocated", "Allocated", claimedColor), state("free", "Free", freeColor),
						state("drained", "Drained", drainedColor), state("prevented", "Prevented", preventedColor))),
				panel("Backfill", 12, 8, "GPUs of this machine in the backfill pool: used by backfill jobs, available to "+
					"them, and taken by jobs of their owners.",
					ask("backfillAvailability", "timeseries").by().of("used", "available", "taken").where(chosen),
					saying("No backfill slots in the time range", areas(backfillPoolColors...))),
			}},
			{Title: "Users", Collapsed: true, Panels: []Panel{
				panel("GPU hours by user over time", 12, 9, "GPU hours on this machine by user, on all its slots.",
					ask("userHours", "timeseries").by("user").where(chosen),
					linked(bars(otherUsers...), toUser.ofSeries())).points(60),
				panel("GPU hours by user", 12, 9, "GPU hours of each user on this machine, on all its slots.",
					ask("userHours", "summary").by().where(chosen).withoutTotals(),
					sortedBy(table(Override{"gpuHours", amountBar}, Override{"percentOfTotal", width(90)}, hidden("userCount")),
						"GPU hours"), heldOnly...),
			}},
			{Title: "Backfill runs and free periods", Collapsed: true, Panels: []Panel{
				panel("Backfill runs", 24, 10, "Every run of a backfill job on this machine: its user, outcome and lost hours.",
					ask("evictions", "runs").where(chosen),
					list(hidden("machine"), hidden("device"), hidden("category"), hidden("gpus"), hidden("end"), hidden("link"),
						hidden("savedUntil"), hidden("evictedGpuHours"), hidden("evidence"), Override{"outcome", width(90)},
						Override{"gpuIds", width(120)}, Override{"job", width(140)}, Override{"cause", width(125)})),
				panel("Free periods", 24, 10, "Every period in which a GPU of this machine was free for backfill jobs, and how "+
					"it ended.",
					ask("backfillAvailability", "periods").where(chosen),
					list(hidden("machine"), hidden("device"), hidden("category"), hidden("leftTruncated"), hidden("unknownStart"),
						Override{"job", atLeast(125)})),
			}},
		},
	}
}
