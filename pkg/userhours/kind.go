package userhours

import (
	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/query"
)

var metrics = aggregate.Metrics[line]{
	aggregate.Define("gpuHours", "GPU hours", query.GPUHours, 1, "GPUs held, over time",
		func(l *line) float64 { return l.hours }),
	aggregate.Define("percentOfTotal", "% of total", query.Percent, 1, "Share of the table's total",
		func(l *line) float64 { return aggregate.Percent(l.hours, l.total) }),
	aggregate.Define("userCount", "Users", query.Count, 0, "Number of users",
		func(l *line) float64 { return l.userCount }),
}

// Kind describes the kind.
var Kind = query.Kind{
	Name: "userHours", Label: "User hours", Description: "GPU hours of each user",
	DefaultGroupBy: []string{"category"},
	Views: []query.View{
		query.TableView("Users under each group, with totals",
			query.By("category", "device", "memory", "tier", "machine", "project"),
			[]string{"gpuHours", "percentOfTotal"}, query.UserFilters),
		query.SeriesView(query.By("user", "category", "device", "memory", "tier", "machine", "project"), []string{"gpuHours"},
			query.UserFilters),
	},
	Columns: metrics.Columns(),
}
