package main

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/report"
)

func written(t *testing.T, format string, frames ...*data.Frame) (out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	layout := report.Options{Title: "Answers", From: started.Add(-time.Hour), To: started}
	require.NoError(t, write(format, &o, &e, layout,
		[]report.Answer{{Name: "A", DataResponse: backend.DataResponse{Status: 200, Frames: frames}}}))
	return o.String(), e.String()
}

func TestCSVIsForMachines(t *testing.T) {
	half := 0.5
	frame := data.NewFrame("",
		data.NewField("at", nil, []time.Time{time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.FixedZone("", 3600))}),
		data.NewField("n", nil, []float64{-1234567.875}), data.NewField("none", nil, []*float64{nil}),
		data.NewField("some", nil, []*float64{&half}),
		data.NewField("count", nil, []int64{7}), data.NewField("series", data.Labels{"b": "y", "a": "x"}, []string{"a,b"}),
	)
	frame.Meta = &data.FrameMeta{Notices: []data.Notice{{Severity: data.NoticeSeverityWarning, Text: "one gap"}}}
	out, errors := written(t, "csv", frame, data.NewFrame("no data"),
		data.NewFrame("", data.NewField("x", nil, []bool{true})))
	require.Equal(t, "at,n,none,some,count,\"x, "+
		"y\"\n2026-01-02T02:04:05.678Z,-1.234567875e+06,,0.5,7,\"a,b\"\n\nx\ntrue\n", out)
	require.Equal(t, "A: warning: one gap\n", errors)
}

// Names come from users and machines: none may do harm in any format.
func TestHostileNames(t *testing.T) {
	hostile := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3",
		"\t=1", "\rx",
		"a\nb", "a\x1b[31mred\x1b[0m", "a\u202eb", "a\u2066b", "a\x00b", strings.Repeat("x", 10_000),
		"=" + strings.Repeat("Ä", 10_000), "a,b;\"c\"",
	}
	frame := func() *data.Frame {
		f := data.NewFrame("title <b>\x1b", data.NewField("user", nil, hostile),
			data.NewField("hours", nil, make([]float64, len(hostile))))
		f.Meta = &data.FrameMeta{Notices: []data.Notice{{Text: "no <i>\u202e"}}}
		return f
	}
	for _, format := range []string{"table", "html"} {
		out, _ := written(t, format, frame())
		require.True(t, utf8.ValidString(out), format)
		for _, r := range out {
			require.False(t, r != '\n' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x2066), "%s: %q is visible", format, r)
		}
		require.Contains(t, strings.Join(strings.Fields(out), " "), "(10,000 characters)", "what is cut is said")
	}
	out, _ := written(t, "html", frame())
	for _, tag := range []string{"<script>", "<img", "<b>", "<i>"} {
		require.NotContains(t, out, tag)
	}
	require.Contains(t, out, "&lt;script&gt;")
	out, errors := written(t, "csv", frame())
	require.NotContains(t, errors, "\u202e")
	records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	for i, name := range hostile {
		if strings.ContainsRune("=+-@\t\r", rune(name[0])) {
			name = "'" + name
		}
		require.Equal(t, strings.ReplaceAll(name, "\r", ""), strings.ReplaceAll(records[i+1][0], "\r", ""))
	}
}
