package frames

import (
	"cmp"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// Row is a group's row in a table of metrics.
type Row struct {
	Group  []string  // by the plan's groupings
	Values []float64 // by the plan's metrics; NaN is null
	Type   string    // in the column rowType; "": the row of a group
}

// Total is a row that adds others up.
type Total struct {
	Name   string
	Values []float64
}

// Types of rows, the column rowType.
const (
	rowGroup = "row"
	rowTotal = "total"
)

// Table returns a table of metrics: group columns, metrics, rowType; rows ordered by group, totals last. Where one
// metric is named it is numeric-long, for alert rules: group columns and that number, rows without it left out.
func Table(p *query.Plan, a *About, rows []Row, totals ...Total) data.Frames {
	slices.SortStableFunc(rows, func(x, y Row) int { return query.CompareGroups(p.GroupBy, x.Group, y.Group) })
	return Ordered(p, a, rows, totals...)
}

// Ordered returns such a table of rows that are ordered.
func Ordered(p *query.Plan, a *About, rows []Row, totals ...Total) data.Frames {
	if p.Numeric {
		rows = slices.DeleteFunc(rows, func(r Row) bool { return !finite(r.Values[0]) })
	}
	if len(rows) == 0 {
		return a.Finish(nil)
	}
	rows = rows[:a.cut(p, len(rows), mostRows, "rows")]
	if p.Totals {
		for _, t := range totals {
			group := make([]string, len(p.GroupBy))
			if len(group) > 0 {
				group[0] = t.Name
			}
			rows = append(rows, Row{group, t.Values, rowTotal})
		}
	}
	groups, types := make([][]string, len(rows)), make([]string, len(rows))
	for i := range rows {
		groups[i], types[i] = rows[i].Group, cmp.Or(rows[i].Type, rowGroup)
	}
	fields := GroupColumns(p, groups)
	for m, name := range p.Metrics {
		values := make([]float64, len(rows))
		for i := range rows {
			values[i] = rows[i].Values[m]
		}
		if p.Numeric {
			f := data.NewField(name, nil, values)
			f.Config = column(p, name)
			fields = append(fields, f)
		} else {
			fields = append(fields, Number(name, values))
		}
	}
	if p.Totals {
		fields = append(fields, Text("rowType", types))
	}
	return tableOf(p, a, fields)
}

// List returns a table of whole columns, all of the same length, cut to the limit.
func List(p *query.Plan, a *About, fields ...*data.Field) data.Frames {
	shown := a.Shown(fields[0].Len())
	for _, f := range fields {
		for f.Len() > shown {
			f.Delete(f.Len() - 1)
		}
	}
	return Columns(p, a, fields...)
}

// Columns returns a table of whole, unchanged columns.
func Columns(p *query.Plan, a *About, fields ...*data.Field) data.Frames {
	if fields[0].Len() == 0 {
		return a.Finish(nil)
	}
	return tableOf(p, a, fields)
}

func tableOf(p *query.Plan, a *About, fields []*data.Field) data.Frames {
	for _, field := range fields {
		present(p, field.Name, field.Config)
		linked(a.plan, field) // by the groupings of the query: no total is named in another column
		wide(p, field)
		minutes(field)
	}
	f := data.NewFrame("", fields...)
	f.Meta = meta(frameType(p))
	f.Meta.PreferredVisualization = data.VisTypeTable // times in columns do not make it a graph in Explore
	return a.Finish(data.Frames{f})
}
