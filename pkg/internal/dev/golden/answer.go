package golden

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// Rows returns the rows of all frames, by field name. Nulls are nil, numbers float64.
func Rows(frames data.Frames) (rows []map[string]any) {
	for _, f := range frames {
		n, err := f.RowLen()
		if err != nil {
			panic(err)
		}
		for i := range n {
			row := map[string]any{}
			for _, field := range f.Fields {
				row[field.Name] = plain(field, i)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func plain(field *data.Field, i int) any {
	value, ok := field.ConcreteAt(i)
	if !ok {
		return nil
	}
	switch v := value.(type) {
	case int64:
		return float64(v)
	case int8:
		return float64(v)
	}
	return value
}

// Point is one point of a series.
type Point struct {
	Time  time.Time
	Value float64
}

// Series returns the points of each series, by its labels' values in the order of names, joined by "|".
func Series(frames data.Frames, names ...string) map[string][]Point {
	all := map[string][]Point{}
	for _, f := range frames {
		if len(f.Fields) < 2 {
			continue
		}
		var key []string
		for _, n := range names {
			key = append(key, f.Fields[1].Labels[n])
		}
		k := strings.Join(key, "|")
		for i := range f.Fields[0].Len() {
			at, _ := f.Fields[0].ConcreteAt(i)
			all[k] = append(all[k], Point{at.(time.Time), plain(f.Fields[1], i).(float64)})
		}
	}
	return all
}

// Same reports whether two cells are equal: numbers to a relative 1e-9, times to 1 ms.
func Same(want, got any) bool {
	switch g := got.(type) {
	case float64:
		w, ok := want.(float64)
		return ok && math.Abs(w-g) <= max(1e-9*max(math.Abs(w), math.Abs(g)), 1e-10)
	case time.Time:
		w, err := time.Parse(time.RFC3339Nano, fmt.Sprint(want))
		return err == nil && w.Sub(g).Abs() <= time.Millisecond
	}
	return want == got
}

// Expect is what a case's query must answer.
type Expect struct {
	Columns []string            `json:"columns"`
	Rows    [][]any             `json:"rows"`
	Ordered bool                `json:"ordered"`
	Where   map[string][]any    `json:"where"`
	Series  map[string][][2]any `json:"series"`
	NoData  bool                `json:"noData"`
	Labels  []string            `json:"labels"` // by whose values series are named, joined by " | "
	Notice  []string            `json:"notice"` // texts of which each stands in a notice or a stat
}

// Check compares an answer.
func (e *Expect) Check(t testing.TB, frames data.Frames) {
	t.Helper()
	for _, text := range e.Notice {
		require.Contains(t, Told(frames), text)
	}
	switch {
	case e.NoData:
		require.Len(t, frames, 1, "no data is one frame")
		require.Empty(t, frames[0].Fields, "no data has no fields")
	case e.Series != nil:
		e.checkSeries(t, frames)
	default:
		e.checkRows(t, frames)
	}
}

// Told are the notices of frames, and their statistics with the sentences that explain them, one per line.
func Told(frames data.Frames) string {
	var b strings.Builder
	for _, f := range frames {
		if f.Meta == nil {
			continue
		}
		for _, n := range f.Meta.Notices {
			b.WriteString(n.Text + "\n")
		}
		for _, s := range f.Meta.Stats {
			b.WriteString(s.DisplayName + ": " + s.Description + "\n")
		}
	}
	return b.String()
}

// Warned are the warnings of frames, one per line.
func Warned(frames data.Frames) string {
	var b strings.Builder
	for _, f := range frames {
		for _, n := range f.Meta.Notices {
			if n.Severity == data.NoticeSeverityWarning {
				b.WriteString(n.Text + "\n")
			}
		}
	}
	return b.String()
}

func (e *Expect) checkSeries(t testing.TB, frames data.Frames) {
	t.Helper()
	got := map[string][]Point{}
	for _, f := range frames {
		require.Len(t, f.Fields, 2)
		label := e.labelOf(f.Fields[1].Labels)
		if _, named := e.Series[label]; label == "" && !named { // ungrouped ones can be named by their metric
			label = f.Fields[1].Name
		}
		require.NotContains(t, got, label, "a series is there twice")
		got[label] = Series(data.Frames{f})[""]
	}
	for label, points := range e.Series {
		require.Len(t, got[label], len(points), "points of %s: %v", label, got[label])
		for i, p := range points {
			require.True(t, Same(p[0], got[label][i].Time) && Same(p[1], got[label][i].Value), "%s: want %v, got %v", label, p,
				got[label][i])
		}
	}
	for label, points := range got {
		if _, wanted := e.Series[label]; !wanted {
			require.False(t, slices.ContainsFunc(points, func(p Point) bool { return p.Value != 0 }),
				"unexpected series %s: %v", label, points)
		}
	}
}

// labelOf names a series as cases do: by its group's values in the order of the labels' names, joined by "|".
func (e *Expect) labelOf(labels data.Labels) string {
	var values []string
	if e.Labels != nil {
		for _, name := range e.Labels {
			values = append(values, labels[name])
		}
		return strings.Join(values, " | ")
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "metric" && name != "slots" {
			values = append(values, labels[name])
		}
	}
	return strings.Join(values, "|")
}

func (e *Expect) checkRows(t testing.TB, frames data.Frames) {
	t.Helper()
	rows := slices.DeleteFunc(Rows(frames), func(r map[string]any) bool { return !e.about(r) })
	if len(rows) > 0 {
		for _, c := range e.Columns {
			require.Contains(t, rows[0], c)
		}
	}
	if e.Ordered {
		require.Len(t, rows, len(e.Rows))
		for i, want := range e.Rows {
			require.True(t, e.fits(want, rows[i]), "row %d: want %v, got %v", i, want, rows[i])
		}
		return
	}
	for _, want := range e.Rows {
		at := slices.IndexFunc(rows, func(r map[string]any) bool { return e.fits(want, r) })
		require.GreaterOrEqual(t, at, 0, "no row %v; left: %v", want, rows)
		rows = slices.Delete(rows, at, at+1)
	}
	for _, r := range rows { // a group that is not listed may be there without figures
		for _, c := range e.Columns {
			if n, number := r[c].(float64); number {
				require.Zero(t, n, "unexpected row %v", r)
			}
		}
	}
}

// about reports whether the expected rows are about a row: by default about those of groups, not about totals.
func (e *Expect) about(row map[string]any) bool {
	if e.Where == nil {
		return row["rowType"] == nil || row["rowType"] == "row"
	}
	for column, values := range e.Where {
		if !slices.ContainsFunc(values, func(v any) bool { return Same(v, row[column]) }) {
			return false
		}
	}
	return true
}

// fits reports whether a row has the wanted values in the expected columns. "*" matches any value; a total's name may
// be in any column, and the ids of GPUs in any order.
func (e *Expect) fits(want []any, row map[string]any) bool {
	for i, c := range e.Columns {
		got := row[c]
		switch {
		case want[i] == "*", want[i] == nil && got == "":
		case slices.Equal(e.Where["rowType"], []any{"total"}) && c == e.Columns[0]:
			if !slices.Contains(slices.Collect(maps.Values(row)), want[i]) {
				return false
			}
		case c == "gpuIds":
			if sorted(want[i]) != sorted(got) {
				return false
			}
		case !Same(want[i], got):
			return false
		}
	}
	return true
}

func sorted(list any) string {
	words := strings.FieldsFunc(fmt.Sprint(list), func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(words)
	return strings.Join(words, ",")
}

// Window reads a window of two RFC 3339 times.
func Window(t testing.TB, from, to string) pool.Window {
	t.Helper()
	f, err := time.Parse(time.RFC3339Nano, from)
	require.NoError(t, err)
	u, err := time.Parse(time.RFC3339Nano, to)
	require.NoError(t, err)
	return pool.NewWindow(f, u)
}
