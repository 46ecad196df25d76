package dashboards

import "github.com/chtc/gpureports/pkg/query"

func poolOverview() Dashboard {
	chosen := query.Filter{Devices: []string{"$device"}, Ownerships: []string{"$ownership"}}
	idle := chosen
	idle.Idle = true
	return Dashboard{
		UID: "gpureports-pool", Title: "GPU pool overview",
		Description: "Who holds the pool's GPUs, what is free, and whether the figures are fresh",
		From:        "now-7d",
		Variables:   []Variable{ownershipVariable, deviceVariable},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{"Now", []Panel{
				{
					Title: "Allocated % by category", Width: 9, Height: 11, MaxDataPoints: 1000,
					Description: "Of the GPUs that could be allocated in each category, the share that jobs hold, at the end of the time range. A backfill GPU counts as available only while no owner's job holds it.",
					Query:       ask("allocation", "timeseries").by("category").of("allocatedPercent").where(chosen),
					View:        gaugeOfPercent("top"), // the names of categories are long
				},
				{
					Title: "Free GPUs by device", Width: 8, Height: 11, MaxDataPoints: 1000,
					Description:     "GPUs that no job holds, neither on a primary nor on a backfill slot, and on which jobs may start, at the end of the time range.",
					Query:           ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
					View:            barGauge(nil, Override{"free", object{"decimals": 0, "links": seriesLink("device", "gpureports-backfill", "Backfill on this device")}}),
					Transformations: shortDevices,
				},
				{
					Title: "Freshness", Width: 7, Height: 11,
					Description: "How old the newest snapshot is, how much of the time range snapshots cover, how many GPUs the newest snapshot has and how many of the day before it lacks, how old the newest job ad is, and how many backfill runs a job ad explains. They are the whole pool's, whatever is chosen above.",
					Query:       ask("allocation", "health"),
					View: stats("/.*/",
						Override{"snapshotAgeSeconds", object{"thresholds": levels("green", 2700, "orange", 7200, "red")}},
						Override{"coveragePercent", object{"thresholds": levels("red", 80, "orange", 95, "green")}},
						Override{"gpusLost", object{"thresholds": levels("green", 1, "orange")}},
						Override{"jobsLagSeconds", object{"thresholds": levels("green", 7200, "orange", 21600, "red")}},
						Override{"linkRate", object{"thresholds": levels("red", 50, "orange", 80, "green")}},
					),
				},
			}},
			{"Over time", []Panel{
				{
					Title: "Allocated % over time", Width: 12, Height: 9,
					Description: "The share of available GPUs that jobs hold, for each category.",
					Query:       ask("allocation", "timeseries").by("category").of("allocatedPercent").where(chosen),
					View:        percentLines(categoryColors...),
				},
				{
					Title: "GPUs held by jobs", Width: 12, Height: 9,
					Description: "GPUs that jobs hold, stacked by category: a GPU is held in at most one category at a time.",
					Query:       ask("allocation", "timeseries").by("category").of("allocated").where(chosen),
					View:        areas(categoryColors...),
				},
				{
					Title: "Free GPUs by device over time", Width: 12, Height: 8,
					Description:     "GPUs that no job holds and on which jobs may start, stacked by device.",
					Query:           ask("allocation", "timeseries").by("device").of("free").where(real(chosen)),
					View:            areas(),
					Transformations: shortDevices,
				},
				{
					Title: "GPUs out of service", Width: 12, Height: 8,
					Description: "GPUs that are drained, and GPUs without a job on which none may start (PreventJobsReason), on primary slots.",
					Query:       ask("allocation", "timeseries").by().of("drained", "prevented").where(real(chosen)),
					View:        steps(state("drained", "Drained", "orange"), state("prevented", "Prevented", "red")),
				},
				{
					Title: "Allocation by category", Width: 24, Height: 10,
					Description: "Averages over the time range, with totals of real and of backfill slots, which are never added together: they are the same GPUs.",
					Query:       ask("allocation", "summary").by("category").where(chosen),
					View:        metrics(Override{"allocatedPercent", percentBar}),
				},
				{
					Title: "Allocation by device", Width: 24, Height: 11,
					Description: "The same averages for each GPU model on primary slots.",
					Query:       ask("allocation", "summary").by("device").where(real(chosen)),
					View:        metrics(Override{"allocatedPercent", percentBar}, hidden("slots")),
				},
			}},
			{"Who uses what", []Panel{
				{
					Title: "GPU hours of the largest users", Width: 12, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours of the ten users with the most, and of all others together, on all slots.",
					Query:       ask("userHours", "timeseries").by("user").where(chosen),
					View:        linked(bars(others), seriesLink("user", "gpureports-users", "GPU hours of this user")),
				},
				{
					Title: "GPU hours by category and user", Width: 12, Height: 9,
					Description: "Each category with its number of users, and its users beneath by GPU hours.",
					Query:       ask("userHours", "summary").by("category").where(chosen),
					View:        usage(),
				},
				{
					Title: "GPUs at the end of the time range", Width: 24, Height: 10,
					Description: "Every GPU in the newest snapshot with its state, the user and job that hold it, and since when.",
					Query:       ask("allocation", "current").where(chosen),
					View:        list(hidden("memoryGB")),
				},
			}},
			{"Machines", []Panel{
				{
					Title: "Machines", Width: 24, Height: 10,
					Description: "Each machine's owner, devices and use over the time range. An excluded machine has its reason and no figures.",
					Query:       ask("allocation", "machines").where(chosen),
					View:        list(),
				},
				{
					Title: "Idle machines", Width: 24, Height: 10,
					Description: "Machines on which no primary slot was claimed in the time range; backfill jobs may have used them.",
					Query:       ask("allocation", "machines").where(idle),
					View:        list(hidden("allocated"), hidden("allocatedPercent")),
				},
			}},
		},
	}
}

// hidden takes a column out of a table.
func hidden(name string) Override { return Override{name, object{"custom.hideFrom.viz": true}} }

// state gives series of a metric a state's name and colour.
func state(metric, name, color string) Override {
	return Override{metric, object{"displayName": name, "color": object{"mode": "fixed", "fixedColor": color}}}
}

// shortDevices leaves out of the names of devices what nearly all have, and that they are on primary slots.
var shortDevices = []Transformation{{"renameByRegex", object{"regex": `^(?:NVIDIA )?(?:GeForce )?(.*?)(?: · Real)?$`, "renamePattern": "$1"}}}

// gaugeOfPercent warns where little is in use. Names are at the left of the bars or on top.
func gaugeOfPercent(names string) View {
	v := barGauge(levels("red", 30, "orange", 60, "green"))
	v.Defaults["max"] = 100
	v.Options["namePlacement"] = names
	return v
}

// percentLines draws percentages on the full scale.
func percentLines(overrides ...Override) View {
	v := lines(overrides...)
	v.Defaults["max"] = 100
	return v
}

// linked gives all series of a view links.
func linked(v View, links []object) View {
	v.Defaults["links"] = links
	return v
}
