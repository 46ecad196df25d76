package dashboards

import "github.com/chtc/gpureports/pkg/query"

// lists of the pool's overview that links lead to.
const (
	gpuList        = "GPUs"
	newestSnapshot = "Newest snapshot"
)

func poolOverview() Dashboard {
	chosen := query.Filter{Devices: []string{"$device"}, Ownerships: []string{"$ownership"}}
	idle := chosen
	idle.Idle = true
	return Dashboard{
		UID: "gpureports-pool", Title: "GPU pool overview",
		Description: "Who holds the GPUs of the pool, what is free, and how recent the figures are",
		From:        "now-7d",
		Variables: []Variable{
			ownershipVariable, deviceVariable,
			{
				Name: "state", Label: "State", Description: "States of the GPUs in the list below; figures and charts do not " +
					"depend on it",
				Values: []string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"},
			},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			poolNow(chosen),
			{Title: "Over time", Panels: []Panel{
				{
					Title: "Allocated % over time", Width: 12, Height: 8,
					Description: "Share of the available GPUs that jobs hold on primary slots, by category. The dashed" +
						" line is the threshold of the alert rule.",
					Query: ask("allocation", "timeseries").by("category").of("allocatedPercent").
						where(real(chosen)),
					View:            alertsBelow(percent(ratios(ownershipLooks(fixed)...)), underused),
					Transformations: byOwnership,
				},
				{
					Title: "GPUs held by jobs", Width: 12, Height: 8,
					Description:     "GPUs that jobs hold on primary slots, stacked by category.",
					Query:           ask("allocation", "timeseries").by("category").of("allocated").where(real(chosen)),
					View:            areas(ownershipLooks(fixed)...),
					Transformations: byOwnership,
				},
				{
					Title: "GPUs held by backfill jobs", Width: 12, Height: 8,
					Description: "GPUs held by backfill jobs while their owners do not use them, stacked by category. " +
						"They are the same GPUs as those of the primary slots.",
					Query: ask("allocation", "timeseries").by("category").of("allocated").
						where(onBackfill(chosen)),
					View:            areas(ownershipLooks(dashed)...),
					Transformations: byOwnership,
				},
				{
					Title: "Free GPUs by device over time", Width: 12, Height: 8,
					Description:     "GPUs that no job holds and on which jobs may start, stacked by device.",
					Query:           ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
					View:            areas(deviceColors()...),
					Transformations: shortDevices,
				},
			}},
			{Title: "Averages over the time range", Collapsed: true, Panels: poolAverages(chosen)},
			{Title: "Users", Collapsed: true, Panels: []Panel{
				{
					Title: "GPU hours of the largest users", Width: 24, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours of the ten users with the most, and of all others together, on all slots.",
					Query:       ask("userHours", "timeseries").by("user").where(chosen),
					View:        linked(bars(otherUsers...), toUser.ofSeries()),
				},
			}},
			{Title: "GPUs and machines", Collapsed: true, Panels: []Panel{
				{
					Title: "State over time", Width: 24, Height: 18,
					Description: "What held each GPU, by device: a job of its owner or of open capacity (Claimed), a backfill job, " +
						"nothing (Free), or nothing because jobs are kept away (Prevented, Drained). With more than 500 GPUs, each row " +
						"stands for the GPUs of a device on a machine, and a light color for the state of most of them. Blank: no " +
						"snapshot. Select a row to open its machine.",
					Query:           ask("allocation", "stateTimeline").where(chosen),
					View:            pagedStates(40, toMachine.ofSeries()),
					Transformations: statesOnly,
				},
				{
					Title: gpuList, Width: 24, Height: 12,
					Description: "GPUs in the newest snapshot of the time range whose state is chosen above: state, " +
						"user and job, and since when.",
					Query:           ask("allocation", "current").where(chosen),
					View:            list(hidden("memoryGB"), hidden("category"), hidden("hours")),
					Transformations: ofChosenStates,
				},
				{
					Title: "Machines", Width: 24, Height: 10,
					Description: "Owner, devices and use of each machine in the time range. An excluded machine is " +
						"listed with the reason and without figures.",
					Query: ask("allocation", "machines").where(chosen),
					View:  list(),
				},
				{
					Title: "Idle machines", Width: 24, Height: 10,
					Description: "Machines on which no primary slot was claimed in the time range. Backfill jobs may " +
						"have used them.",
					Query: ask("allocation", "machines").where(idle),
					View:  list(hidden("allocated"), hidden("allocatedPercent")),
				},
			}},
			{Title: "Freshness of the data", Collapsed: true, Panels: []Panel{
				{
					Title: "Freshness", Width: 24, Height: 5,
					Description: "Age of the newest snapshot, coverage of the time range by snapshots, GPUs in the " +
						"newest snapshot and those missing from it since the day before, age of the newest " +
						"job ad, and the share of backfill runs explained by a job ad. The figures are for " +
						"the whole pool, regardless of the filters above.",
					Query: ask("allocation", "health"),
					View: stats("/.*/",
						Override{"snapshotAgeSeconds", object{"thresholds": levels("text", stale, vermilion)}},
						Override{"jobsLagSeconds", object{"thresholds": levels("text", jobsBehind, vermilion)}},
						Override{"linkRate", object{"thresholds": levels(vermilion, fewLinked, "text")}},
					),
				},
			}},
		},
	}
}

