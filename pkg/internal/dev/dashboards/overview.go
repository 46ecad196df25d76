package dashboards

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

// lists of the pool's overview that links lead to.
const (
	gpuList        = "GPUs"
	newestSnapshot = "Newest snapshot"
)

func poolOverview() Dashboard {
	chosen := choiceOf(deviceVariables)
	idle := chosen
	idle.Idle = true
	return Dashboard{
		UID: "gpureports-pool", File: "pool-overview", Title: "GPU pool overview",
		Description: "Who holds the GPUs of the pool, what is free, and how recent the figures are",
		From:        "now-7d",
		Variables: append(slices.Clip(deviceVariables), Variable{Name: "state", Label: "State",
			Description: "States of the GPUs in the list below; figures and charts do not depend on it",
			Values:      []string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"}}),
		Annotations: []Annotation{gaps},
		Rows: []Row{
			poolNow(chosen),
			{Title: "Over time", Panels: []Panel{
				panel("Allocated % over time", 12, 8, "Share of the available GPUs that jobs hold on primary slots, by category. "+
					"The dashed line is the threshold of the alert rule.",
					ask("allocation", "timeseries").by("category").of("allocatedPercent").where(real(chosen)),
					alertsBelow(percent(ratios(ownershipLooks(fixed)...)), underused), byOwnership...),
				panel("GPUs held by jobs", 12, 8, "GPUs that jobs hold on primary slots, stacked by category.",
					ask("allocation", "timeseries").by("category").of("allocated").where(real(chosen)),
					areas(ownershipLooks(fixed)...), byOwnership...),
				panel("GPUs held by backfill jobs", 12, 10, "GPUs held by backfill jobs while their owners do not use them, "+
					"stacked by category. They are the same GPUs as those of the primary slots.",
					ask("allocation", "timeseries").by("category").of("allocated").where(onBackfill(chosen)),
					areas(ownershipLooks(dashed)...), byOwnership...),
				panel("Free GPUs by device over time", 12, 10, "GPUs that no job holds and on which jobs may start, stacked by "+
					"device.",
					ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
					areas(deviceColors()...), shortDevices...),
			}},
			{Title: "Averages over the time range", Collapsed: true, Panels: poolAverages(chosen)},
			{Title: "Users", Collapsed: true, Panels: []Panel{
				panel("GPU hours of the largest users", 24, 9, "GPU hours of the ten users with the most, and of all others "+
					"together, on all slots.",
					ask("userHours", "timeseries").by("user").where(chosen),
					linked(bars(otherUsers...), toUser.ofSeries())).points(60),
			}},
			{Title: "GPUs and machines", Collapsed: true, Panels: []Panel{
				panel("State over time", 24, 18, "What held each GPU, by device: a job of its owner or of open capacity "+
					"(Claimed), a backfill job, nothing (Free), or nothing because jobs are kept away (Prevented, Drained). With "+
					"more than 500 GPUs, each row stands for the GPUs of a device on a machine, and a light color for the state of "+
					"most of them. Blank: no snapshot. Select a row to open its machine.",
					ask("allocation", "stateTimeline").where(chosen),
					pagedStates(40, toMachine.ofSeries()), slices.Concat(statesOnly, withoutDomains)...),
				panel(gpuList, 24, 12, "GPUs in the newest snapshot whose state is chosen above: state, user "+
					"and job, and since when.",
					ask("allocation", "current").where(chosen),
					list(hidden("memoryGB"), hidden("category"), hidden("hours")), ofChosenStates...).last(lastDays),
				panel("Machines", 24, 10, "Owner, devices and use of each machine in the time range. An excluded machine is "+
					"listed with the reason and without figures.",
					ask("allocation", "machines").where(chosen),
					listOfMachines()),
				panel("Idle machines", 24, 10, "Machines on which no primary slot was claimed in the time range. Backfill jobs "+
					"may have used them.",
					ask("allocation", "machines").where(idle),
					listOfMachines(hidden("allocated"), hidden("allocatedPercent"))),
			}},
			{Title: "Freshness of the data", Collapsed: true, Panels: []Panel{
				panel("Freshness", 24, 5, "Age of the newest snapshot, coverage of the time range by snapshots, GPUs in the "+
					"newest snapshot and those missing from it since the day before, age of the newest job ad, and the share of "+
					"backfill runs explained by a job ad. The figures are for the whole pool, regardless of the filters above.",
					ask("allocation", "health"),
					stats("/.*/",
						Override{"snapshotAgeSeconds", object{"thresholds": levels("text", stale, vermilion)}},
						Override{"jobsLagSeconds", object{"thresholds": levels("text", jobsBehind, vermilion)}},
						Override{"linkRate", object{"thresholds": levels(vermilion, fewLinked, "text")}},
					)),
			}},
		},
	}
}

// lastDays is the time in which the newest snapshot is sought, independent of the time range of the dashboard. Over two
// days the shortest buckets are those of one slice.
const lastDays = "2d"

// newest is a title of panels that show the pool now. It says so where a time range ends earlier.
const newest = "Newest snapshot, whatever the time range (which ends ${__to:date:YYYY-MM-DD HH:mm})"

// poolNow shows the pool in its newest snapshot.
func poolNow(chosen query.Filter) Row {
	now := func(metrics ...string) Query {
		return ask("allocation", "timeseries").by().of(metrics...).where(real(chosen))
	}
	figure := func(title, description string, q Query, v View) Panel {
		return panel(title, 8, 3, description,
			q,
			v).points(finest).last(lastDays)
	}
	whole := func(metric string) View { return sparkline(stat("", Override{metric, object{"decimals": 0}})) }
	age := ask("allocation", "health").of("snapshotAgeSeconds")
	return Row{Title: newest, Panels: []Panel{
		figure("GPUs in service", "GPUs on primary slots that jobs hold or could hold.", now("available"),
			whole("available")),
		figure("Allocated GPUs (%)", "Share of the GPUs in service that jobs hold on primary slots. Orange below the "+
			"threshold of the alert rule.", now("allocatedPercent"), sparkline(stat("", Override{"allocatedPercent",
			object{"thresholds": levels(vermilion, underused, "text")}}))),
		figure("Free GPUs", "GPUs that no job holds, neither on a primary nor on a backfill slot, and on which "+
			"jobs may start.", now("free"), whole("free")),
		figure("GPUs out of service", "GPUs that are drained, and GPUs without a job on which none may start "+
			"(PreventJobsReason). A GPU can be both.", now("drained", "prevented"), stats("",
			Override{"drained", object{"displayName": "Drained", "decimals": 0}},
			Override{"prevented", object{"displayName": "Prevented", "decimals": 0}})),
		figure("GPUs on backfill", "GPUs that backfill jobs hold.",
			ask("allocation", "timeseries").by().of("allocated").where(onBackfill(chosen)), whole("allocated")),
		panel(newestSnapshot, 8, 3, "When the slice of the newest snapshot begins, and the snapshot's age. Orange when "+
			"three snapshots are missing, as in the alert rule.",
			now("available"),
			dated(stats("/^(From|Age)$/", Override{"time", object{"unit": "time:YYYY-MM-DD HH:mm", "displayName": "From"}},
				Override{"snapshotAgeSeconds", object{"displayName": "Age", "decimals": 1,
					"thresholds": levels("text", stale, vermilion)}}))).and(age).points(finest).last(lastDays),
		panel("Free GPUs by device", 7, 9, "GPUs that no job holds, neither on a primary nor on a backfill slot, and on "+
			"which jobs may start; the most first. Select a device to list its free GPUs.",
			ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
			table(Override{"device", object{"links": toFree.ofRows()}}, Override{"Free", wholeBar}),
			lastPoints("device", "Device", "Free")...).points(finest).last(lastDays),
		panel("Held now by user", 12, 9, "Who holds the GPUs: the GPUs of each model that the jobs of a user hold on "+
			"primary and on backfill slots; the most first. Select a user for everything about one.",
			ask("allocation", "current").where(chosen).atMost(query.MaxRows),
			sortedBy(table(Override{"User", linkedTo(toUser, 170)},
				Override{"Device", with(width(138), "mappings", shortDevice)}, Override{"State", slotsOfState},
				Override{"GPUs", width(75)}), "GPUs"),
			gpusBy("^(Claimed|Backfill)$", "GPUs", nil, "User", "Device", "State")...).last(lastDays),
		panel("Allocated share", 5, 9, "Share of the available GPUs of each category that jobs hold. A backfill GPU "+
			"is available only while no job of its owner holds it.",
			ask("allocation", "timeseries").by("category").of("allocatedPercent").where(chosen),
			barGauge(levels(blue))).points(finest).last(lastDays),
		panel("Free GPUs by machine", 8, 9, "Machines with free GPUs, the most first.",
			ask("allocation", "current").where(chosen).atMost(query.MaxRows),
			sortedBy(table(Override{"Machine", with(linkedTo(toMachine, 100), "mappings", shortMachine)},
				Override{"Device", with(width(135), "mappings", shortDevice)},
				Override{"Free", width(75)}),
				"Free"), gpusBy("^Free$", "Free", nil, "Machine", "Device")...).last(lastDays),
		panel("Out of service", 16, 9, "Drained GPUs, and GPUs on which no job may start (PreventJobsReason), in the "+
			"newest snapshot, and since when.",
			ask("allocation", "current").where(chosen).atMost(query.MaxRows),
			sortedBy(table(Override{"Machine", with(linkedTo(toMachine, 110), "mappings", shortMachine)},
				Override{"State", with(stateColors, "custom.filterable", false)}, Override{"Since", minutes},
				Override{"GPUs", width(75)}, Override{"Device", with(atLeast(110), "mappings", shortDevice)},
				Override{"Prevented by", atLeast(110)}), "GPUs"),
			gpusBy("^(Drained|Prevented)$", "GPUs", object{"Since": aggregated("min")}, "Machine",
				"Device", "State", "Prevented by")...).last(lastDays),
		panel("What changed since yesterday", 24, 7, "Over the last 24 hours: GPUs and machines that are new or gone, "+
			"drains that began or ended, and users who held no GPU in the 7 days before, with the number of GPUs; the latest "+
			"first.",
			ask("allocation", "changes").where(chosen),
			list(Override{"change", width(110)}, Override{"since", minutes}, Override{"gpus", width(70)})).last("24h"),
		panel("Largest evictions since yesterday", 24, 8, "The runs of backfill jobs that were evicted in the last 24 "+
			"hours and lost the most GPU hours since their last checkpoints.",
			ask("evictions", "events").where(chosen).atMost(query.MaxRows),
			table(Override{"Time", minutes}, Override{"Machine", with(linkedTo(toMachine, 100), "mappings", shortMachine)},
				Override{"User", linkedTo(toUser, 110)}, Override{"Lost GPU hours", with(oneDecimal, "custom.width", 85)}),
			largestFirst("Lost GPU hours"), Transformation{ID: "limit", Options: object{"limitField": 10}},
			Transformation{ID: "filterFieldsByName", Options: object{"include": object{
				"names": []string{"Time", "Machine", "User", "Lost GPU hours"}}}}).last("24h"),
	}}
}

// gpusBy counts the GPUs of a list that are in a state by columns, beside more aggregations.
func gpusBy(states, count string, more object, columns ...string) []Transformation {
	fields := with(more, "GPU", aggregated("count"))
	order := object{"GPU (count)": len(columns), "Since (min)": len(columns) + 1}
	for i, title := range columns {
		fields[title] = groupKey
		order[title] = i
	}
	return slices.Concat([]Transformation{including("State", "regex", states), grouped(fields),
		organized(order, object{"GPU (count)": count, "Since (min)": "Since"})}, noneIfEmpty)
}

// slotsOfState says of a GPU that a job holds on which of its slots.
var slotsOfState = object{"custom.width": 80, "displayName": "Slots", "mappings": []object{{"type": "value",
	"options": object{"Claimed": object{"text": "Primary"}}}}}

// toFree leads to the list of a device's free GPUs.
var toFree = Link{Title: "The free GPUs", UID: "gpureports-pool", Panel: gpuList, Variable: "device", Set: "state=Free"}

// finest asks for the shortest buckets: only the last one is shown.
const finest = 1000

var wholeBar = with(amountBar, "decimals", 0)

// ofChosenStates leaves out of a list the GPUs that are in other states.
var ofChosenStates = only("State", "regex", "^(${state:pipe})$")

func poolAverages(chosen query.Filter) []Panel {
	return []Panel{
		panel("GPUs out of service over time", 24, 7, "GPUs that are drained, and GPUs without a job on which none may "+
			"start (PreventJobsReason), on primary slots.",
			ask("allocation", "timeseries").by().of("drained", "prevented").where(real(chosen)),
			steps(state("drained", "Drained", drainedColor), state("prevented", "Prevented", preventedColor))),
		panel("Allocation by category", 24, 9, "Averages over the time range, with totals for primary and for backfill "+
			"slots. The two are never added together because they are the same GPUs.",
			ask("allocation", "summary").by("category").where(chosen),
			metrics(Override{"allocatedPercent", percentBar})),
		panel("Allocation by device", 24, 11, "The same averages for each GPU model, on primary slots.",
			ask("allocation", "summary").by("device").where(real(chosen)).withoutTotals(),
			sortedBy(metrics(Override{"allocatedPercent", percentBar}, hidden("slots")), "Available (avg.)")),
	}
}
