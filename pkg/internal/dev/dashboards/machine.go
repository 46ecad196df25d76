package dashboards

import "github.com/chtc/gpureports/pkg/query"

// Panels of a machine that show its evictions.
const (
	machineStates   = "State of each GPU"
	machineBackfill = "Backfill"
)

func machine() Dashboard {
	chosen := query.Filter{Machines: []string{"$machine"}}
	return Dashboard{
		UID: "gpureports-machine", Title: "GPU machine",
		Description: "One machine: the state of each GPU, its users and jobs, drains and evictions",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "machine", Label: "Machine", Dimension: "machine", Description: "The machine to look at", Single: true},
		},
		Annotations: []Annotation{gaps, {Name: "Evictions", Color: vermilion, Query: ask("evictions", "annotations").
			where(chosen), Panels: []string{machineStates, machineBackfill}}},
		Rows: []Row{
			{Title: "Machine $machine", Panels: []Panel{
				{
					Title: machineStates, Width: 24, Height: 10,
					Description: "Use of each GPU: by a job of its owner or of open capacity (Claimed), by a backfill " +
						"job, by none (Free), or by none because no jobs may start (Prevented, Drained). " +
						"Blank where there is no snapshot. Vertical lines are evictions of backfill jobs.",
					Query:           ask("allocation", "stateTimeline").where(chosen),
					View:            stateTimeline(),
					Transformations: []Transformation{renamed(`^\S+ (.*)$`)}, // without the machine's name
				},
				{
					Title: "Machine", Width: 24, Height: 5,
					Description: "Owner, devices and use over the time range.",
					Query:       ask("allocation", "machines").where(chosen),
					View: list(hidden("machine"), hidden("devices"), // the list below has them
						hidden("drained")), // its hours say the same
				},
				{
					Title: "GPUs and jobs at the end of the time range", Width: 24, Height: 9,
					Description: "Each GPU in the newest snapshot, with its state, the user and job that hold it, and " +
						"since when.",
					Query: ask("allocation", "current").where(chosen),
					View:  list(hidden("machine"), hidden("category"), hidden("memoryGB")),
				},
				{
					Title: "Use of primary slots", Width: 12, Height: 8,
					Description: "GPUs of this machine on primary slots: held by jobs, free, drained, or closed to " +
						"jobs (PreventJobsReason).",
					Query: ask("allocation", "timeseries").by().of("allocated", "free", "drained", "prevented").
						where(real(chosen)),
					View: steps(state("allocated", "Allocated", claimedColor), state("free", "Free", freeColor),
						state("drained", "Drained", drainedColor), state("prevented", "Prevented", preventedColor)),
				},
				{
					Title: machineBackfill, Width: 12, Height: 8,
					Description: "GPUs of this machine in the backfill pool: used by backfill jobs, available to them," +
						" and taken by jobs of their owners. Vertical lines are evictions.",
					Query: ask("backfillAvailability", "timeseries").by().of("used", "available", "taken").
						where(chosen),
					View: areas(backfillPoolColors...),
				},
			}},
			{Title: "Users", Collapsed: true, Panels: []Panel{
				{
					Title: "GPU hours by user over time", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours on this machine by user, on all its slots.",
					Query:       ask("userHours", "timeseries").by("user").where(chosen),
					View:        linked(bars(otherUsers...), toUser.ofSeries()),
				},
				{
					Title: "GPU hours by user", Width: 12, Height: 9,
					Description: "GPU hours of each user on this machine, on all its slots.",
					Query:       ask("userHours", "summary").by().where(chosen).withoutTotals(),
					View: table(Override{"gpuHours", amountBar}, Override{"percentOfTotal", width(90)},
						hidden("userCount")),
					Transformations: heldOnly,
				},
			}},
			{Title: "Backfill runs and free periods", Collapsed: true, Panels: []Panel{
				{
					Title: "Backfill runs", Width: 24, Height: 10,
					Description: "Every run of a backfill job on this machine: its outcome, the evidence for it, and " +
						"whether a job ad was found.",
					Query: ask("evictions", "runs").where(chosen),
					View:  list(hidden("machine"), hidden("device"), hidden("category")),
				},
				{
					Title: "Free periods", Width: 24, Height: 10,
					Description: "Every period in which a GPU of this machine was free for backfill jobs, and how it " +
						"ended.",
					Query: ask("backfillAvailability", "periods").where(chosen),
					View: list(hidden("machine"), hidden("device"), hidden("category"), hidden("leftTruncated"),
						hidden("unknownStart")),
				},
			}},
		},
	}
}