// lastDays is the time in which the newest snapshot is sought, independent of the time range of the dashboard. Over two
// days the shortest buckets are those of one slice.
const lastDays = "2d"

// poolNow shows the pool in its newest snapshot.
func poolNow(chosen query.Filter) Row {
	now := func(metrics ...string) Query {
		return ask("allocation", "timeseries").by().of(metrics...).where(real(chosen))
	}
	figure := func(title, description string, q Query, v View) Panel {
		return Panel{Title: title, Description: description, Width: 8, Height: 3, MaxDataPoints: finest, Last: lastDays,
			Query: q, View: v}
	}
	whole := func(metric string) View { return sparkline(stat("", Override{metric, object{"decimals": 0}})) }
	age := ask("allocation", "health").of("snapshotAgeSeconds")
	return Row{Title: "Newest snapshot, with the two days before it", Panels: []Panel{
		figure("GPUs in service", "GPUs on primary slots that jobs hold or could hold.", now("available"),
			whole("available")),
		figure("Allocated GPUs (%)", "Share of the GPUs in service that jobs hold on primary slots. Red below the threshold "+
			"of the alert rule.", now("allocatedPercent"), sparkline(stat("", Override{"allocatedPercent",
			object{"thresholds": levels(vermilion, underused, "text")}}))),
		figure("Free GPUs", "GPUs that no job holds, neither on a primary nor on a backfill slot, and on which "+
			"jobs may start.", now("free"), whole("free")),
		figure("GPUs out of service", "GPUs that are drained, and GPUs without a job on which none may start "+
			"(PreventJobsReason). A GPU can be both.", now("drained", "prevented"), stats("",
			Override{"drained", object{"displayName": "Drained", "decimals": 0}},
			Override{"prevented", object{"displayName": "Prevented", "decimals": 0}})),
		figure("GPUs on backfill", "GPUs that backfill jobs hold.",
			ask("allocation", "timeseries").by().of("allocated").where(onBackfill(chosen)), whole("allocated")),
		{
			Title: newestSnapshot, Width: 8, Height: 3, MaxDataPoints: finest, Last: lastDays,
			Description: "When the slice of the newest snapshot begins, and the snapshot's age. Red when three snapshots are " +
				"missing, as in the alert rule.",
			Query: now("available"), More: []Query{age},
			View: stats("/^(From|Age)$/", Override{"time", object{"unit": "time:MMM D, HH:mm", "displayName": "From"}},
				Override{"snapshotAgeSeconds", object{"displayName": "Age", "decimals": 1,
					"thresholds": levels("text", stale, vermilion)}}),
		},
		{
			Title: "Free GPUs by device", Width: 8, Height: 9, MaxDataPoints: finest, Last: lastDays,
			Description: "GPUs that no job holds, neither on a primary nor on a backfill slot, and on which " +
				"jobs may start; the most first. Select a device to list its free GPUs.",
			Query:           ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
			View:            table(Override{"device", object{"links": toFree.ofRows()}}, Override{"Free", wholeBar}),
			Transformations: lastPoints("device", "Device", "Free"),
		},
		{
			Title: "Free GPUs by machine", Width: 10, Height: 9, Last: lastDays,
			Description: "Machines with free GPUs, the most first.",
			Query:       ask("allocation", "current").where(chosen).atMost(query.MaxRows),
			View: sortedBy(table(Override{"Machine", with(linkedTo(toMachine, 100), "mappings", shortMachine)},
				Override{"Device", atLeast(110)},
				Override{"Free", width(75)}),
				"Free"),
			Transformations: gpusBy("^Free$", "Free", nil, "Machine", "Device"),
		},
		{
			Title: "Allocated by category", Width: 6, Height: 9, MaxDataPoints: finest, Last: lastDays,
			Description: "Share of the available GPUs of each category that jobs hold. A backfill GPU is " +
				"available only while no job of its owner holds it.",
			Query: ask("allocation", "timeseries").by("category").of("allocatedPercent").where(chosen),
			View:  barGauge(levels(blue)),
		},
		{
			Title: "Out of service", Width: 24, Height: 6, Last: lastDays,
			Description: "Drained GPUs, and GPUs on which no job may start (PreventJobsReason), in the newest snapshot, and " +
				"since when.",
			Query: ask("allocation", "current").where(chosen).atMost(query.MaxRows),
			View: sortedBy(orNone(table(Override{"Machine", with(linkedTo(toMachine, 110), "mappings", shortMachine)},
				Override{"State", with(stateColors, "custom.filterable", false)}, Override{"Since", minutes},
				Override{"GPUs", width(75)}, Override{"Prevented by", atLeast(130)})), "GPUs"),
			Transformations: gpusBy("^(Drained|Prevented)$", "GPUs", object{"Since": aggregated("min")}, "Machine",
				"Device", "State", "Prevented by"),
		},
		{
			Title: "Came or went since yesterday", Width: 24, Height: 6, Last: "24h",
			Description: "GPUs and machines that are in the newest snapshot and were not seen on the day before, and those " +
				"that were and are not in it.",
			Query: ask("allocation", "changes").where(chosen),
			View:  orNone(list(Override{"change", width(120)}, Override{"since", minutes})),
		},
	}}
}

