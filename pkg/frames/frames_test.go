package frames_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	. "github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// seriesNames are the names of all series in order.
func seriesNames(frames data.Frames) (names []string) {
	for _, f := range frames {
		for _, field := range f.Fields {
			if field.Labels != nil {
				names = append(names, field.Config.DisplayNameFromDS)
			}
		}
	}
	return names
}

// pointsOf is a series with a point.
func pointsOf(metric string, group ...string) Series {
	return Series{Group: group, Metric: metric, Times: []pool.Micros{0}, Values: []float64{1}}
}

// curvesOf is a survival curve of each group.
func curvesOf(p *query.Plan, groups ...[]string) data.Frames {
	items := make([]survival.Item, 40)
	for i := range items {
		items[i] = survival.Item{Exit: pool.Micros(i+1) * pool.Hour, Fate: survival.Event}
	}
	var lives []Lives
	for _, group := range groups {
		lives = append(lives, Lives{group, items})
	}
	return Curves(p, aboutOf(p), "tenure", "GPUs", lives, survival.Cohort.KaplanMeier)
}

func TestLegendNamesSeries(t *testing.T) {
	for _, c := range []struct {
		query string
		want  []string
	}{
		{`{"groupBy": ["device", "project"], "metrics": ["free"]}`, []string{"H200 · No project · Real"}},
		{`{"groupBy": ["device", "project"], "metrics": ["free"], "legend": "{{metric}} of {{device}}"}`,
			[]string{"Free (avg.) of H200"}},
		{`{"groupBy": ["device", "project"], "metrics": ["free"], "legend": "{{ project }}, {{slots}}"}`,
			[]string{"No project, Real"}},
		{`{"groupBy": ["device", "project"], "metrics": ["free"], "legend": "Free now"}`, []string{"Free now"}},
		{`{"groupBy": ["device", "project"], "metrics": ["free", "drained"], "legend": "{{device}}"}`,
			[]string{"H200 · Free (avg.)", "H200 · Drained (avg.)"}},
		{`{"groupBy": ["device", "project"], "metrics": ["free", "drained"], "legend": "{{device}}: {{metric}}"}`,
			[]string{"H200: Free (avg.)", "H200: Drained (avg.)"}},
		{`{"view": "stateTimeline"}`, []string{"gpu1.example.org GPU-1"}},
		{`{"view": "stateTimeline", "legend": "{{gpu}} ({{device}}) in {{machine}}"}`,
			[]string{"GPU-1 (H200) in gpu1.example.org"}},
		{`{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["device"]}`,
			[]string{"H200", "H200 · 95% low", "H200 · 95% high"}},
		{`{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["device"], "legend": "Kept: {{device}}"}`,
			[]string{"Kept: H200", "Kept: H200 · 95% low", "Kept: H200 · 95% high"}},
		{`{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["device"], "legend": "{{device}} {{metric}}"}`,
			[]string{"H200 Survival", "H200 95% low", "H200 95% high"}},
	} {
		var model map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"queryType": "allocation"}`), &model))
		require.NoError(t, json.Unmarshal([]byte(c.query), &model))
		text, err := json.Marshal(model)
		require.NoError(t, err)
		p := planOf(t, string(text))
		var frames data.Frames
		switch p.Frame {
		case query.FrameSurvival:
			frames = curvesOf(p, []string{"H200"})
			high := frames[0].Fields[3]
			require.Equal(t, c.want[1], high.Config.Custom["fillBelowTo"], "the band ends at the lower bound")
		case query.FrameStateTimeline:
			frames = StateTimeline(p, aboutOf(p), 500, []States{{Device: "H200", Machine: "gpu1.example.org", GPU: "GPU-1",
				Times: []pool.Micros{0}, States: []int8{1}}}, nil)
		default:
			var all []Series
			for _, metric := range p.Metrics {
				all = append(all, pointsOf(metric, "H200", "", "Real"))
			}
			frames = TimeSeries(p, aboutOf(p), all)
		}
		require.Equal(t, c.want, seriesNames(frames), c.query)
	}
}

// Devices are shown by names of a list: in legends, and in cells by a mapping; values and labels stay as stored.
func TestDeviceNames(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation", "groupBy": ["device"], "metrics": ["free"]}`)
	p.Env.Lists.DeviceNames = map[string]string{"NVIDIA H200": "H200 SXM"}
	series := TimeSeries(p, aboutOf(p), []Series{pointsOf("free", "NVIDIA H200", "Real"), pointsOf("free", "L40", "Real")})
	require.Equal(t, []string{"L40 · Real", "H200 SXM · Real"}, seriesNames(series))
	require.Equal(t, "NVIDIA H200", series[1].Fields[1].Labels["device"])
	table := Columns(p, aboutOf(p), Text("device", []string{"NVIDIA H200"}), Text("machine", []string{"m1"}))[0].Fields
	require.Equal(t, data.ValueMappings{data.ValueMapper{"NVIDIA H200": {Text: "H200 SXM"}}}, table[0].Config.Mappings)
	require.Nil(t, table[1].Config.Mappings)
	states := StateTimeline(p, aboutOf(p), 500, []States{{Device: "NVIDIA H200", Machine: "m1", Times: []pool.Micros{0},
		States: []int8{1}}}, nil)
	require.Contains(t, seriesNames(states), "H200 SXM · m1")
}

