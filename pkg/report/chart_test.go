package report

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func series(category string, start time.Time, values ...float64) *data.Frame {
	var times []time.Time
	var kept []float64
	for i, v := range values {
		if !math.IsNaN(v) {
			times, kept = append(times, start.Add(time.Duration(i)*time.Hour)), append(kept, v)
		}
	}
	return data.NewFrame("", data.NewField("time", nil, times),
		data.NewField("allocated", data.Labels{"category": category}, kept))
}

// Two hours, a gap, an hour: two pieces, the second category on the first.
func TestAllocationChart(t *testing.T) {
	from := time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	o := Options{From: from, To: from.Add(4 * time.Hour), Zone: time.UTC}
	none := math.NaN()
	b := allocationChart(o, data.Frames{series("Open Capacity", from, 2, 4, none, 2),
		series("Backfill", from, 1, 0, none, 2)})
	c := b.Chart
	require.Equal(t, Box{56, 24, 804, 256}, c.Plot)
	// 4 GPUs reach the top; 232 px for 4, 187 for an hour
	require.Equal(t, "M56 140H243V24H430V256H243V256H56ZM617 140H804V256H617Z", c.Shapes[0].Path)
	require.Contains(t, c.Shapes[1].Path, "M56 82H243V24H430V24H243V140H56Z")
	require.Equal(t, []string{"Open Capacity: between 2.0 and 4.0", "Backfill: between 0.0 and 2.0"}, c.Told)
	require.Equal(t, []string{"Oct 1", "01:00", "02:00", "03:00", "04:00"}, labels(c.X))
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, labels(c.Y))
	require.Nil(t, allocationChart(o, data.Frames{data.NewFrame("")}).Chart)
}

func labels(ticks []Tick) (texts []string) {
	for _, t := range ticks {
		texts = append(texts, t.Label)
	}
	return texts
}

// Calendar times, also on the days on which the clock changes.
func TestTimeTicks(t *testing.T) {
	chicago, err := time.LoadLocation("America/Chicago")
	require.NoError(t, err)
	from := time.Date(2025, 11, 1, 0, 0, 0, 0, chicago)
	for _, c := range []struct {
		length time.Duration
		want   string
	}{
		{4 * time.Hour, "Nov 1 01:00 02:00 03:00 04:00"},
		{30 * time.Hour, "Nov 1 06:00 12:00 18:00 Nov 2"}, // to 05:00 standard time
		{7 * 24 * time.Hour, "Nov 1 Nov 2 Nov 3 Nov 4 Nov 5 Nov 6 Nov 7"},
		{30 * 24 * time.Hour, "Nov 1 Nov 8 Nov 15 Nov 22 Nov 29"},
	} {
		o := Options{From: from, To: from.Add(c.length), Zone: chicago}
		got := strings.Join(labels(o.timeTicks(func(time.Time) float64 { return 0 })), " ")
		require.Equal(t, c.want, got, c.length)
	}
}

func TestTimeTicksWhereTheClockChanges(t *testing.T) {
	for name, change := range map[string]string{
		"America/Chicago": "2026-03-08", "Europe/Berlin": "2026-10-25", "Africa/Cairo": "2026-04-24",
		"Australia/Lord_Howe": "2026-10-04", "Pacific/Apia": "2011-12-30", "America/Nuuk": "2026-03-28",
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		day, err := time.Parse(time.DateOnly, change)
		require.NoError(t, err)
		for hours := range 96 {
			o := Options{From: day.Add(-36 * time.Hour), To: day.Add(time.Duration(hours-35) * time.Hour), Zone: zone}
			var at []float64
			for _, tick := range o.timeTicks(func(t time.Time) float64 { return float64(t.UnixMilli()) }) {
				at = append(at, tick.At)
			}
			require.LessOrEqual(t, len(at), 11)
			require.True(t, slices.IsSorted(at))
			require.Len(t, slices.Compact(slices.Clone(at)), len(at))
		}
	}
}

func TestSurvivalChart(t *testing.T) {
	number := func(values ...float64) []*float64 {
		all := make([]*float64, len(values))
		for i := range values {
			if !math.IsNaN(values[i]) {
				all[i] = &values[i]
			}
		}
		return all
	}
	none := math.NaN()
	frame := data.NewFrame("", data.NewField("hours", nil, []float64{0, 1, 2, 4}),
		data.NewField("survival", data.Labels{"machineType": "Priority"}, number(1, 0.5, 0.25, none)),
		data.NewField("low", nil, number(1, 0.25, 0, none)), data.NewField("high", nil, number(1, 0.75, 0.5, none)))
	c := survivalChart(Options{}, data.Frames{frame}).Chart
	require.Len(t, c.Shapes, 2)
	require.Equal(t, Shape{Kind: "band", Color: 1, Name: "Priority", Path: "M56 24H243V82H430V140V256V198H243V24H56Z"},
		c.Shapes[0])
	require.Equal(t, Shape{Kind: "line", Color: 1, Name: "Priority", Path: "M56 24H243V140H430V198"}, c.Shapes[1])
	require.Equal(t, []string{"Priority: 25 % after 2.0 hours"}, c.Told)
}

var coordinate = regexp.MustCompile(`[MHV ]?(-?[0-9.]+)`)

// Whatever the values, a chart stays within its drawing and its axis reaches them.
func TestChartsStayInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2025, 10, 1, rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"), 0, 0,
			time.UTC)
		hours := rapid.IntRange(1, 60).Draw(t, "hours")
		o := Options{From: from, To: from.Add(time.Duration(hours)*time.Hour + 20*time.Minute), Zone: time.UTC}
		var frames data.Frames
		for range rapid.IntRange(1, 7).Draw(t, "series") {
			values := make([]float64, hours)
			for i := range values {
				values[i] = rapid.Float64Range(0, math.Pow(10, float64(rapid.IntRange(-2, 6).Draw(t, "size")))).Draw(t, "value")
			}
			frames = append(frames, series("c", from.Truncate(time.Hour), values...))
		}
		c := allocationChart(o, frames).Chart
		require.LessOrEqual(t, len(c.Y), 8)
		require.LessOrEqual(t, len(c.X), 11)
		for _, s := range c.Shapes {
			for _, m := range coordinate.FindAllStringSubmatch(s.Path, -1) {
				v, err := strconv.ParseFloat(m[1], 64)
				require.NoError(t, err)
				require.True(t, v >= 0 && v <= chartWidth, "%s in %s", m[1], s.Path)
			}
			require.NotContains(t, s.Path, "NaN")
			require.NotContains(t, s.Path, "Inf")
		}
	})
}
