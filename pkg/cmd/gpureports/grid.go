package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// grid is a table for a person to read.
type grid struct {
	title   string
	columns []column
	rows    []gridRow
	notices []data.Notice
}

type column struct {
	name   string
	number bool // aligned right
}

type gridRow struct {
	kind  string // as the column rowType says: row, group, user, total; "" without it
	cells []string
}

// grids lays out an answer's frames: series that share their times side by side, every other frame by itself.
func grids(a answer) []grid {
	var all []grid
	var series []*data.Frame
	for _, frame := range a.Frames {
		if isSeries(frame) {
			series = append(series, frame)
		} else {
			all = append(all, frameGrid(frame))
		}
	}
	if len(series) > 0 {
		all = append([]grid{seriesGrid(series)}, all...)
	}
	return all
}

func isSeries(frame *data.Frame) bool {
	return frame.Meta != nil && frame.Meta.Type == data.FrameTypeTimeSeriesMulti && len(frame.Fields) == 2
}

func frameGrid(frame *data.Frame) grid {
	g := grid{title: frame.Name}
	if frame.Meta != nil {
		g.notices = frame.Meta.Notices
	}
	rowType, shown := -1, []*data.Field{}
	for i, field := range frame.Fields {
		if field.Name == "rowType" {
			rowType = i
			continue
		}
		shown = append(shown, field)
		g.columns = append(g.columns, column{heading(field), isNumber(field)})
	}
	formats := make([]func(int) string, len(shown))
	for i, field := range shown {
		formats[i] = formatter(field)
	}
	for r := range rows(frame) {
		row := gridRow{cells: make([]string, len(shown))}
		if rowType >= 0 {
			row.kind, _ = frame.Fields[rowType].At(r).(string)
		}
		for i := range shown {
			row.cells[i] = formats[i](r)
		}
		g.rows = append(g.rows, row)
	}
	g.indentUsers()
	return g
}

// indentUsers leaves out of the rows beneath a group what the group's own row has said.
func (g *grid) indentUsers() {
	var group []string
	for _, row := range g.rows {
		switch row.kind {
		case "group":
			group = row.cells
		case "user":
			for i, cell := range row.cells {
				if cell == null || group != nil && !g.columns[i].number && cell == group[i] {
					row.cells[i] = ""
				}
			}
		}
	}
}

// null stands for a number that there is not.
const null = "–"

// seriesGrid joins series by time, a column each.
func seriesGrid(frames []*data.Frame) grid {
	g := grid{columns: []column{{"time (UTC)", false}}}
	byTime := map[int64][]string{}
	for i, frame := range frames {
		if frame.Meta != nil {
			for _, n := range frame.Meta.Notices {
				if !slices.Contains(g.notices, n) {
					g.notices = append(g.notices, n)
				}
			}
		}
		value := frame.Fields[1]
		name := seriesName(value)
		if unit := unitText(value); unit != "" {
			name += " (" + unit + ")"
		}
		g.columns = append(g.columns, column{name, true})
		format := formatter(value)
		for r := range rows(frame) {
			t, ok := timeAt(frame.Fields[0], r)
			if !ok {
				continue
			}
			if byTime[t.UnixNano()] == nil {
				byTime[t.UnixNano()] = make([]string, len(frames))
			}
			byTime[t.UnixNano()][i] = format(r)
		}
	}
	times := make([]int64, 0, len(byTime))
	for t := range byTime {
		times = append(times, t)
	}
	slices.Sort(times)
	for _, t := range times {
		g.rows = append(g.rows, gridRow{cells: append([]string{timeText(time.Unix(0, t))}, byTime[t]...)})
	}
	return g
}

// heading is a field's name with its unit.
func heading(field *data.Field) string {
	name := seriesName(field)
	if field.Config != nil {
		name = cmp.Or(field.Config.DisplayName, field.Config.DisplayNameFromDS, name)
	}
	unit := unitText(field)
	if isTime(field) {
		unit = "UTC"
	}
	said := strings.HasSuffix(name, unit) || strings.HasSuffix(name, "("+unit+")") || unit == "h" && strings.Contains(strings.ToLower(name), "hours")
	if said { // also without a unit
		return clean(name)
	}
	return clean(name) + " (" + unit + ")"
}