func TestQueriesOfAPanelHaveDifferentNames(t *testing.T) {
	answer := func(refID, text string, groups ...string) Named {
		p := planOf(t, text)
		var all []Series
		for _, g := range groups {
			all = append(all, pointsOf(p.Metrics[0], g))
		}
		return Named{refID, TimeSeries(p, aboutOf(p), all), func(metric string) string { return p.Column(metric).Label }}
	}
	free := `{"queryType": "allocation", "groupBy": ["category"], "metrics": ["free"]}`
	drained := `{"queryType": "allocation", "groupBy": ["category"], "metrics": ["drained"]}`
	shared, owned := "Open Capacity", "Prioritized (CHTC Owned)"
	answers := []Named{answer("A", free, owned, shared), answer("B", drained, shared), answer("C", drained, shared)}
	fields := answers[0].Frames[1].Fields
	before := fields[1]
	Distinguish(answers)
	require.Equal(t, []string{owned, shared + " · Free (avg.)"}, seriesNames(answers[0].Frames))
	require.Equal(t, []string{shared + " · Drained (avg.) · B"}, seriesNames(answers[1].Frames))
	require.Equal(t, []string{shared + " · Drained (avg.) · C"}, seriesNames(answers[2].Frames))
	require.Equal(t, shared, before.Config.DisplayNameFromDS, "what other answers share is left alone")
	require.Same(t, before, fields[1])

	kept := planOf(t, `{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["device"]}`)
	label := func(metric string) string { return kept.Column(metric).Label }
	curves := []Named{{"A", curvesOf(kept, []string{"H200"}), label}, {"B", curvesOf(kept, []string{"H200"}), label}}
	high := curves[1].Frames[0].Fields[3]
	Distinguish(curves)
	require.Equal(t, "H200 · 95% low", high.Config.Custom["fillBelowTo"])
	require.Equal(t, []string{"H200 · B", "H200 · 95% low · B", "H200 · 95% high · B"}, seriesNames(curves[1].Frames))
	require.Equal(t, "H200 · 95% low · B", curves[1].Frames[0].Fields[3].Config.Custom["fillBelowTo"])
	require.Equal(t, "H200 · 95% low · A", curves[0].Frames[0].Fields[3].Config.Custom["fillBelowTo"])
}

func linksOf(f *data.Frame) map[string]string {
	found := map[string]string{}
	for _, field := range f.Fields {
		for _, link := range field.Config.Links {
			found[field.Name] = link.URL
		}
	}
	return found
}

