package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

func written(t *testing.T, format string, frames ...*data.Frame) (out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	require.NoError(t, writers[format](&o, &e, []answer{{"A", backend.DataResponse{Status: 200, Frames: frames}}}))
	return o.String(), e.String()
}

func named(field *data.Field, name, unit string, decimals uint16) *data.Field {
	return field.SetConfig(&data.FieldConfig{DisplayNameFromDS: name, Unit: unit, Decimals: &decimals})
}

func pointer[T any](v T) *T { return &v }

func TestTextTable(t *testing.T) {
	frame := data.NewFrame("Hours",
		named(data.NewField("category", nil, []string{"Shared", "Shared", "All"}), "Category", "", 0),
		named(data.NewField("user", nil, []string{"", "ann", ""}), "User", "", 0),
		named(data.NewField("userCount", nil, []*int64{pointer(int64(1)), nil, pointer(int64(1))}), "Users", "short", 0),
		named(data.NewField("gpuHours", nil, []float64{1234567.891, 0.05, math.Pi}), "GPU time", "h", 1),
		data.NewField("rowType", nil, []string{"group", "user", "total"}),
	)
	frame.Meta = &data.FrameMeta{Type: data.FrameTypeTable, Notices: []data.Notice{{Severity: data.NoticeSeverityWarning, Text: "one gap"}, {Text: "coverage 99 %"}}}
	out, errors := written(t, "table", frame)
	require.Empty(t, errors)
	require.Equal(t, `Hours
Category  User  Users  GPU time (h)
────────  ────  ─────  ────────────
Shared              1   1,234,567.9
          ann                   0.1
────────  ────  ─────  ────────────
All                 1           3.1
· warning: one gap
· coverage 99 %
`, out)
}

func TestTextNullsAndNoData(t *testing.T) {
	out, _ := written(t, "table", data.NewFrame("",
		data.NewField("percent", nil, []*float64{nil, pointer(12.345)}).SetConfig(&data.FieldConfig{Unit: "percent"}),
		data.NewField("at", nil, []*time.Time{nil, pointer(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}),
	))
	require.Equal(t, `percent (%)  at (UTC)
───────────  ───────────────────
          –
      12.35  2026-01-02 03:04:05
`, out)
	out, _ = written(t, "table", data.NewFrame(""))
	require.Equal(t, "No data.\n", out)
	out, _ = written(t, "html", data.NewFrame(""))
	require.Contains(t, out, "No data.")
}

func TestSeriesStandSideBySide(t *testing.T) {
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
	out, _ := written(t, "table", series("H200", at(1, 3), []float64{1, 2.5}), series("A100", at(2, 3), []float64{3, 4}))
	require.Equal(t, `time (UTC)        H200  A100
────────────────  ────  ────
2026-01-01 01:00  1.00
2026-01-01 02:00           3
2026-01-01 03:00  2.50     4
· the same in each
`, out)
}

// Names come from users and machines: none may do harm in any format.
func TestHostileNames(t *testing.T) {
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\rx",
		"a\nb", "a\x1b[31mred\x1b[0m", "a\u202eb", "a\u2066b", "a\x00b", strings.Repeat("x", 10_000), "=" + strings.Repeat("Ä", 10_000), "a,b;\"c\"",
	}
	frame := func() *data.Frame {
		f := data.NewFrame("title <b>\x1b", data.NewField("user", nil, hostile), data.NewField("hours", nil, make([]float64, len(hostile))))
		f.Meta = &data.FrameMeta{Notices: []data.Notice{{Text: "no <i>\u202e"}}}
		return f
	}
	for _, format := range []string{"table", "html", "csv"} {
		out, errors := written(t, format, frame())
		require.True(t, utf8.ValidString(out), format)
		if format != "csv" {
			for _, r := range out + errors {
				require.False(t, r != '\n' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x2066), "%s: %q is visible", format, r)
			}
			require.Contains(t, out, "(10000 characters)", "what is cut is said")
		}
	}
	out, _ := written(t, "html", frame())
	for _, tag := range []string{"<script>", "<img", "<b>", "<i>"} {
		require.NotContains(t, out, tag)
	}
	require.Contains(t, out, "&lt;script&gt;")
	out, _ = written(t, "csv", frame())
	for _, formula := range []string{"\n=", "\n@", "\n+", "\n-", "\"\t=", "\"\r"} {
		require.NotContains(t, out, formula)
	}
	require.Contains(t, out, "\n'=1+1,0\n")
	out, _ = written(t, "csv", data.NewFrame("", data.NewField("n", nil, []float64{-1.5})))
	require.Equal(t, "n\n-1.5\n", out, "a negative number is no formula")
}

func TestThousands(t *testing.T) {
	for number, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "-1234567.25": "-1,234,567.25", "-999.5": "-999.5"} {
		require.Equal(t, want, thousands(number))
	}
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrap("one  two three", 8))
	require.Equal(t, []string{"incomprehensibilities", "x"}, wrap("incomprehensibilities x", 5))
	require.Equal(t, []string{""}, wrap("", 5))
}
