package dashboards

import "github.com/chtc/gpureports/pkg/query"

func users() Dashboard {
	chosen := query.Filter{Categories: []string{"$category"}, Devices: []string{"$device"}, Projects: []string{"$project"}, Users: []string{"$user"}}
	h200 := chosen
	h200.Devices = []string{`/\bH200\b/`}
	backfillOnly := onBackfill(chosen)
	return Dashboard{
		UID: "gpureports-users", Title: "GPU users",
		Description: "GPU hours by user, slot type, device and project",
		From:        "now-7d",
		Variables: []Variable{
			{Name: "category", Label: "Slot type", Dimension: "category", Description: "Categories of slots"},
			{Name: "device", Label: "Device", Dimension: "device", Description: "GPU models", Filter: query.Filter{Categories: []string{"$category"}}},
			{Name: "project", Label: "Project", Dimension: "project", Description: "Projects that machines are prioritized for", Filter: query.Filter{Categories: []string{"$category"}, Devices: []string{"$device"}}},
			{Name: "user", Label: "User", Dimension: "user", Description: "Users who held a GPU in the time range", Filter: query.Filter{Categories: []string{"$category"}, Devices: []string{"$device"}, Projects: []string{"$project"}}},
		},
		Annotations: []Annotation{gaps},
		Rows: []Row{
			{"GPU hours", []Panel{
				{
					Title: "Total", Width: 4, Height: 9,
					Description: "GPU hours that the chosen users held over the time range, counted only while snapshots cover it, and how many users that were.",
					Query:       ask("userHours", "summary").by().where(chosen),
					View:        upright(stats("/^(GPU hours|Users)$/")), // the last row is the total
				},
				{
					Title: "GPU hours by user", Width: 10, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours of the ten users with the most, and of all others together.",
					Query:       ask("userHours", "timeseries").by("user").where(chosen),
					View:        linked(bars(others), seriesLink("user", "gpureports-users", "Only this user")),
				},
				{
					Title: "GPU hours by slot type", Width: 10, Height: 9, MaxDataPoints: 60,
					Description: "GPU hours of the chosen users, by the category of the slots that they held.",
					Query:       ask("userHours", "timeseries").by("category").where(chosen),
					View:        bars(categoryColors...),
				},
			}},
			{"By slot type and user", []Panel{
				{
					Title: "GPU hours by slot type and user", Width: 12, Height: 12,
					Description: "Each slot type with its hours and number of users; its users beneath, those with the most hours first.",
					Query:       ask("userHours", "summary").by("category").where(chosen),
					View:        usage(),
				},
				{
					Title: "Backfill usage by slot type and user", Width: 12, Height: 12,
					Description: "The same for backfill slots alone; percentages are of the backfill hours.",
					Query:       ask("userHours", "summary").by("category").where(backfillOnly),
					View:        usage(),
				},
				{
					Title: "H200 usage by slot type and user", Width: 12, Height: 12,
					Description: "The same for H200 GPUs of all variants, whatever device is chosen above; percentages are of the H200 hours.",
					Query:       ask("userHours", "summary").by("category").where(h200),
					View:        usage(),
				},
				{
					Title: "GPU hours by device and user", Width: 12, Height: 12,
					Description: "Each GPU model with its hours and number of users; its users beneath, those with the most hours first.",
					Query:       ask("userHours", "summary").by("device").where(chosen),
					View:        usage(),
				},
			}},
			{"By device and project over time", []Panel{
				{
					Title: "GPU hours by device", Width: 12, Height: 8, MaxDataPoints: 60,
					Description:     "GPU hours of the chosen users, by GPU model.",
					Query:           ask("userHours", "timeseries").by("device").where(chosen),
					View:            bars(),
					Transformations: shortDevices,
				},
				{
					Title: "GPU hours by project", Width: 12, Height: 8, MaxDataPoints: 60,
					Description: "GPU hours of the chosen users, by the projects that the machine was prioritized for.",
					Query:       ask("userHours", "timeseries").by("project").where(chosen),
					View:        bars(),
				},
				{
					Title: "GPU hours by project and user", Width: 24, Height: 12,
					Description: "Each list of prioritized projects with its hours and number of users; its users beneath.",
					Query:       ask("userHours", "summary").by("project").where(chosen),
					View:        usage(),
				},
			}},
			{"What the users meet", []Panel{
				{
					Title: "GPUs held at the end of the time range", Width: 24, Height: 9,
					Description:     "GPUs that jobs of the chosen users hold in the newest snapshot.",
					Query:           ask("allocation", "current").where(chosen),
					View:            list(hidden("memoryGB")),
					Transformations: heldOnly,
				},
				{
					Title: "Backfill runs and evictions by user", Width: 24, Height: 10,
					Description: "What became of the users' runs on backfill slots, how often they were evicted per 100 GPU hours, and what that cost.",
					Query:       ask("evictions", "summary").by("user").of("runs", "evictions", "completed", "ratePer100GpuHours", "evictedPercent", "medianHoursToEviction", "gpuHours", "lostGpuHours", "lostPercent").where(chosen),
					View:        metrics(),
				},
			}},
		},
	}
}

// heldOnly leaves out what no user holds.
var heldOnly = []Transformation{{"filterByValue", object{"type": "include", "match": "any", "filters": []object{
	{"fieldName": "User", "config": object{"id": "regex", "options": object{"value": "."}}},
}}}}

// upright stacks stats on top of each other.
func upright(v View) View {
	v.Options["orientation"] = "horizontal"
	return v
}