// Names of machines, users and devices lead to the shipped dashboards, but not from rows that add others up.
func TestNamesLeadToDashboards(t *testing.T) {
	list := func(change func(*query.Plan)) map[string]string {
		p := planOf(t, `{"queryType": "evictions", "view": "events"}`)
		p.Env.LinksFrom = "a b"
		change(p)
		return linksOf(List(p, aboutOf(p), Text("machine", []string{"m"}), Text("user", []string{"u"}),
			Text("device", []string{"d"}), Text("job", []string{"j"}))[0])
	}
	links := list(func(*query.Plan) {})
	require.Len(t, links, 3)
	require.Equal(t, "/d/gpureports-machine?var-datasource=a+b&"+
		"var-machine=${__value.text:percentencode}&${__url_time_range}",
		links["machine"])
	require.Contains(t, list(func(p *query.Plan) { p.Kind = "demand" })["user"],
		"&var-user=%2F%5E${__value.text:percentencode}%28%40%7C%24%29%2F&", "the owner of a job, in any domain")
	require.Empty(t, list(func(p *query.Plan) { p.Env.LinksFrom = "" }))
	require.Empty(t, list(func(p *query.Plan) { p.FromAlert = true }))

	table := func(totals string) map[string]string {
		p := planOf(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["device", "machine"], "totals": `+totals+`}`)
		p.Env.LinksFrom = "uid"
		row := Row{Group: []string{"d", "m", "Real"}, Values: make([]float64, len(p.Metrics))}
		return linksOf(Table(p, aboutOf(p), []Row{row}, Total{"All", row.Values})[0])
	}
	require.Len(t, table("false"), 2)
	require.Empty(t, table("true"))
}

// Each of those dashboards is shipped, and has the variable that its link sets.
func TestShippedDashboards(t *testing.T) {
	for column, uid := range Shipped() {
		known := false
		for _, d := range dashboards.All() {
			for _, v := range d.Variables {
				known = known || d.UID == uid && v.Name == column
			}
		}
		require.True(t, known, "%s: %s", column, uid)
	}
}

// Columns of Explore's tables are as wide as their content.
func TestWideColumns(t *testing.T) {
	device := "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
	width := func(onDashboard bool, text string) any {
		p := planOf(t, `{"queryType": "allocation", "view": "current"}`)
		p.OnDashboard = onDashboard
		return List(p, aboutOf(p), Text("device", []string{"short", text}))[0].Fields[0].Config.Custom["minWidth"]
	}
	require.Equal(t, 8*len(device)+24, width(false, device))
	require.Equal(t, 480, width(false, strings.Repeat("x", 1000)))
	require.Nil(t, width(false, "NVIDIA A100"))
	require.Nil(t, width(true, device))
}

// A longer distance than the interval is drawn as a gap: the day on which the clock goes back must not be one.
func TestIntervalSpansAClockChange(t *testing.T) {
	zone, err := localtime.Parse(json.RawMessage(`"America/Chicago"`))
	require.NoError(t, err)
	for _, c := range []struct {
		from, to, bucket string
		want             time.Duration
	}{
		{"2025-10-20T00:00:00Z", "2025-10-30T00:00:00Z", "12h", 12 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "12h", 13 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "1d", 25 * time.Hour},
		{"2025-10-30T00:00:00Z", "2025-11-05T00:00:00Z", "1h", time.Hour},
		{"2025-03-05T00:00:00Z", "2025-03-12T00:00:00Z", "1d", 24 * time.Hour}, // one of 23 hours
	} {
		from, err := time.Parse(time.RFC3339, c.from)
		require.NoError(t, err)
		to, err := time.Parse(time.RFC3339, c.to)
		require.NoError(t, err)
		model := query.Model{QueryType: "allocation", Bucket: c.bucket}
		p, err := kinds.Catalog.Plan(query.Request{Model: model, Window: pool.NewWindow(from, to)},
			query.Env{Zone: zone, SliceMinutes: 15})
		require.NoError(t, err)
		require.Equal(t, c.want, PointDistance(p), "%v", c)
	}
}

// Hours below one read as minutes and those above 48 as days, by the text that JavaScript makes of the number; others
// as they are.
func TestMinutes(t *testing.T) {
	p := planOf(t, `{"queryType": "backfillAvailability", "view": "summary", "groupBy": [], "metrics": ["hours90", "hours50", "used"], "totals": false}`)
	f := Table(p, aboutOf(p), []Row{{Values: []float64{23.0 / 60, 1, 0.5}}})[0]
	text, err := json.Marshal(f.Fields[0].Config.Mappings)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type": "value", "options": {"0.38333333333333336": {"text": "23 min"}}}]`, string(text))
	require.Empty(t, f.Fields[1].Config.Mappings)
	require.Empty(t, f.Fields[2].Config.Mappings, "no hours")
	f = Table(p, aboutOf(p), []Row{{Values: []float64{48, 76.8, 76.8}}})[0]
	require.Empty(t, f.Fields[0].Config.Mappings)
	text, err = json.Marshal(f.Fields[1].Config.Mappings)
	require.NoError(t, err)
	require.JSONEq(t, `[{"type": "value", "options": {"76.8": {"text": "3.2 d"}}}]`, string(text))
	for hours, want := range map[float64]string{0.001: "< 1 min", 0.999: "1 h", 0.99: "59 min", 1.25: "1.3 h",
		30: "30 h"} {
		require.Equal(t, want, Duration(hours))
	}
}

func planOf(t *testing.T, text string) *query.Plan {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	p, err := kinds.Catalog.Plan(query.Request{Model: m, Window: pool.Window{From: 0, To: pool.Day}, IntervalMs: 1},
		query.Env{Zone: localtime.UTC, SliceMinutes: 15})
	require.NoError(t, err)
	return p
}

func aboutOf(p *query.Plan) *About {
	return NewAbout(p, &timeline.View{}, timeline.Coverage{Window: p.Window, Snapshots: 96, Slices: 96, Covered: pool.Day})
}

func texts(t *testing.T, f *data.Frame, name string) (values []string) {
	t.Helper()
	field, at := f.FieldByName(name)
	require.GreaterOrEqual(t, at, 0, name)
	for i := range field.Len() {
		values = append(values, field.At(i).(string))
	}
	return values
}

func names(f *data.Frame) (all []string) {
	for _, field := range f.Fields {
		all = append(all, field.Name)
	}
	return all
}

var nan = math.NaN()

