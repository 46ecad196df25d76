package dashboards

import "strconv"

func users() Dashboard {
	chosen := choiceOf(userVariables)
	return Dashboard{
		UID: "gpureports-users", File: "users", Title: "GPU users",
		Description: "GPU hours by user, slot type, device and project, and how often the backfill jobs of" +
			" users are evicted",
		From:        "now-7d",
		Variables:   userVariables,
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{Title: "Users", Panels: []Panel{
				panel("Total", 5, 9, "GPU hours held by the chosen users in the time range, counted only while snapshots cover "+
					"it, in whole slices, and the number of these users.",
					ask("userHours", "summary").by().where(chosen),
					upright(stats("/^(GPU hours|Users)$/", Override{"gpuHours", wholeHours}))), // the last row is the total
				panel("GPU hours by user", 19, 9, "GPU hours of the ten users with the most, and of all others together. A bar "+
					"lacks the hours of a missing snapshot, which the table below includes.",
					ask("userHours", "timeseries").by("user").where(chosen),
					linked(bars(otherUsers...), toUser.ofSeries())).points(60),
				panel("Users and their GPU hours", 24, 14, "GPU hours of each user, their share of all GPU hours, the share on "+
					"backfill slots, and the evictions per 100 GPU hours on backfill slots.",
					ask("userHours", "summary").by().where(chosen).withoutTotals(),
					sortedBy(table(
						Override{"GPU hours", amountBar},
						Override{"% of total", width(110)},
						// 0 of 0 hours has no percentage
						Override{"Backfill %", object{"unit": "percent", "decimals": 1, "custom.width": 110,
							"mappings": []object{{"type": "special", "options": object{"match": "nan",
								"result": object{"text": "–"}}}}}},
						Override{"Evictions per 100 GPU hours", width(130)},
					), "GPU hours"), sharesOfUsers...).and(ask("userHours", "summary").by().where(onBackfill(chosen)).withoutTotals(),
					ask("evictions", "summary").by("user").of("ratePer100GpuHours").where(chosen).withoutTotals()),
			}},
			{Title: "By slot type", Collapsed: true, Panels: []Panel{
				panel("GPU hours by slot type", 24, 8, "GPU hours of the chosen users, by the category of the slots they held.",
					ask("userHours", "timeseries").by("category").where(chosen),
					bars(categoryLooks()...)).points(60),
				panel("GPU hours by slot type and user", 24, 12, "GPU hours of each user on each slot type, and their share of "+
					"all GPU hours.",
					ask("userHours", "summary").by("category").where(chosen).withoutTotals(),
					usersOfGroups(), heldOnly...),
			}},
			{Title: "By device", Collapsed: true, Panels: []Panel{
				panel("GPU hours by device", 24, 8, "GPU hours of the chosen users, by GPU model.",
					ask("userHours", "timeseries").by("device").where(chosen),
					bars(deviceColors()...), shortDevices...).points(60),
				panel("GPU hours by device and user", 24, 14, "GPU hours of each user on each GPU model, and their share of all "+
					"GPU hours.",
					ask("userHours", "summary").by("device").where(chosen).withoutTotals(),
					usersOfGroups(), heldOnly...),
			}},
			{Title: "By project", Collapsed: true, Panels: []Panel{
				panel("GPU hours by project", 24, 8, "GPU hours of the chosen users, by the projects with priority on the machine.",
					ask("userHours", "timeseries").by("project").where(chosen),
					bars()).points(60),
				panel("GPU hours by project and user", 24, 12, "GPU hours of each user on the machines of each list of projects, "+
					"and their share of all GPU hours.",
					ask("userHours", "summary").by("project").where(chosen).withoutTotals(),
					usersOfGroups(), heldOnly...),
			}},
			{Title: "By project of the job", Collapsed: true, Panels: []Panel{
				panel("GPU hours by project of the job", 24, 8, "GPU hours of the chosen users, by the projects of the jobs that "+
					"held the GPUs, from the collector's queue files. Without these files all projects are unknown.",
					ask("userHours", "timeseries").by("jobProject").where(chosen),
					bars()).points(60),
				panel("GPU hours by project of the job and user", 24, 12,
					"GPU hours of each user for each project, their share of "+
						"all GPU hours, and the share whose project is that of their own job in the queue files: that of the others is "+
						"known by their user, or not at all.",
					ask("userHours", "summary").by("jobProject").where(chosen).withoutTotals(),
					usersOfGroups(), heldOnly...),
			}},
			{Title: "Held GPUs and evictions", Collapsed: true, Panels: []Panel{
				panel("GPUs held now", 24, 10, "GPUs held by jobs of the chosen users in the newest snapshot, whatever the time "+
					"range.",
					ask("allocation", "current").where(chosen),
					list(hidden("memoryGB"), hidden("category"), hidden("hours")), heldOnly...).last(lastDays),
				panel("Backfill runs and evictions by user", 24, 10, "Outcomes of the users' runs on backfill slots, evictions "+
					"per 100 GPU hours, and the GPU hours lost since the last checkpoint.",
					ask("evictions", "summary").by("user").
						of("runs", "evictions", "yielded", "completed", "ratePer100GpuHours", "medianHoursToEviction",
							"checkpointedPercent", "evictedGpuHours", "lostGpuHours", "lostPercent").
						where(chosen).withoutTotals(),
					sortedBy(metrics(Override{"runs", width(65)}, Override{"yielded", width(70)}, Override{"lostPercent", width(70)}),
						"Lost GPU hours")),
				lostTo("Lost to whom", "GPU hours that evictions cost the chosen users since their jobs' last checkpoints, by "+
					"the user whose job took the GPUs over.", columns, chosen, "user", "takenOverBy"),
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
	joinedBy("User"),
	including("User", "regex", "."), // not the row of all users
	calculated("Share on backfill", "On backfill", "/", "GPU hours"),
	calculated("Backfill %", "Share on backfill", "*", "100"),
	{ID: "organize", Options: object{
		"excludeByName": object{"On backfill": true, "Share on backfill": true},
		"indexByName": object{"User": 0, "GPU hours": 1, "% of total": 2, "Backfill %": 3,
			"Evictions per 100 GPU hours": 4},
	}},
}

// calculated makes a column of two operands, each a column or a number.
func calculated(name, left, operator, right string) Transformation {
	operand := func(text string) object {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return object{"fixed": text}
		}
		return object{"matcher": object{"id": "byName", "options": text}}
	}
	return Transformation{ID: "calculateField", Options: object{
		"mode": "binary", "alias": name, "replaceFields": false,
		"binary": object{"left": operand(left), "operator": operator, "right": operand(right)},
	}}
}

// heldOnly leaves out what no user holds.
var heldOnly = only("User", "regex", ".")

// upright stacks stats on top of each other.
func upright(v View) View {
	v.Options["orientation"] = "horizontal"
	return v
}
