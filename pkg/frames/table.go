package frames

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// Row is a group's row in a table of metrics.
type Row struct {
	Group  []string  // by the plan's groupings
	Values []float64 // by the plan's metrics; NaN is null
	Type   string    // in the column rowType; "" is "row", the row of a group
}

// Total is a row that adds others up.
type Total struct {
	Name   string
	Values []float64
}

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
	// Cut the rows, and add those of totals.
	rows = rows[:a.cut(p, len(rows), mostRows, "rows")]
	if p.Totals {
		for _, t := range totals {
			group := make([]string, len(p.GroupBy))
			if len(group) > 0 {
				group[0] = t.Name
			}
			rows = append(rows, Row{group, t.Values, "total"})
		}
	}
	// Make the columns: groups, metrics, and which rows are totals.
	groups, types := make([][]string, len(rows)), make([]string, len(rows))
	for i := range rows {
		groups[i], types[i] = rows[i].Group, cmp.Or(rows[i].Type, "row")
	}
	fields := GroupColumns(p, groups)
	for m, name := range p.Metrics {
		values := make([]float64, len(rows))
		for i := range rows {
			values[i] = rows[i].Values[m]
		}
		if p.Numeric { // no null is left
			fields = append(fields, field(name, values))
		} else {
			fields = append(fields, Number(name, values))
		}
	}
	if p.Totals {
		fields = append(fields, Text("rowType", types))
	}
	return Columns(p, a, fields...)
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

// shipped are the dashboards that the names of a column lead to: the column is the name of the dashboard's variable,
// too. The front end leaves out links to dashboards that are not installed.
var shipped = map[string]struct{ title, dashboard string }{
	"machine": {"State, users and jobs of this machine", "gpureports-machine"},
	"user":    {"GPU hours of this user", "gpureports-users"},
	"device":  {"Backfill on this device", "gpureports-backfill"},
}

// linked lets a table's names lead to the shipped dashboards, if the data source's settings want it. Groupings of a
// table with totals lead nowhere: rows that add others up have their name there.
func linked(p *query.Plan, f *data.Field) {
	to, ok := shipped[f.Name]
	if !ok || p.FromAlert || p.Env.LinksFrom == "" || p.Totals && slices.Contains(p.GroupBy, f.Name) {
		return
	}
	value := "text"
	if f.Name == "device" { // which may be shown by another name
		value = "raw"
	}
	text := "${__value." + value + ":percentencode}"
	if p.Kind == "demand" && f.Name == "user" { // the owner of a job, without a domain: /^user(@|$)/
		text = url.QueryEscape("/^") + text + url.QueryEscape("(@|$)/")
	}
	f.Config.Links = []data.DataLink{{Title: to.title, URL: "/d/" + to.dashboard + "?var-datasource=" +
		url.QueryEscape(p.Env.LinksFrom) + "&var-" + f.Name + "=" + text + "&${__url_time_range}"}}
}

// A column's width in pixels.
const (
	characterWidth = 8
	paddingWidth   = 24
	defaultWidth   = 150 // Grafana's own, so that nothing narrower need be said
	mostWidth      = 480
)

// wide gives a column of long texts the room that it needs in Explore, whose table has no setting for it (in Grafana
// 12.3 it takes none from a data source either, and cuts long texts). A dashboard's panel has widths of its own.
func wide(p *query.Plan, f *data.Field) {
	if p.OnDashboard || f.Type() != data.FieldTypeString {
		return
	}
	longest := 0
	for i := range f.Len() {
		if text := f.PointerAt(i).(*string); len(*text) > longest { // At would copy each
			longest = max(longest, utf8.RuneCountInString(*text))
		}
	}
	width := min(longest*characterWidth+paddingWidth, mostWidth)
	if width <= defaultWidth {
		return
	}
	if f.Config.Custom == nil {
		f.Config.Custom = map[string]any{}
	}
	f.Config.Custom["minWidth"] = width
}

// minutesRows bounds the values that get a text of their own in a column.
const minutesRows = 1000

// manyHours is how many hours read better as days.
const manyHours = 48

// minutes shows a table's hours below one as minutes and many hours as days, which Grafana's unit of hours does not or
// only in turn with weeks: each value is mapped to its text, and stays a number for sorting and calculating.
func minutes(field *data.Field) {
	if field.Config.Unit != query.Hours || field.Len() > minutesRows {
		return
	}
	texts := data.ValueMapper{}
	for i := range field.Len() {
		value, ok := field.ConcreteAt(i)
		hours, isNumber := value.(float64)
		if !ok || !isNumber || hours <= 0 || hours >= 1 && hours <= manyHours {
			continue
		}
		text := Duration(hours)
		if hours > manyHours {
			text = Decimal(math.Round(hours/24*10)/10) + " d"
		}
		texts[strconv.FormatFloat(hours, 'f', -1, 64)] = data.ValueMappingResult{Text: text}
	}
	if len(texts) > 0 {
		field.Config.Mappings = append(field.Config.Mappings, texts)
	}
}

// Duration is a number of hours as people say it: minutes below one hour, otherwise hours with a decimal.
func Duration(hours float64) string {
	switch minutes := math.Round(hours * 60); {
	case minutes < 1:
		return "< 1 min"
	case minutes < 60:
		return fmt.Sprintf("%.0f min", minutes)
	}
	return Decimal(math.Round(hours*10)/10) + " h"
}