func TestTable(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["category", "device"], "metrics": ["allocatedPercent", "free"]}`)
	rows := func() []Row {
		return []Row{
			{Group: []string{"Open Capacity", "Unknown"}, Values: []float64{nan, 1}},
			{Group: []string{"Backfill (Open Capacity)", "A"}, Values: []float64{50, 2}},
			{Group: []string{"Open Capacity", "Z"}, Values: []float64{25, 3}},
			{Group: []string{"Prioritized (CHTC Owned)", "B"}, Values: []float64{0, 0}},
		}
	}
	frames := Table(p, aboutOf(p), rows(), Total{"Real Slots (total)", []float64{20, 4}})
	require.Len(t, frames, 1)
	f := frames[0]
	require.Equal(t, []string{"category", "device", "allocatedPercent", "free", "rowType"}, names(f))
	require.Equal(t, []string{"Prioritized (CHTC Owned)", "Open Capacity", "Open Capacity", "Backfill (Open Capacity)",
		"Real Slots (total)"}, texts(t, f, "category"))
	require.Equal(t, []string{"B", "Z", "Unknown", "A", ""}, texts(t, f, "device"))
	require.Equal(t, []string{"row", "row", "row", "row", "total"}, texts(t, f, "rowType"))
	require.Nil(t, f.Fields[2].At(2), "no denominator is null")
	require.Equal(t, "percent", f.Fields[2].Config.Unit)
	require.Equal(t, "Allocated %", f.Fields[2].Config.DisplayNameFromDS)
	require.NotEmpty(t, f.Fields[2].Config.Description)
	require.Equal(t, "Shared", f.Fields[0].Config.Custom["keys"].(map[string]any)["Open Capacity"])
	require.Equal(t, data.FrameType("table"), f.Meta.Type)
	require.Equal(t, data.FrameTypeVersion{0, 1}, f.Meta.TypeVersion)
	require.Contains(t, f.Meta.ExecutedQueryString, `"to": "1970-01-02T00:00:00Z"`)
	require.NotEmpty(t, f.Meta.Stats)

	p.Totals, p.Limit = false, 3
	f = Table(p, aboutOf(p), rows(), Total{"Real Slots (total)", []float64{20, 4}})[0]
	require.Equal(t, []string{"category", "device", "allocatedPercent", "free"}, names(f))
	require.Equal(t, []string{"B", "Z", "Unknown"}, texts(t, f, "device"))
	require.Contains(t, explained(f), "Left out by the limit: rows 1: limit: showing 3 of 4 rows")
}

func TestNumericTable(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation", "view": "summary", "metrics": ["allocatedPercent"]}`)
	frames := Table(p, aboutOf(p), []Row{{Group: []string{"Open Capacity"}, Values: []float64{nan}},
		{Group: []string{"Backfill (Open Capacity)"}, Values: []float64{7}}}, Total{"Real Slots (total)", []float64{1}})
	require.Equal(t, []string{"category", "allocatedPercent"}, names(frames[0]))
	require.Equal(t, data.FrameTypeNumericLong, frames[0].Meta.Type)
	require.Equal(t, []string{"Backfill (Open Capacity)"}, texts(t, frames[0], "category"), "no null")
	require.Equal(t, data.FieldTypeFloat64, frames[0].Fields[1].Type())
	require.Equal(t, 7.0, frames[0].Fields[1].At(0))

	frames = Table(p, aboutOf(p), []Row{{Group: []string{"Open Capacity"}, Values: []float64{nan}}})
	require.Empty(t, frames[0].Fields, "nothing left is no data")
	require.Equal(t, data.FrameTypeNumericLong, frames[0].Meta.Type)
}

func TestNoData(t *testing.T) {
	for text, want := range map[string]data.FrameType{
		`{"queryType": "allocation"}`:                                                   "timeseries-multi",
		`{"queryType": "allocation", "view": "stateTimeline"}`:                          "timeseries-multi",
		`{"queryType": "allocation", "view": "summary"}`:                                "table",
		`{"queryType": "allocation", "view": "health", "metrics": ["gpusLost"]}`:        "numeric-long",
		`{"queryType": "evictions", "view": "hourOfWeek"}`:                              "table",
		`{"queryType": "evictions", "view": "survival"}`:                                "table",
		`{"queryType": "backfillAvailability", "view": "periods"}`:                      "table",
		`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"]}`:         "timeseries-multi",
		`{"queryType": "userHours", "metrics": ["gpuHours"]}`:                           "numeric-long",
		`{"queryType": "backfillAvailability", "view": "summary", "metrics": ["used"]}`: "numeric-long",
	} {
		p := planOf(t, text)
		a := aboutOf(p)
		a.Info("%d of them", 3)
		frames := a.Finish(nil)
		require.Len(t, frames, 1)
		require.Empty(t, frames[0].Fields, text)
		require.Equal(t, want, frames[0].Meta.Type, text)
		require.Equal(t, data.FrameTypeVersion{0, 1}, frames[0].Meta.TypeVersion)
		require.Equal(t, "3 of them", frames[0].Meta.Notices[0].Text)
	}
}

func TestHiddenSeries(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation", "metrics": ["free"], "bucket": "1h"}`)
	frames := TimeSeries(p, aboutOf(p), []Series{
		{Group: []string{"Open Capacity"}, Metric: "free", Times: []pool.Micros{0}, Values: []float64{1}},
		{Group: []string{"Backfill (Open Capacity)"}, Metric: "free", Times: []pool.Micros{0}, Values: []float64{0},
			Hidden: true},
	})
	require.Equal(t, map[string]any{"categoryKey": "Shared"}, frames[0].Fields[1].Config.Custom)
	require.Equal(t, map[string]any{
		"categoryKey": "Backfill-OpenCapacity", "hideFrom": map[string]bool{"viz": true, "legend": true, "tooltip": true},
	}, frames[1].Fields[1].Config.Custom, "it still has its value, for alert rules and inspection")
	require.Equal(t, 0.0, frames[1].Fields[1].At(0))
}

