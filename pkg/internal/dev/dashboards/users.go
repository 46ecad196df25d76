package dashboards

import "strconv"

func users() Dashboard {
	chosen := chosenOfUsers
	return Dashboard{
		UID: "gpureports-users", Title: "GPU users",
		Description: "GPU hours by user, slot type, device and project, and how often the backfill jobs of" +
			" users are evicted",
		From:        "now-7d",
		Variables:   userVariables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Users", Panels: []Panel{
				{
					Title: "Total", Width: 4, Height: 9,
					Description: "GPU hours held by the chosen users in the time range, counted only while snapshots " +
						"cover it, and the number of these users.",
					Query: ask("userHours", "summary").by().where(chosen),
					View:  upright(stats("/^(GPU hours|Users)$/", Override{"gpuHours", wholeHours})), // the last row is the total
				},
				{
					Title: "GPU hours by user", Width: 20, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours of the ten users with the most, and of all others together. A bar lacks the hours " +
						"of a missing snapshot, which the table below includes.",
					Query: ask("userHours", "timeseries").by("user").where(chosen),
					View:  linked(bars(otherUsers...), toUser.ofSeries()),
				},
				{
					Title: "Users and their GPU hours", Width: 24, Height: 14,
					Description: "GPU hours of each user, their share of all GPU hours, the share on backfill slots, " +
						"and the evictions per 100 GPU hours on backfill slots.",
					Query: ask("userHours", "summary").by().where(chosen).withoutTotals(),
					More: []Query{
						ask("userHours", "summary").by().where(onBackfill(chosen)).withoutTotals(),
						ask("evictions", "summary").by("user").of("ratePer100GpuHours").where(chosen).withoutTotals(),
					},
					View: sortedBy(table(
						Override{"GPU hours", amountBar},
						Override{"% of total", width(110)},
						// 0 of 0 hours has no percentage
						Override{"Backfill %", object{"unit": "percent", "decimals": 1, "custom.width": 110,
							"mappings": []object{{"type": "special", "options": object{"match": "nan",
								"result": object{"text": "–"}}}}}},
						Override{"Evictions per 100 GPU hours", width(130)},
					), "GPU hours"),
					Transformations: sharesOfUsers,
				},
			}},
			{Title: "By slot type", Collapsed: true, Panels: []Panel{
				{
					Title: "GPU hours by slot type", Width: 24, Height: 8, MaxDataPoints: 60,
					Description: "GPU hours of the chosen users, by the category of the slots they held.",
					Query:       ask("userHours", "timeseries").by("category").where(chosen),
					View:        bars(categoryLooks()...),
				},
				{
					Title: "GPU hours by slot type and user", Width: 24, Height: 12,
					Description:     "GPU hours of each user on each slot type, and their share of all GPU hours.",
					Query:           ask("userHours", "summary").by("category").where(chosen).withoutTotals(),
					View:            usersOfGroups(),
					Transformations: heldOnly,
				},
			}},
			{Title: "By device", Collapsed: true, Panels: []Panel{
				{
					Title: "GPU hours by device", Width: 24, Height: 8, MaxDataPoints: 60,
					Description:     "GPU hours of the chosen users, by GPU model.",
					Query:           ask("userHours", "timeseries").by("device").where(chosen),
					View:            bars(deviceColors()...),
					Transformations: shortDevices,
				},
				{
					Title: "GPU hours by device and user", Width: 24, Height: 14,
					Description:     "GPU hours of each user on each GPU model, and their share of all GPU hours.",
					Query:           ask("userHours", "summary").by("device").where(chosen).withoutTotals(),
					View:            usersOfGroups(),
					Transformations: heldOnly,
				},
			}},
			{Title: "By project", Collapsed: true, Panels: []Panel{
				{
					Title: "GPU hours by project", Width: 24, Height: 8, MaxDataPoints: 60,
					Description: "GPU hours of the chosen users, by the projects with priority on the machine.",
					Query:       ask("userHours", "timeseries").by("project").where(chosen),
					View:        bars(),
				},
				{
					Title: "GPU hours by project and user", Width: 24, Height: 12,
					Description: "GPU hours of each user on the machines of each list of projects, and their share of " +
						"all GPU hours.",
					Query:           ask("userHours", "summary").by("project").where(chosen).withoutTotals(),
					View:            usersOfGroups(),
					Transformations: heldOnly,
				},
			}},
			{Title: "Held GPUs and evictions", Collapsed: true, Panels: []Panel{
				{
					Title: "GPUs held at the end of the time range", Width: 24, Height: 10,
					Description:     "GPUs held by jobs of the chosen users in the newest snapshot of the time range.",
					Query:           ask("allocation", "current").where(chosen),
					View:            list(hidden("memoryGB"), hidden("category"), hidden("hours")),
					Transformations: heldOnly,
				},
				{
					Title: "Backfill runs and evictions by user", Width: 24, Height: 10,
					Description: "Outcomes of the users' runs on backfill slots, evictions per 100 GPU hours, and the " +
						"GPU hours lost since the last checkpoint.",
					Query: ask("evictions", "summary").by("user").
						of("runs", "evictions", "yielded", "completed", "ratePer100GpuHours", "medianHoursToEviction",
							"checkpointedPercent", "evictedGpuHours", "lostGpuHours", "lostPercent").
						where(chosen).withoutTotals(),
					View: sortedBy(metrics(), "Lost GPU hours"),
				},
				lostTo("Lost to whom", "GPU hours that evictions cost the chosen users since their jobs' last checkpoints, by "+
					"the user whose job took the GPUs over.", chosen, "user", "takenOverBy"),
			}},
		},
	}
}

// sharesOfUsers joins the hours of users, those on backfill slots, and the rate of evictions.
var sharesOfUsers = []Transformation{
	{ID: "organize", From: "A", Options: object{"excludeByName": object{"Users": true}}},
	{ID: "organize", From: "B", Options: object{
		"excludeByName": object{"Users": true, "% of total": true}, "renameByName": object{"GPU hours": "On backfill"},
	}},
	{ID: "joinByField", Options: object{"byField": "User", "mode": "outer"}},
	including("User", "regex", "."), // not the row of all users
	calculated("Share on backfill", "On backfill", "/", "GPU hours"),
	calculated("Backfill %", "Share on backfill", "*", "100"),
	{ID: "organize", Options: object{
		"excludeByName": object{"On backfill": true, "Share on backfill": true},
		"indexByName": object{"User": 0, "GPU hours": 1, "% of total": 2, "Backfill %": 3,
			"Evictions per 100 GPU hours": 4},
	}},
}

// calculated makes a column of a column and another one, or a number.
func calculated(name, left, operator, right string) Transformation {
	operand := object{"matcher": object{"id": "byName", "options": right}}
	if _, err := strconv.ParseFloat(right, 64); err == nil {
		operand = object{"fixed": right}
	}
	return Transformation{ID: "calculateField", Options: object{
		"mode": "binary", "alias": name, "replaceFields": false,
		"binary": object{"left": object{"matcher": object{"id": "byName", "options": left}}, "operator": operator,
			"right": operand},
	}}
}

// heldOnly leaves out what no user holds.
var heldOnly = []Transformation{including("User", "regex", ".")}

// upright stacks stats on top of each other.
func upright(v View) View {
	v.Options["orientation"] = "horizontal"
	return v
}
