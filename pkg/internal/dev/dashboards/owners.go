package dashboards

import "github.com/chtc/gpureports/pkg/query"

// owned is the name of an owner's GPUs: those of primary slots that could be allocated or were drained.
const owned = "Capacity"

// What owners' GPUs did, as series and columns.
const (
	ownUse = "Own use"
	given  = "Given"
)

var ownAndGiven = colors(map[string]string{ownUse: claimedColor, given: backfillColor})

// owners shows the figures of the report of a project (methodology section 5, GPU owners).
func owners() Dashboard {
	chosen := query.Filter{Projects: []string{"$project"}}
	devices, devicesGiven := ofOwner(chosen, "summary", "device")
	byMonth, byMonthGiven := ofOwner(chosen, "timeseries")
	return Dashboard{
		UID: "gpureports-owners", File: "owners", Title: "GPU owners",
		Description: "A project's machines: what they could do, what their owner used, and what backfill jobs of others got",
		From:        "now-30d",
		Variables: []Variable{{
			Name: "project", Label: "Project", Dimension: "project", Description: "The project with priority on the machines",
			Filter: query.Filter{Projects: []string{"!/^$/"}}, Single: true, // machines without a project have no owner here
		}},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Machines of $project", Panels: append(ownerFigures(chosen),
				panel("Use of the GPUs", 9, 9, "GPUs held on primary slots (own use) and on backfill slots (given to others), "+
					"stacked.",
					ask("allocation", "timeseries").by().of("allocated").where(real(chosen)).called(ownUse),
					areas(ownAndGiven...)).
					and(ask("allocation", "timeseries").by().of("allocated").where(onBackfill(chosen)).called(given)),
				panel("By device", 15, 9, "GPUs of each model on average: those that could be allocated or were drained, those "+
					"held on primary slots, and those held on backfill slots, with their shares of the first.",
					devices.withoutTotals(),
					table(append([]Override{{"Device", atLeast(170)}}, shareColumns...)...), sharesBy("Device", "Device")...).
					and(devicesGiven.withoutTotals()),
				panel("Given to others by user", 12, 11, "GPU hours of each user on the backfill slots of these machines, and "+
					"the share of all that were given.",
					ask("userHours", "summary").by().where(onBackfill(chosen)).withoutTotals(),
					usersOfGroups(), heldOnly...),
				panel("Own use by user", 12, 11, "GPU hours of each user on the primary slots of these machines, and the share "+
					"of all own use.",
					ask("userHours", "summary").by().where(real(chosen)).withoutTotals(),
					usersOfGroups(), heldOnly...),
			)},
			{Title: "By month, last 180 days", Panels: []Panel{
				panel("GPU hours by month", 9, 9, "GPU hours on primary slots (own use) and on backfill slots (given to others). "+
					"The first month is counted only within the last 180 days.",
					monthly(ask("userHours", "timeseries").by().where(real(chosen)).called(ownUse)),
					months(ownAndGiven...), joinedBy("time")).
					and(monthly(ask("userHours", "timeseries").by().where(onBackfill(chosen)).called(given))).last("180d"),
				panel("Shares by month", 15, 9, "GPUs of these machines on average in each month, as above, and the shares of "+
					"them that were used by the owner and given to others.",
					monthly(byMonth.called("{{metric}}")),
					table(append([]Override{{"Month", month}}, shareColumns...)...), sharesBy("time", "Month")...).
					and(monthly(byMonthGiven.called(given))).last("180d"),
			}},
			{Title: "Evictions", Collapsed: true, Panels: []Panel{
				lostTo("Lost by backfill jobs", "What evictions on these machines cost the users of their backfill slots since "+
					"their jobs' last checkpoints, by the user whose job took the GPUs over.", columns, chosen, "takenOverBy", "user"),
			}},
			{Title: "Machines", Collapsed: true, Panels: []Panel{
				panel("Machines", 24, 10, "Devices and use of each machine that gave the project priority in the time range.",
					ask("allocation", "machines").where(chosen),
					listOfMachines(hidden("projects"))),
			}},
		},
	}
}

// called gives the query's series a name.
func (q Query) called(name string) Query {
	q.Legend = name
	return q
}

// monthly asks for the months of the calendar.
func monthly(q Query) Query {
	q.Bucket = "1M"
	return q
}

var month = object{"custom.width": 90, "unit": "time:YYYY-MM"}

