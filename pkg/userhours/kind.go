package userhours

import "github.com/chtc/gpureports/pkg/query"

// Kind describes the kind.
var Kind = query.Kind{
	Name: "userHours", Label: "User hours", Description: "GPU hours of each user",
	DefaultGroupBy: []string{"category"},
	Views: []query.View{
		query.TableView("Users beneath each group, with totals",
			[]string{"category", "device", "machine", "project"}, []string{"gpuHours", "percentOfTotal"}, query.UserFilters),
		query.SeriesView([]string{"user", "category", "device", "machine", "project"}, []string{"gpuHours"},
			query.UserFilters),
	},
	Columns: []query.Column{
		query.Metric("gpuHours", "GPU hours", query.GPUHours, 1, "GPUs held, over time"),
		query.Metric("percentOfTotal", "% of total", query.Percent, 1, "Share of the table's total"),
		query.Metric("userCount", "Users", query.Count, 0, "Number of users"),
	},
}