func TestUnitsDoNotScale(t *testing.T) {
	p := planOf(t, `{"queryType": "evictions"}`)
	f := Table(p, aboutOf(p), []Row{{Values: make([]float64, len(p.Metrics))}})[0]
	for name, unit := range map[string]string{"runs": "locale", "gpuHours": "GPU h", "lostGpuHours": "GPU h"} {
		field, _ := f.FieldByName(name)
		require.Equal(t, unit, field.Config.Unit, "Grafana makes 3 K of 3,012 short, and 3.2 weeks of 530 h")
	}
	require.EqualValues(t, "table", f.Meta.PreferredVisualization)
}

func TestTimeSeries(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation", "groupBy": ["device", "slots"], "metrics": ["free", "allocated"], "bucket": "1h"}`)
	at := []pool.Micros{0, pool.Hour, 2*pool.Hour + 1}
	frames := TimeSeries(p, aboutOf(p), []Series{
		{[]string{"B", "Real"}, "allocated", at, []float64{1, 2, 3}, false},
		{[]string{"B", "Real"}, "free", at, []float64{nan, 0, math.Inf(1)}, false},
		{[]string{"A", "Backfill"}, "free", at, []float64{4, 5, 6}, false},
		{[]string{"A", "Real"}, "free", at, []float64{nan, nan, nan}, false},
	})
	require.Len(t, frames, 3, "a series without a point is none")
	labels := []data.Labels{
		{"device": "A", "slots": "Backfill", "metric": "free"}, {"device": "B", "slots": "Real", "metric": "free"},
		{"device": "B", "slots": "Real", "metric": "allocated"},
	}
	for i, f := range frames {
		require.Equal(t, labels[i], f.Fields[1].Labels)
		require.Equal(t, labels[i]["metric"], f.Fields[1].Name)
		require.Equal(t, data.FrameTypeTimeSeriesMulti, f.Meta.Type)
		require.Equal(t, data.FrameTypeVersion{0, 1}, f.Meta.TypeVersion)
		require.Equal(t, data.FieldTypeTime, f.Fields[0].Type())
		require.Equal(t, data.FieldTypeFloat64, f.Fields[1].Type())
		require.Equal(t, float64(time.Hour.Milliseconds()), f.Fields[0].Config.Interval)
	}
	require.Equal(t, 1, frames[1].Rows())
	require.Equal(t, time.UnixMilli(3600_000).UTC(), frames[1].Fields[0].At(0))
	require.Equal(t, "A · Backfill · Free (avg.)", frames[0].Fields[1].Config.DisplayNameFromDS)

	// sub-millisecond times survive JSON
	document, err := json.Marshal(frames[2])
	require.NoError(t, err)
	var back data.Frame
	require.NoError(t, json.Unmarshal(document, &back))
	require.Equal(t, pool.Time(at[2]), back.Fields[0].At(2).(time.Time).UTC())

	one := planOf(t, `{"queryType": "allocation", "metrics": ["free"], "bucket": "window", "limit": 1}`)
	frames = TimeSeries(one, aboutOf(one), []Series{{[]string{"Open Capacity"}, "free", at, []float64{1, 2, 3}, false},
		{[]string{"Prioritized (CHTC Owned)"}, "free", at, []float64{1, 2, 3}, false}})
	require.Len(t, frames, 1)
	require.Equal(t, data.Labels{"category": "Prioritized (CHTC Owned)"}, frames[0].Fields[1].Labels,
		"one metric is no label")
	require.Equal(t, "Prioritized (CHTC Owned)", frames[0].Fields[1].Config.DisplayNameFromDS)
	require.Equal(t, "Priority-CHTCOwned", frames[0].Fields[1].Config.Custom["categoryKey"])
	require.Contains(t, explained(frames[0]), "Left out by the limit: series 1: limit: showing 1 of 2 series")
}

func TestHeatMap(t *testing.T) {
	p := planOf(t, `{"queryType": "evictions", "view": "hourOfWeek"}`)
	var week Week
	for day := range week {
		for hour := range week[day] {
			week[day][hour] = float64(100*day + hour)
		}
	}
	week[6][23] = nan
	f := HeatMap(p, aboutOf(p), &week)[0]
	require.Equal(t, 168, f.Rows())
	for i := range 167 {
		x, y := f.Fields[0].At(i).(int64), f.Fields[1].At(i).(int64)
		require.Equal(t, int64(i), 7*x+y, "y is fastest")
		require.Equal(t, float64(100*y+x), *f.Fields[2].At(i).(*float64))
	}
	require.Nil(t, f.Fields[2].At(167))
	require.Equal(t, []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"},
		f.Meta.Custom.(map[string]any)["yOrdinalDisplay"])
}