// months stacks a table's amounts of each month. A month that began before the time range has its bar, too.
func months(overrides ...Override) View {
	return View{
		Type: "barchart",
		Options: object{
			"xField": "time", "orientation": "vertical", "stacking": "normal", "showValue": "never", "barWidth": 0.8,
			"groupWidth": 0.7, "xTickLabelRotation": 0, "xTickLabelSpacing": 0, "fullHighlight": false,
			"legend":  object{"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []string{"sum"}},
			"tooltip": object{"mode": "multi", "sort": "none"},
		},
		Defaults: object{
			"custom": object{"lineWidth": 0, "fillOpacity": 80}, "min": 0, "decimals": 0, "color": byName,
		},
		Overrides: append([]Override{{"time", object{"unit": "time:YYYY-MM"}}}, overrides...),
	}
}

// shareColumns are the columns that sharesBy makes.
var shareColumns = []Override{
	{owned, oneDecimal}, {ownUse, oneDecimal}, {given, oneDecimal},
	{ownUse + " %", sharePercent}, {given + " %", sharePercent},
}

var sharePercent = object{"unit": "percent", "decimals": 1}

// sharesBy joins the GPUs of primary slots (query A: available, drained and allocated) and those held on backfill slots
// (query B: allocated) by a column, which gets a title, and relates the GPUs held to the possible ones.
func sharesBy(column, title string) []Transformation {
	all := shares(joinedBy(column), column)
	all[len(all)-1].Options["renameByName"] = object{column: title}
	return all
}

// sharesOfAll does so for answers of one row.
func sharesOfAll() []Transformation {
	return shares(Transformation{ID: "concatenate", Options: object{"frameNameMode": "drop"}})
}

func shares(join Transformation, columns ...string) []Transformation {
	order := object{}
	for i, name := range append(columns, owned, ownUse, ownUse+" %", given, given+" %") {
		order[name] = i
	}
	return []Transformation{
		{ID: "organize", From: "A", Options: object{
			"excludeByName": object{"Slots": true}, "renameByName": object{"Allocated (avg.)": ownUse},
		}},
		{ID: "organize", From: "B", Options: object{
			"excludeByName": object{"Slots": true},
			"renameByName":  object{"Allocated (avg.)": heldOnBackfill, given: heldOnBackfill},
		}},
		join,
		nothingIsZero(heldOnBackfill, given),
		calculated(owned, "Available (avg.)", "+", "Drained (avg.)"),
		calculated(ownPart, ownUse, "/", owned),
		calculated(ownUse+" %", ownPart, "*", "100"),
		calculated(givenPart, given, "/", owned),
		calculated(given+" %", givenPart, "*", "100"),
		{ID: "organize", Options: object{
			"excludeByName": object{"Available (avg.)": true, "Drained (avg.)": true, ownPart: true, givenPart: true,
				heldOnBackfill: true},
			"indexByName": order,
		}},
	}
}

// Columns that only lead to others.
const (
	heldOnBackfill = "Held on backfill"
	ownPart        = "Own part"
	givenPart      = "Given part"
)

// nothingIsZero makes a column of a column, with 0 if that has no value.
func nothingIsZero(from, name string) Transformation {
	return Transformation{ID: "calculateField", Options: object{
		"mode": "reduceRow", "alias": name, "replaceFields": false,
		"reduce": object{"reducer": "sum", "include": []string{from}},
	}}
}

// ofOwner are the queries that shares relates.
func ofOwner(chosen query.Filter, view string, groupings ...string) (a, b Query) {
	return ask("allocation", view).by(groupings...).of("available", "drained", "allocated").where(real(chosen)),
		ask("allocation", view).by(groupings...).of("allocated").where(onBackfill(chosen))
}

// ownerFigures sum up the time range, hours and evictions beside those of the period before.
func ownerFigures(chosen query.Filter) []Panel {
	a, b := ofOwner(chosen, "summary")
	gpuHours := with(wholeHours, "displayName", "GPU hours")
	evicted := compared("Evicted", "Evictions of backfill jobs on these machines: how often the owner got GPUs back.",
		"evictions", "evictions", chosen, nil)
	evicted.Height = 5
	return []Panel{
		panel("Shares", 8, 3, "Shares of the GPUs that could be allocated or were drained: those that the owner used on "+
			"primary slots, and those that others got on backfill slots.",
			a.withoutTotals(),
			stats("/^("+ownUse+"|"+given+") %$/", shareFigures...), sharesOfAll()...).and(b.withoutTotals()),
		compared("Own use", "GPU hours held on primary slots.", "userHours", "gpuHours", real(chosen), gpuHours),
		compared("Given", "GPU hours held by others, on backfill slots.", "userHours", "gpuHours", onBackfill(chosen),
			gpuHours),
		evicted,
		panel(guarantee, 16, 5, "What did lending cost? The waits of the project's jobs by what its own GPUs did when they "+
			"began: how many started within 10 minutes, and how many on own GPUs. It needs the collector's queue files, and "+
			"job ads for short waits.",
			ask("demand", "summary").by("ownGpus").of("waits", "withinPercent", "startedOnOwnPercent").
				where(query.Filter{Projects: chosen.Projects, OwnGPUs: []string{"free", "backfill"}}).withoutTotals(),
			saying("No queue files, or no job waited", table(Override{"ownGpus", atLeast(140)},
				Override{"withinPercent", with(width(120), "displayName", "Started within 10 min")},
				Override{"startedOnOwnPercent", with(width(120), "displayName", "Started on own GPUs")}))),
	}
}

// guarantee is the panel that the alert rule leads to.
const guarantee = "What lending cost"

// shareFigures are the units of the columns that sharesOfAll makes.
var shareFigures = []Override{
	{ownUse + " %", sharePercent}, {given + " %", sharePercent},
}
