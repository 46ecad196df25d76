package report

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

var laid = Options{Title: "Answers", From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	To: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}

// told is the text of one answer, without the report's own head.
func told(t *testing.T, frames ...*data.Frame) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Lay(laid, []Answer{{"A", backend.DataResponse{Frames: frames}}}).Text(&out, DefaultWidth))
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
	require.NoError(t, r.Text(&text, DefaultWidth))
	require.Contains(t, text.String(), "! no <b>\ufffd\n")
	require.NoError(t, r.HTML(&page))
	require.Contains(t, page.String(), "A: no &lt;b&gt;\ufffd")
}
