package dashboards

import (
	"slices"
	"strconv"

	"github.com/chtc/gpureports/pkg/query"
)

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

// getAGPU is for the people who submit jobs: which GPUs are free, how long they can be kept, and how long jobs wait.
func getAGPU() Dashboard {
	all := query.Filter{}
	long := ofLength(ask("backfillAvailability", "jobLength").by("device").
		of("finishPercent", "longestHours90", "longestHours75", "longestHours50", "bestCheckpointHours").where(all))
	return Dashboard{
		UID: "gpureports-get", File: "get-a-gpu", Title: "Get a GPU",
		Description: "For people who submit jobs: which GPUs are free, how long they stay free, and how long jobs wait",
		From:        "now-30d",
		Variables: []Variable{jobLength, {Name: "howto", Label: "Site's advice",
			Description: "A sentence about this site's submit commands, such as +WantBackfill = true"}},
		Rows: []Row{{Title: "What to ask for", Panels: []Panel{
			{
				Title: "How to ask", Width: 24, Height: 4, Description: "How to request GPUs in a submit file.",
				View: View{Type: "text", Options: object{"mode": "markdown", "content": howToAsk}},
			},
			panel("GPUs by device", 24, 14, "For each device: GPUs that no job holds in the newest snapshot, all GPUs, and "+
				"their memory; the share of backfill jobs of the chosen length that finish in one run; the longest jobs of which "+
				"90, 75 and 50% do, counted from their start; and how often longer ones should checkpoint. No value: too few "+
				"runs to tell, or no backfill on this device.",
				ask("allocation", "current").where(all).atMost(query.MaxRows),
				sortedBy(table(Override{freeNow, with(wholeBar, "noValue", "0")}, Override{"GPUs", width(70)},
					Override{"Memory", with(width(80), "unit", "suffix:GB")},
					Override{"finishPercent", with(percentBar, "displayName", "Jobs of $hours h that finish")},
					Override{"longestHours90", with(width(110), "displayName", "90% finish: jobs up to")},
					Override{"longestHours75", with(width(110), "displayName", "75% finish: jobs up to")},
					Override{"longestHours50", with(width(110), "displayName", "50% finish: jobs up to")},
					Override{"bestCheckpointHours", with(width(110), "displayName", "Save every")}), freeNow),
				[]Transformation{
					including("State", "regex", "^Free$").from("A"),
					grouped(object{"GPU": aggregated("count"), "Device": groupKey}).from("A"),
					organized(object{}, object{"Device": "device", "GPU (count)": freeNow}).from("A"),
					grouped(object{"GPU": aggregated("count"), "Memory": aggregated("max"), "Device": groupKey}).from("B"),
					organized(object{}, object{"Device": "device", "GPU (count)": "GPUs", "Memory (max)": "Memory"}).from("B"),
					joinedBy("device"),
					organized(object{}, object{"device": "Device"}, "Field", "slots", "jobHours", "Job length"),
				}...).and(ask("allocation", "current").where(all).atMost(query.MaxRows), long).points(2000),
			panel("Usual wait by GPU memory", 24, 7, "Hours after which half and 90% of the waits of jobs that asked for this "+
				"much memory are over (Kaplan–Meier), and the share of waits that took no longer than 90% did in the "+
				"7 days before: near 90% the usual wait can be relied on. A request for 40 GB is in the class <48GB. It needs "+
				"the collector's queue files; without them the table is empty.",
				ask("demand", "summary").by("gpuMemory").of("waits", "medianWaitHours", "p90WaitHours", "p90HeldPercent").
					where(all).withoutTotals(),
				saying("No job waited, or no poll of the queues", table(Override{"gpuMemory", atLeast(100)},
					Override{"medianWaitHours", notYet}, Override{"p90WaitHours", notYet}, Override{"p90HeldPercent", notYet}))),
			panel("Advice for backfill jobs", 24, 9, "For each device: how long backfill jobs can be, how often longer ones "+
				"should checkpoint, and the smallest class of GPU memory that most of its backfill jobs would have fitted, as "+
				"job ads tell it: ask for no more, and more devices fit. Frameworks that reserve all memory in advance look as "+
				"if they "+
				"needed it.",
				ofLength(ask("backfillAvailability", "advice").by("device").where(all)),
				table(Override{"device", width(190)}, Override{"advice", with(atLeast(500), "custom.wrapText", true)},
					hidden("jobHours"), hidden("runs"))),
		}}},
	}
}

// jobLength is the length of a job in hours, as the user of a dashboard knows it.
var jobLength = Variable{Name: "hours", Label: "Job length (h)", Description: "How long your job runs, in hours",
	Values: []string{"1", "2", "4", "6", "8", "12", "24"}, Single: true, Chosen: "12"}

// ofLength asks about jobs of the chosen length.
func ofLength(q Query) Query {
	q.JobHours = []any{"$hours"}
	return q
}

// notYet stands where fewer waits are over than a figure needs.
var notYet = object{"noValue": "–"}

const (
	freeNow = "Free now"

	howToAsk = "Request GPUs with `request_gpus = 1`, and the least memory that your job needs with " +
		"`gpus_minimum_memory = 40000` (MB, here 40 GB): the less it asks for, the more devices fit. " +
		"If the device that fits has GPUs free now, the job starts soon; otherwise see the usual wait. " +
		"A job that may be interrupted gets more GPUs on backfill: keep it shorter than the length up to which 90% finish, " +
		"or let it checkpoint. $howto"
)