func TestSurvival(t *testing.T) {
	p := planOf(t, `{"queryType": "evictions", "view": "survival", "groupBy": ["device"], "metrics": ["survival"]}`)
	item := func(entry, exit pool.Micros, fate survival.Fate) survival.Item {
		return survival.Item{Entry: entry * pool.Hour, Exit: exit * pool.Hour, Fate: fate}
	}
	early, late := survival.Cohort{item(0, 4, survival.Censored)}, survival.Cohort{}
	for i := range 5 {
		early = append(early, item(0, 2, survival.Event))
		if i > 0 {
			early = append(early, item(0, 9, survival.Event))
		}
	}
	for i := range 8 {
		exit := []pool.Micros{3, 3, 3, 9}[i%4]
		late = append(late, item(1, exit, survival.Event))
	}
	curves := func(lives ...Lives) data.Frames {
		return Curves(p, aboutOf(p), "survival", "runs", lives, survival.Cohort.KaplanMeier)
	}
	frames := curves(Lives{[]string{"B"}, early}, Lives{[]string{"A"}, late})
	require.Len(t, frames, 1)
	f := frames[0]
	column := func(i int) (values []any) {
		for k := range f.Rows() {
			v, ok := f.Fields[i].ConcreteAt(k)
			if !ok {
				v = nil
			}
			values = append(values, v)
		}
		return values
	}
	require.Equal(t, []any{0.0, 1.0, 2.0, 3.0, 4.0}, column(0))
	require.Equal(t, data.Labels{"device": "A"}, f.Fields[1].Labels)
	require.Equal(t, []any{nil, 1.0, 1.0, 0.25, nil}, column(1), "carried forward within its range, null outside")
	require.Equal(t, []any{1.0, 1.0, 0.5, 0.5, 0.5}, column(2))
	require.Empty(t, curves()[0].Fields)
}

// A curve with both bounds draws them as a band beneath its own name; one without leaves everything to the panel.
func TestSurvivalBands(t *testing.T) {
	p := planOf(t, `{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["category"], "metrics": ["survival", "low", "high", "atRisk"]}`)
	f := curvesOf(p, []string{"Backfill (CHTC Owned)"}, []string{"Backfill (Open Capacity)"})[0]
	var shown []string
	for _, field := range f.Fields[1:] {
		shown = append(shown, field.Config.DisplayNameFromDS)
	}
	require.Equal(t, []string{
		"Backfill (CHTC Owned)", "Backfill (CHTC Owned) · 95% low", "Backfill (CHTC Owned) · 95% high",
		"Backfill (CHTC Owned) · At risk",
		"Backfill (Open Capacity)", "Backfill (Open Capacity) · 95% low", "Backfill (Open Capacity) · 95% high",
		"Backfill (Open Capacity) · At risk",
	}, shown)
	for _, i := range []int{1, 5} {
		curve, low, high, atRisk := f.Fields[i].Config, f.Fields[i+1].Config, f.Fields[i+2].Config, f.Fields[i+3].Config
		require.Equal(t, low.DisplayNameFromDS, high.Custom["fillBelowTo"])
		require.Equal(t, curve.Color, low.Color)
		require.Equal(t, curve.Color, high.Color)
		require.Nil(t, atRisk.Color)
		require.NotContains(t, curve.Custom, "lineWidth")
		require.NotContains(t, low.Custom, "fillBelowTo")
		require.Equal(t, 0, low.Custom["lineWidth"])
		require.Contains(t, low.Custom, "categoryKey")
	}
	require.NotEqual(t, f.Fields[1].Config.Color, f.Fields[5].Config.Color)

	p = planOf(t, `{"queryType": "backfillAvailability", "view": "survival"}`)
	f = curvesOf(p, []string{})[0]
	require.Equal(t, "Survival", f.Fields[1].Config.DisplayNameFromDS)
	require.Equal(t, "95% low", f.Fields[3].Config.Custom["fillBelowTo"])

	p = planOf(t, `{"queryType": "backfillAvailability", "view": "survival", "groupBy": ["category"], "metrics": ["survival", "high"]}`)
	f = curvesOf(p, []string{"Backfill (CHTC Owned)"})[0]
	require.NotContains(t, f.Fields[2].Config.Custom, "fillBelowTo")
	require.Nil(t, f.Fields[1].Config.Color)
}

