package frames_test

import (
	"encoding/json"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	. "github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
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
		lives = append(lives, Lives{group, survival.CohortOf(items)})
	}
	return Curves(p, aboutOf(p), "tenure", "GPUs", lives, (*survival.Cohort).KaplanMeier)
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
