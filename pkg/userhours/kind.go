package userhours

import (
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/query"
)

var metrics = aggregate.Metrics[line]{
	aggregate.Define("gpuHours", "GPU hours", query.GPUHours, 1, "GPUs held, over time",
		func(l *line) float64 { return l.hours }),
	aggregate.Define("percentOfTotal", "% of total", query.Percent, 1, "Share of the table's total",
		func(l *line) float64 { return aggregate.Percent(l.hours, l.total) }),
	aggregate.Define(linked.AttributedPercent, "By their job", query.Percent, 1, "GPU hours whose project is that of "+
		"their own job in the queue files; that of others is known by their user, or not at all",
		func(l *line) float64 { return l.by.Percent() }),
	aggregate.Define("userCount", "Users", query.Count, 0, "Number of users",
		func(l *line) float64 { return l.userCount }),
}

var filters = append(slices.Clone(query.UserFilters), "jobProjects")

// Kind describes the kind.
var Kind = query.Kind{
	Name: "userHours", Label: "User hours", Description: "GPU hours of each user",
	DefaultGroupBy: []string{"category"},
	Views: []query.View{
		query.TableView("Users under each group, with totals",
			query.By("category", "device", "memory", "machine", "project", "jobProject"),
			[]string{"gpuHours", "percentOfTotal"}, filters).WithBeside("jobProject", linked.AttributedPercent),
		query.SeriesView(query.By("user", "category", "device", "memory", "machine", "project",
			"jobProject"), []string{"gpuHours"}, filters),
	},
	Columns: metrics.Columns(),
}