// An empty text has a name to show: a GPU without a project.
func TestGroupsWithoutAValue(t *testing.T) {
	p := planOf(t, `{"queryType": "userHours", "view": "timeseries", "groupBy": ["project", "device"]}`)
	f := TimeSeries(p, aboutOf(p), []Series{{[]string{"", "A"}, "gpuHours", []pool.Micros{0}, []float64{1}, false}})[0]
	require.Equal(t, "No project · A", f.Fields[1].Config.DisplayNameFromDS)
	require.Equal(t, data.Labels{"project": "", "device": "A"}, f.Fields[1].Labels)

	p = planOf(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["project"]}`)
	f = Table(p, aboutOf(p), []Row{{Group: []string{"", "Real"}, Values: make([]float64, len(p.Metrics))}})[0]
	require.Equal(t, data.ValueMappings{data.ValueMapper{"": {Text: "No project"}}}, f.Fields[0].Config.Mappings)
	p = planOf(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["device", "project"]}`)
	f = Table(p, aboutOf(p), []Row{{Group: []string{"A", "", "Real"}, Values: make([]float64, len(p.Metrics))}})[0]
	require.Nil(t, f.Fields[1].Config.Mappings, "the total has no project either")
}

func TestList(t *testing.T) {
	p := planOf(t, `{"queryType": "evictions", "view": "runs", "limit": 2}`)
	gpus := Rows[int64]{new(int64), new(int64), new(int64)}
	frames := List(p, aboutOf(p), Text("machine", []string{"b", "a", "c"}), Number("hours", []float64{1, nan, 3}),
		Time("start", []pool.Micros{5, NoTime, 7}), gpus.Whole("gpus", func(n *int64) int64 { return *n }),
		gpus.Bool("censored", func(n *int64) bool { return *n > 0 }))
	require.Equal(t, 2, frames[0].Rows())
	require.Nil(t, frames[0].Fields[1].At(1))
	require.Nil(t, frames[0].Fields[2].At(1))
	require.Contains(t, explained(frames[0]), "Left out by the limit: rows 1: limit: showing 2 of 3 rows")
	require.Empty(t, List(p, aboutOf(p), Text("machine", nil))[0].Fields)
}

func TestNoticesOnTheData(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation"}`)
	a := NewAbout(p, &timeline.View{Notices: []timeline.Notice{{Warning: true, Text: "a file is broken"}}},
		timeline.Coverage{
			Window: p.Window, Snapshots: 62, Slices: 61, Covered: 16 * pool.Hour, RowsWithoutGPU: 34,
			Gaps: []timeline.Gap{{From: -pool.Hour, To: pool.Hour}, {From: 10 * pool.Hour, To: 12*pool.Hour + pool.Hour/2}},
			Excluded: []timeline.Excluded{{Exclusion: pool.Exclusion{Pattern: "lab", Reason: "not ours"},
				Machines: []string{"lab1", "lab2", "lab3", "lab4", "lab5", "lab6"}}},
		})
	f := a.Finish(nil)[0]
	var got []string
	for _, n := range f.Meta.Notices {
		got = append(got, n.Severity.String()+" "+n.Text)
	}
	require.Equal(t, []string{
		"warning a file is broken",
		"warning 2 gaps between snapshots, 3.5 h in all, the first from 1969-12-31 23:00:00 to 1970-01-01 01:00:00 UTC",
	}, got)
	require.Equal(t, []string{
		`Machines excluded by "lab" (not ours) 6: lab1, lab2, lab3, lab4, lab5 and 1 more machine excluded by "lab": ` +
			`not ours`,
		"Rows without a GPU id or machine, skipped 34: 34 rows without a GPU id or machine skipped",
		"Coverage 66.66666666666667: coverage 66.67 %: 16 of 24 h, 62 snapshots, 61 slices",
	}, explained(f))
	f = NewAbout(p, &timeline.View{}, timeline.Coverage{Window: p.Window}).Finish(nil)[0]
	require.Equal(t, "no snapshot in the time range", f.Meta.Notices[0].Text)
}

// explained are the statistics of an answer that have a sentence.
func explained(f *data.Frame) (all []string) {
	for _, s := range f.Meta.Stats {
		if s.Description != "" {
			all = append(all, fmt.Sprintf("%s %v: %s", s.DisplayName, s.Value, s.Description))
		}
	}
	return all
}

// Facts about a healthy pool are statistics, because a notice is an icon on each panel.
func TestUsualDataHaveNoNotice(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation"}`)
	coverage := timeline.Coverage{
		Window: p.Window, Snapshots: 95, Slices: 95, Covered: 23*pool.Hour + 50*pool.Minute, RowsWithoutGPU: 34,
		Gaps: []timeline.Gap{{From: 0, To: 25 * pool.Minute}},
		Excluded: []timeline.Excluded{{Exclusion: pool.Exclusion{Pattern: "lab", Reason: "not ours"},
			Machines: []string{"lab1", "lab2"}}},
	}
	usual := &timeline.View{Notices: []timeline.Notice{{Text: "1 snapshot counts nowhere", Stat: "Left out", Count: 1}}}
	f := NewAbout(p, usual, coverage).Finish(nil)[0]
	require.Empty(t, f.Meta.Notices)
	require.Equal(t, []string{
		"Left out 1: 1 snapshot counts nowhere",
		`Machines excluded by "lab" (not ours) 2: lab1, lab2 excluded by "lab": not ours`,
		"Rows without a GPU id or machine, skipped 34: 34 rows without a GPU id or machine skipped",
		"Coverage 99.30555555555556: coverage 99.31 %: 23.83 of 24 h, 95 snapshots, 95 slices",
		"Gaps 1: 1 gap between snapshots, 0.42 h in all, the first from 1970-01-01 00:00:00 to 1970-01-01 00:25:00 UTC",
	}, explained(f))

	coverage.Covered = 7 * pool.Hour
	f = NewAbout(p, usual, coverage).Finish(nil)[0]
	require.Len(t, f.Meta.Notices, 1, "long gaps are not usual")
	require.Contains(t, f.Meta.Notices[0].Text, "1 gap between snapshots")
}