// seriesName names a value by its labels, where it has some, else by its field.
func seriesName(field *data.Field) string {
	if len(field.Labels) == 0 {
		return field.Name
	}
	keys := make([]string, 0, len(field.Labels))
	for k := range field.Labels {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = clean(field.Labels[k])
	}
	return strings.Join(values, ", ")
}

func unitText(field *data.Field) string {
	if field.Config == nil {
		return ""
	}
	switch field.Config.Unit {
	case "percent":
		return "%"
	case "decgbytes", "gbytes":
		return "GB"
	case "short", "none", "string", "dateTimeAsIso":
		return ""
	}
	return field.Config.Unit
}

func isTime(field *data.Field) bool {
	return field.Type() == data.FieldTypeTime || field.Type() == data.FieldTypeNullableTime
}

func isNumber(field *data.Field) bool { return field.Type().Numeric() && mappings(field) == nil }

// mappings are the texts of a field's values, nil without.
func mappings(field *data.Field) data.ValueMapper {
	if field.Config == nil {
		return nil
	}
	for _, m := range field.Config.Mappings {
		if values, ok := m.(data.ValueMapper); ok {
			return values
		}
	}
	return nil
}

// formatter returns how the rows of a field are written for a person: the same number of decimals in all.
func formatter(field *data.Field) func(row int) string {
	if mapped := mappings(field); mapped != nil {
		return func(row int) string {
			text := plain(field, row)
			if m, ok := mapped[text]; ok && m.Text != "" {
				return m.Text
			}
			return text
		}
	}
	switch {
	case isTime(field):
		return func(row int) string {
			if t, ok := timeAt(field, row); ok {
				return timeText(t)
			}
			return ""
		}
	case isNumber(field):
		decimals := decimals(field)
		return func(row int) string {
			v, ok := numberAt(field, row)
			if !ok {
				return null
			}
			return thousands(strconv.FormatFloat(v, 'f', decimals, 64))
		}
	}
	return func(row int) string { return shorten(clean(plain(field, row))) }
}

func decimals(field *data.Field) int {
	if field.Config != nil && field.Config.Decimals != nil {
		return int(*field.Config.Decimals)
	}
	for row := range field.Len() {
		if v, ok := numberAt(field, row); ok && v != math.Trunc(v) {
			return 2
		}
	}
	return 0
}

// thousands separates the digits of a number in groups of three: 12,345.6.
func thousands(number string) string {
	whole, rest, _ := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + whole + rest
}

func numberAt(field *data.Field, row int) (float64, bool) {
	if v, ok := field.ConcreteAt(row); !ok || v == nil {
		return 0, false
	}
	v, err := field.FloatAt(row)
	return v, err == nil && !math.IsNaN(v)
}

func timeAt(field *data.Field, row int) (time.Time, bool) {
	v, ok := field.ConcreteAt(row)
	t, isTime := v.(time.Time)
	return t.UTC(), ok && isTime
}

func timeText(t time.Time) string {
	t = t.UTC()
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format(time.DateTime)
}

// plain is a value as a machine reads it; null is empty.
func plain(field *data.Field, row int) string {
	v, ok := field.ConcreteAt(row)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// clean makes control characters and marks that change the direction of writing visible: names come from users.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

const longest = 80

// shorten cuts a text that would push everything else off the page, and says how much.
func shorten(text string) string {
	runes := []rune(text)
	if len(runes) <= longest {
		return text
	}
	return fmt.Sprintf("%s… (%d characters)", string(runes[:longest]), len(runes))
}

func writeNotices(w io.Writer, prefix string, frame *data.Frame) {
	if frame.Meta == nil {
		return
	}
	for _, n := range frame.Meta.Notices {
		fmt.Fprintln(w, prefix+noticeText(n))
	}
}

func noticeText(n data.Notice) string {
	if n.Severity == data.NoticeSeverityInfo {
		return clean(n.Text)
	}
	return n.Severity.String() + ": " + clean(n.Text)
}
