package report

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// Wrapping loses nothing, and no line is wider than the given width if a character fits.
func TestWrap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("abc  \u00e9寬\U0001F600-=\u0301"))).Draw(t, "text")
		width := rapid.IntRange(2, 30).Draw(t, "width")
		indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
		if len(indent) > width-2 {
			t.Skip("no room beside the indent")
		}
		lines := Wrap(text, width)
		for _, line := range lines {
			require.LessOrEqual(t, screen.StringWidth(line), width)
		}
		require.Equal(t, strings.Join(strings.Fields(text), ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	})
}

// A table has all its cells at any width, and no line is too wide unless one figure with its name is.
func TestTableKeepsItsCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 14).Draw(t, "columns")
		cell := rapid.StringOfN(rapid.RuneFrom([]rune("ab寬1.")), 1, 25, -1)
		table := &Table{}
		for i := range n {
			table.Columns = append(table.Columns, Column{Name: cell.Draw(t, "name"), Number: i > 0 &&
				rapid.Bool().Draw(t, "number")})
		}
		for range rapid.IntRange(1, 4).Draw(t, "rows") {
			row := Row{Kind: rapid.SampledFrom([]RowKind{Plain, Heading, Item, Total}).Draw(t, "kind")}
			for range n {
				row.Cells = append(row.Cells, cell.Draw(t, "cell"))
			}
			table.Rows = append(table.Rows, row)
		}
		width := rapid.IntRange(minWidth, 120).Draw(t, "width")
		var b bytes.Buffer
		w := writer{bufio.NewWriter(&b), width}
		w.table(table)
		require.NoError(t, w.Flush())
		for _, line := range strings.Split(b.String(), "\n") {
			require.LessOrEqual(t, screen.StringWidth(line), width)
		}
		for i, c := range table.Columns {
			if !c.Number {
				continue
			}
			for _, row := range table.Rows {
				require.Contains(t, b.String(), row.Cells[i], "figures are never broken")
			}
		}
	})
}

func TestTableOfOneWideLine(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "Machine"}, {Name: "GPUs", Number: true}, {Name: "Reason"}}, Rows: []Row{
		{Kind: Heading, Cells: []string{"Open Capacity"}},
		{Kind: Item, Cells: []string{"gpu2001.chtc.example.org", "1,234", strings.Repeat("maintenance of the machine ", 4)}},
		{Kind: Total, Cells: []string{"All", "1,234", ""}},
	}}
	var b bytes.Buffer
	w := writer{bufio.NewWriter(&b), 72}
	w.table(table)
	require.NoError(t, w.Flush())
	require.Equal(t, `Machine                      GPUs  Reason
--------------------------  -----  -------------------------------------
Open Capacity
  gpu2001.chtc.example.org  1,234  maintenance of the machine
                                   maintenance of the machine
                                   maintenance of the machine
                                   maintenance of the machine
--------------------------  -----  -------------------------------------
All                         1,234
`, b.String())
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"user@example.org":        "user@example.org",
		"=1+1":                    "'=1+1",
		"@a":                      "'@a",
		"a=b":                     "a=b",
		"a\tb\x00":                "a\uFFFDb\uFFFD",
		"\u202Eabc":               "\uFFFDabc",
		"\xff":                    "\uFFFD",
		"Zoë 寬 \u05D0":            "Zoë 寬 \u05D0",
		strings.Repeat("x", 100):  strings.Repeat("x", 100),
		strings.Repeat("é", 1001): strings.Repeat("é", 100) + "… (1,001 characters)",
	} {
		require.Equal(t, want, clean(text))
	}
}

func TestFigure(t *testing.T) {
	one := uint16(1)
	for _, c := range []struct {
		number   float64
		unit     string
		decimals *uint16
		want     string
	}{
		{0, "", nil, "0"}, {1234567, "short", nil, "1,234,567"}, {1234.56, "", &one, "1,234.6"},
		{-1234.5, "", &one, "-1,234.5"}, {0.125, "", nil, "0.12"},
		{95.83, "percent", &one, "95.8 %"}, {46, "h", nil, "46 h"}, {90, "s", nil, "90 s"}, {1500, "s", nil, "25 min"},
		{35901752, "s", nil, "415.5 days"}, {48 * 3600, "s", nil, "48 h"},
	} {
		require.Equal(t, c.want, figure(c.number, c.unit, c.decimals))
	}
}

var laid = Options{Title: "Answers", From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	To: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}

// told is the text of one answer, without the report's own head.
func told(t *testing.T, frames ...*data.Frame) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Lay(laid, []Answer{{"A", backend.DataResponse{Frames: frames}}}).Text(&out, 100))
	head := "Answers\n=======\n2026-01-01 00:00 to 2026-01-02 00:00 UTC (24 h)\n\n\n\nA\n=\n\n"
	require.True(t, strings.HasPrefix(out.String(), head), out.String())
	return strings.TrimPrefix(out.String(), head)
}

func configured(field *data.Field, name, unit string, decimals uint16) *data.Field {
	return field.SetConfig(&data.FieldConfig{DisplayNameFromDS: name, Unit: unit, Decimals: &decimals})
}

func pointer[T any](v T) *T { return &v }