// gpusBy counts the GPUs of a list that are in a state by columns, beside more aggregations.
func gpusBy(states, count string, more object, columns ...string) []Transformation {
	fields := with(more, "GPU", aggregated("count"))
	order := object{"GPU (count)": len(columns), "Since (min)": len(columns) + 1}
	for i, name := range columns {
		fields[name] = groupKey
		order[name] = i
	}
	return []Transformation{including("State", "regex", states), {ID: "groupBy", Options: object{"fields": fields}},
		{ID: "organize", Options: object{"excludeByName": object{}, "indexByName": order,
			"renameByName": object{"GPU (count)": count, "Since (min)": "Since"}}}}
}

// toFree leads to the list of a device's free GPUs.
var toFree = Link{Title: "The free GPUs", UID: "gpureports-pool", Panel: gpuList, Variable: "device", Set: "state=Free"}

// finest asks for the shortest buckets: only the last one is shown.
const finest = 1000

var wholeBar = with(amountBar, "decimals", 0)

// ofChosenStates leaves out of a list the GPUs that are in other states.
var ofChosenStates = []Transformation{including("State", "regex", "^(${state:pipe})$")}

func poolAverages(chosen query.Filter) []Panel {
	return []Panel{
		{
			Title: "GPUs out of service over time", Width: 24, Height: 7,
			Description: "GPUs that are drained, and GPUs without a job on which none may start " +
				"(PreventJobsReason), on primary slots.",
			Query: ask("allocation", "timeseries").by().of("drained", "prevented").where(real(chosen)),
			View:  steps(state("drained", "Drained", drainedColor), state("prevented", "Prevented", preventedColor)),
		},
		{
			Title: "Allocation by category", Width: 24, Height: 9,
			Description: "Averages over the time range, with totals for real and for backfill slots. The two " +
				"are never added together because they are the same GPUs.",
			Query: ask("allocation", "summary").by("category").where(chosen),
			View:  metrics(Override{"allocatedPercent", percentBar}),
		},
		{
			Title: "Allocation by device", Width: 24, Height: 11,
			Description: "The same averages for each GPU model, on primary slots.",
			Query:       ask("allocation", "summary").by("device").where(real(chosen)).withoutTotals(),
			View:        sortedBy(metrics(Override{"allocatedPercent", percentBar}, hidden("slots")), "Available (avg.)"),
		},
	}
}
