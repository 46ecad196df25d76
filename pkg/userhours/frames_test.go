package userhours

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The computation is tested with allocation, which shares the count. Here: the frames.

func answer(t *testing.T, text string, h *Hours) []map[string]any {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: m, Window: pool.Window{From: 0, To: pool.Day}, IntervalMs: 1},
		query.Env{Zone: localtime.UTC, SliceMinutes: 15})
	require.NoError(t, err)
	about := frames.NewAbout(p, &timeline.View{}, timeline.Coverage{Window: p.Window})
	return golden.Rows(Frames(h, p, about))
}

func two() *Hours {
	return &Hours{Times: []pool.Micros{0}, Usages: []Usage{
		{[]string{"Open Capacity"}, "ann", []float64{3}, linked.Attributed{}}, {[]string{"Open Capacity"}, "bob",
			[]float64{1}, linked.Attributed{}},
		{[]string{"Backfill (Open Capacity)"}, "ann", []float64{4}, linked.Attributed{}},
	}}
}

func TestSummary(t *testing.T) {
	row := func(category, user any, count, hours, percent any, kind string) map[string]any {
		return map[string]any{"category": category, "user": user, "userCount": count, "gpuHours": hours,
			"percentOfTotal": percent, "rowType": kind}
	}
	require.Equal(t, []map[string]any{
		row("Open Capacity", "", 2.0, 4.0, 50.0, "group"),
		row("Open Capacity", "ann", nil, 3.0, 37.5, "user"),
		row("Open Capacity", "bob", nil, 1.0, 12.5, "user"),
		row("Backfill (Open Capacity)", "", 1.0, 4.0, 50.0, "group"),
		row("Backfill (Open Capacity)", "ann", nil, 4.0, 50.0, "user"),
		row("All", "", 2.0, 8.0, 100.0, "total"),
	}, answer(t, `{"queryType": "userHours"}`, two()))
	require.Empty(t, answer(t, `{"queryType": "userHours"}`, &Hours{}))
	for _, r := range answer(t, `{"queryType": "userHours", "totals": false, "metrics": []}`, two()) {
		require.NotContains(t, r, "rowType")
		require.NotEqual(t, "All", r["category"])
	}
}

// Users lead to their dashboard, also in a table with totals: these name no user.
func TestUsersLeadToTheirDashboard(t *testing.T) {
	model := query.Model{QueryType: "userHours", GroupBy: []string{"machine"}}
	p, err := query.Catalog{Kind}.Plan(query.Request{Model: model,
		Window: pool.Window{From: 0, To: pool.Day}}, query.Env{Zone: localtime.UTC, SliceMinutes: 15, LinksFrom: "uid"})
	require.NoError(t, err)
	require.True(t, p.Totals)
	fields := Frames(two(), p, frames.Plain(p))[0].Fields
	require.Empty(t, fields[0].Config.Links, "there is the total's name")
	require.Len(t, fields[1].Config.Links, 1)
}

// One metric named: a number a group.
func TestSummaryOfOneMetric(t *testing.T) {
	require.Equal(t, []map[string]any{{"category": "Open Capacity", "gpuHours": 4.0},
		{"category": "Backfill (Open Capacity)", "gpuHours": 4.0}},
		answer(t, `{"queryType": "userHours", "metrics": ["gpuHours"]}`, two()))
}

func TestSeriesOfUsers(t *testing.T) {
	h := &Hours{Times: []pool.Micros{0, pool.Hour}, Usages: []Usage{
		{[]string{"A"}, "ann", []float64{1, 2}, linked.Attributed{}}, {[]string{"A"}, "bob", []float64{5, 0},
			linked.Attributed{}},
		{[]string{"B"}, "cyd", []float64{0, 1}, linked.Attributed{}}, {[]string{"B"}, "ann", []float64{1, 0},
			linked.Attributed{}},
	}}
	rows := answer(t, `{"queryType": "userHours", "view": "timeseries", "groupBy": ["device", "user"], "limit": 2}`, h)
	var values []any
	for _, r := range rows {
		values = append(values, r["gpuHours"])
	}
	require.Equal(t, []any{1.0, 2.0, 5.0, 0.0, 1.0, 0.0, 0.0, 1.0}, values, "A ann, A bob, B ann, B Other")
}