func TestLayTable(t *testing.T) {
	frame := data.NewFrame("Hours",
		configured(data.NewField("category", nil, []string{"Shared", "Shared", "All"}), "Category", "", 0),
		configured(data.NewField("user", nil, []string{"", "ann", ""}), "User", "", 0),
		configured(data.NewField("userCount", nil, []*int64{pointer(int64(1)), nil, pointer(int64(1))}), "Users", "short", 0),
		configured(data.NewField("gpuHours", nil, []float64{1234567.891, 0.05, math.Pi}), "GPU time", "h", 1),
		data.NewField("rowType", nil, []string{"group", "user", "total"}),
	)
	frame.Meta = &data.FrameMeta{Type: data.FrameTypeTable,
		Notices: []data.Notice{{Severity: data.NoticeSeverityWarning, Text: "one gap"}, {Text: "coverage 99 %"}}}
	require.Equal(t, `Hours
                          GPU time
Category  User  Users          (h)
--------  ----  -----  -----------
Shared              1  1,234,567.9
          ann                  0.1
--------  ----  -----  -----------
All                 1          3.1
* Warning: one gap
* coverage 99 %
`, told(t, frame))
}

func TestLayNullsWordsAndNoData(t *testing.T) {
	require.Equal(t, `percent
    (%)  at (UTC)             state
-------  -------------------  -----
      -  -                    Free
  12.35  2026-01-02 03:04:05  -
`, told(t, data.NewFrame("",
		data.NewField("percent", nil, []*float64{nil, pointer(12.345)}).SetConfig(&data.FieldConfig{Unit: "percent"}),
		data.NewField("at", nil, []*time.Time{nil, pointer(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}),
		data.NewField("state", nil, []*int8{pointer(int8(0)),
			nil}).SetConfig(&data.FieldConfig{Mappings: data.ValueMappings{data.ValueMapper{"0": {Text: "Free"}}}}),
	)))
	require.Equal(t, "No data.\n", told(t, data.NewFrame("")))
}

func TestLaySeriesSideBySide(t *testing.T) {
	at := func(hours ...int) *data.Field {
		var times []time.Time
		for _, h := range hours {
			times = append(times, time.Date(2026, 1, 1, h, 0, 0, 0, time.UTC))
		}
		return data.NewField("time", nil, times)
	}
	series := func(device string, times *data.Field, values []float64) *data.Frame {
		f := data.NewFrame("", times, data.NewField("free", data.Labels{"device": device}, values))
		f.Meta = &data.FrameMeta{Type: data.FrameTypeTimeSeriesMulti, Notices: []data.Notice{{Text: "the same in each"}}}
		return f
	}
	require.Equal(t, `time (UTC)        H200  A100
----------------  ----  ----
2026-01-01 01:00     1
2026-01-01 02:00           3
2026-01-01 03:00  2.50     4
* the same in each
`, told(t, series("H200", at(1, 3), []float64{1, 2.5}), series("A100", at(2, 3), []float64{3, 4})))
}

func TestLayErrors(t *testing.T) {
	r := Lay(laid, []Answer{{"A", backend.DataResponse{Error: errors.New("no <b>\x1b")}},
		{"B", backend.DataResponse{Frames: data.Frames{data.NewFrame("")}}}})
	require.Equal(t, 1, r.Failed)
	var text, page strings.Builder
	require.NoError(t, r.Text(&text, 100))
	require.Contains(t, text.String(), "! no <b>\ufffd\n")
	require.NoError(t, r.HTML(&page))
	require.Contains(t, page.String(), "A: no &lt;b&gt;\ufffd")
}

// A machine that changes hands counts for each project while it gives that project priority.
func TestOwnersOfAMachineThatChangesHands(t *testing.T) {
	dir := t.TempDir()
	from := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	var rows []snapshotstest.Row
	for i := range 16 { // four hours
		project, holder := "Bio_One", "alice"
		if i >= 4 {
			project, holder = "Chem_Two", "bob"
		}
		row := snapshotstest.Row{"Name": "slot1_1@m1", "Machine": "m1", "AssignedGPUs": "GPU-0", "State": "Claimed",
			"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": project, "RemoteOwner": holder,
			"GlobalJobId": "ap#1.0#1759300000",
			"timestamp":   from.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")}
		other := snapshotstest.Row{"Name": "slot1@m1", "Machine": "m1", "AssignedGPUs": "GPU-1", "State": "Drained",
			"GPUs_DeviceName": "NVIDIA A100", "PrioritizedProjects": project, "timestamp": row["timestamp"]}
		rows = append(rows, row, other)
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	settings, err := json.Marshal(map[string]any{"snapshotDir": dir})
	require.NoError(t, err)
	to := from.Add(4 * time.Hour)
	d := plugin.Open(backend.DataSourceInstanceSettings{UID: "gpu", JSONData: settings}, func() time.Time { return to })
	t.Cleanup(d.Dispose)
	for project, want := range map[string][4]float64{ // owned, own, given, elsewhere
		"Bio_One":  {2, 1, 0, 0},
		"Chem_Two": {6, 3, 0, 0},
	} {
		made, err := MakeOwner(context.Background(), d, project, Options{From: from, To: to, Zone: time.UTC, Now: to})
		require.NoError(t, err)
		require.Equal(t, []string{"m1"}, made.Machines)
		for i, hours := range []float64{made.Whole.Owned, made.Whole.Own, made.Whole.Given, made.Whole.Elsewhere} {
			require.InDelta(t, want[i], hours, 1e-3, "%s: figure %d", project, i)
		}
	}
}