// Gaps warn if they hide more than 5 % of the time with data, however much of the window that is.
func TestSeverityOfGaps(t *testing.T) {
	p := planOf(t, `{"queryType": "allocation"}`)
	for covered, warns := range map[pool.Micros]bool{
		19 * pool.Hour:   false,
		19*pool.Hour - 1: true,
		23 * pool.Hour:   false,
		0:                true,
	} {
		a := NewAbout(p, &timeline.View{}, timeline.Coverage{Window: p.Window, Snapshots: 9, Slices: 9, Covered: covered,
			Gaps: []timeline.Gap{{From: 0, To: pool.Hour}}})
		f := a.Finish(nil)[0]
		require.Equal(t, warns, len(f.Meta.Notices) > 0, covered)
		require.Contains(t, fmt.Sprint(f.Meta.Notices, explained(f)), "1 gap between snapshots")
	}
}

// A cut warns, unless the query itself asks for no more.
func TestSeverityOfCuts(t *testing.T) {
	for limit, warns := range map[int]bool{0: true, 2: false} {
		p := planOf(t, fmt.Sprintf(`{"queryType": "evictions", "view": "runs", "limit": %d}`, limit))
		about := aboutOf(p)
		require.Equal(t, map[int]int{0: 5000, 2: 2}[limit], about.Shown(5001))
		f := about.Finish(nil)[0]
		require.Equal(t, warns, len(f.Meta.Notices) > 0)
		require.Contains(t, fmt.Sprint(f.Meta.Notices, explained(f)), "limit: showing")
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 62113: "62,113", 1234567: "1,234,567",
		-1234: "-1,234", -123: "-123"} {
		require.Equal(t, want, Thousands(n))
	}
	for x, want := range map[float64]string{0: "0", 100: "100", 2.5: "2.5", 1.0 / 3: "0.33", 1234: "1234"} {
		require.Equal(t, want, Decimal(x))
	}
}

// Sentences about curves come in the order of the groups, not in the order of a map.
func TestSentencesAboutCurvesAreInOrder(t *testing.T) {
	p := planOf(t, `{"queryType": "evictions", "view": "survival", "groupBy": ["device"]}`)
	var lives []Lives
	for _, device := range []string{"D", "B", "C", "A"} {
		l := Lives{Group: []string{device}, Items: survival.Cohort{}}
		for i := range pool.Micros(8) {
			l.Items = append(l.Items, survival.Item{Entry: pool.Hour, Exit: (i + 2) * pool.Hour, Fate: survival.Event})
		}
		lives = append(lives, l)
	}
	lives = append(lives, Lives{Group: []string{"E"}, Items: survival.Cohort{}})
	f := Curves(p, aboutOf(p), "survival", "runs", lives, survival.Cohort.AalenJohansen)[0]
	var texts []string
	for _, s := range f.Meta.Stats {
		if s.Description != "" {
			texts = append(texts, s.Description)
		}
	}
	require.Equal(t, []string{
		"survival A: the curve is conditional on reaching 1 h, from where at least 5 runs are at risk",
		"survival B: the curve is conditional on reaching 1 h, from where at least 5 runs are at risk",
		"survival C: the curve is conditional on reaching 1 h, from where at least 5 runs are at risk",
		"survival D: the curve is conditional on reaching 1 h, from where at least 5 runs are at risk",
		"1 group without a curve: never 5 runs at risk",
	}, texts)
}

// Lists begin with the newest items; those of one time stay in order. A limit leaves the oldest out.
func TestNewest(t *testing.T) {
	type item struct{ at, place int64 }
	var list Rows[item]
	for place := range int64(500) {
		list = append(list, &item{rand.Int64N(20), place})
	}
	want := slices.Clone(list)
	slices.SortStableFunc(want, func(x, y *item) int { return cmp.Compare(y.at, x.at) })
	for _, limit := range []int{1, 77, 499, 500, 501} {
		p := planOf(t, fmt.Sprintf(`{"queryType": "evictions", "view": "runs", "limit": %d}`, limit))
		about := aboutOf(p)
		got := Newest(about, slices.Clone(list), func(i *item) pool.Micros { return i.at })
		require.Equal(t, want[:min(limit, len(want))], got)
		require.Equal(t, limit < len(want), strings.Contains(fmt.Sprint(explained(about.Finish(nil)[0])), "limit: showing"))
	}
}
