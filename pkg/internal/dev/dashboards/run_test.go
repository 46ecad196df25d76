package dashboards

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/plugintest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/query"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	code := m.Run()
	jobstest.StopServers()
	os.Exit(code)
}

// samplePool is a small pool of eight days, its directory and its end.
func samplePool(t *testing.T) (dir string, end time.Time) {
	t.Helper()
	o := samplepool.Default()
	o.Machines, o.GPUs = 10, 40
	o.End = time.Date(2025, 11, 9, 12, 0, 0, 0, time.UTC)
	o.Start = o.End.AddDate(0, 0, -9)
	o.Timezone, o.Cadence, o.Crowded = "UTC", 30*time.Minute, 30
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, p.Write(context.Background(), dir))
	return dir, o.End
}

// openSource opens a data source on a pool's directory whose clock is fixed at now.
func openSource(t *testing.T, dir string, now time.Time) *plugin.Datasource {
	t.Helper()
	settings, err := json.Marshal(map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	require.NoError(t, err)
	d := plugin.Open(backend.DataSourceInstanceSettings{UID: SourceUID, Type: pluginID, JSONData: settings},
		func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// answer asks one query as Grafana does.
func answer(t *testing.T, d *plugin.Datasource, text json.RawMessage, from, to time.Time,
	fromAlert bool) backend.DataResponse {
	t.Helper()
	request := &backend.QueryDataRequest{Queries: []backend.DataQuery{{
		RefID: "A", JSON: text, TimeRange: backend.TimeRange{From: from, To: to}, Interval: to.Sub(from)/500 + time.Second,
		MaxDataPoints: 500,
	}}}
	if fromAlert {
		request.Headers = map[string]string{"FromAlert": "true"}
		request.Queries[0].Interval, request.Queries[0].MaxDataPoints = time.Second, 43200
	}
	response, err := d.QueryData(context.Background(), request)
	require.NoError(t, err)
	return response.Responses["A"]
}

// offered are the values that a variable offers.
func offered(t *testing.T, d *plugin.Datasource, v Variable, from, to time.Time) []string {
	t.Helper()
	filter, err := json.Marshal(filled(v.Filter, nil))
	require.NoError(t, err)
	parameters := url.Values{"filter": {string(filter)}, "from": {fmt.Sprint(from.UnixMilli())},
		"to": {fmt.Sprint(to.UnixMilli())}}
	var values []string
	send := backend.CallResourceResponseSenderFunc(func(response *backend.CallResourceResponse) error {
		require.Equal(t, 200, response.Status, "%s: %s", v.Name, response.Body)
		var options []struct{ Text, Value string }
		require.NoError(t, json.Unmarshal(response.Body, &options))
		for _, o := range options {
			if o.Value != query.Unknown || v.Regex == "" { // which the expression leaves out
				values = append(values, o.Value)
			}
		}
		return nil
	})
	require.NoError(t, d.CallResource(context.Background(), &backend.CallResourceRequest{
		Method: "GET", Path: "values/" + v.Dimension, URL: "values/" + v.Dimension + "?" + parameters.Encode(),
	}, send))
	return values
}

// window is a time range that a dashboard is looked at.
type window struct {
	name     string
	from, to time.Time
	empty    bool
}

func TestEveryPanelIsAnswered(t *testing.T) {
	dir, end := samplePool(t)
	nobody := emptyPool(t)
	full := openSource(t, dir, end)
	for _, c := range []struct {
		source *plugin.Datasource
		window
	}{
		{full, window{"a week", end.AddDate(0, 0, -7), end, false}},
		{full, window{"two hours", end.Add(-2 * time.Hour), end, false}},
		{full, window{"before the data", end.AddDate(-1, 0, 0), end.AddDate(-1, 0, 7), true}},
		{openSource(t, nobody, end), window{"an empty pool", end.AddDate(0, 0, -7), end, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := names{}
			var icons []string
			for _, d := range All() {
				values := map[string][]string{}
				for _, v := range d.Variables {
					if v.Dimension == "" {
						continue
					}
					found := offered(t, c.source, v, c.from, c.to)
					require.Equal(t, c.empty, len(found) == 0, "variable %s: %v", v.Name, found)
					if v.Single && len(found) > 0 {
						values[v.Name] = found[:1]
					}
				}
				for _, p := range d.allPanels() {
					where := d.UID + ": " + p.Title
					for _, q := range p.queries() {
						response := answer(t, c.source, withValues(t, q, values), c.from, c.to, false)
						require.NoError(t, response.Error, where)
						// what is of now has data whatever the time range
						empty := c.empty && (q.Last == "" || c.name == "an empty pool")
						require.NoError(t, fits(p, q, response.Frames, empty), where)
						// Of the period before, the pool's data are too short.
						if !c.empty && !q.Previous {
							for _, n := range response.Frames[0].Meta.Notices {
								icons = append(icons, where+": "+n.Text)
							}
						}
						seen.add(response.Frames)
					}
				}
				for _, a := range d.Annotations {
					response := answer(t, c.source, withValues(t, a.Query, values), c.from, c.to, false)
					require.NoError(t, response.Error, "%s: %s", d.UID, a.Name)
				}
			}
			require.Empty(t, icons, "panels of a healthy pool have notices")
			if c.name == "a week" {
				seen.requireOverrides(t, All())
			}
		})
	}
}

// emptyPool is a directory with a month file that has no row.
func emptyPool(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	o := samplepool.Default()
	o.Start, o.End = time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 1, 0, 0, 0, time.UTC)
	o.Timezone = "UTC"
	p, err := samplepool.New(o)
	require.NoError(t, err)
	require.NoError(t, p.WriteSnapshots(context.Background(), dir))
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.db"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	emptyTable(t, files[0])
	return dir
}

// fits checks that a panel can show an answer.
func fits(p Panel, q Query, frames data.Frames, empty bool) error {
	shape := q.view().Frame
	want := map[string]data.FrameType{
		query.FrameSeries: data.FrameTypeTimeSeriesMulti, query.FrameHeatMap: "heatmap-cells",
		query.FrameStateTimeline: data.FrameTypeTimeSeriesMulti,
	}[shape]
	if empty && shape == query.FrameHeatMap {
		want = "" // the panel takes cells without fields for an error
	}
	if len(frames) == 0 {
		return fmt.Errorf("no frame")
	}
	for _, f := range frames {
		switch {
		case f.Meta == nil || f.Meta.TypeVersion != data.FrameTypeVersion{0, 1}:
			return fmt.Errorf("a frame without version")
		case want != "" && f.Meta.Type != want:
			return fmt.Errorf("%s shows frames of type %s, not %s", p.View.Type, want, f.Meta.Type)
		case want == "" && f.Meta.Type != data.FrameTypeTable && f.Meta.Type != data.FrameTypeNumericLong:
			return fmt.Errorf("%s shows tables, not %s", p.View.Type, f.Meta.Type)
		case len(f.Fields) == 0 && len(frames) > 1:
			return fmt.Errorf("no data beside data")
		}
	}
	if empty && len(frames[0].Fields) > 0 && q.View != "health" {
		return fmt.Errorf("data where there are none")
	}
	if len(frames[0].Fields) == 0 {
		return nil
	}
	if shape == query.FrameSeries {
		_, err := plugintest.Alertable(frames)
		return err
	}
	switch p.View.Type {
	case "state-timeline":
		for _, f := range frames {
			if len(f.Fields) != 2 || f.Fields[0].Type() != data.FieldTypeTime || len(f.Fields[1].Config.Mappings) == 0 {
				return fmt.Errorf("a time and states with mappings are wanted")
			}
		}
	case "heatmap":
		if rows := frames[0].Rows(); rows != 7*24 {
			return fmt.Errorf("%d cells", rows)
		}
	case "trend":
		x := frames[0].Fields[0]
		if len(frames) != 1 || x.Name != p.View.Options["xField"] {
			return fmt.Errorf("a trend wants one frame that begins with %s", p.View.Options["xField"])
		}
		for i := 1; i < x.Len(); i++ {
			if x.At(i).(float64) <= x.At(i-1).(float64) {
				return fmt.Errorf("%s does not ascend", x.Name)
			}
		}
	case "stat":
		pattern := p.View.Options["reduceOptions"].(object)["fields"].(string)
		calculated := slices.ContainsFunc(p.Transformations, func(t Transformation) bool {
			alias, ok := t.Options["alias"].(string)
			return ok && regexp.MustCompile(strings.Trim(pattern, "/")).MatchString(alias)
		}) || slices.ContainsFunc(p.View.Overrides, func(o Override) bool {
			name, ok := o.Properties["displayName"].(string)
			return ok && regexp.MustCompile(strings.Trim(pattern, "/")).MatchString(name)
		})
		if !calculated && !slices.ContainsFunc(frames[0].Fields, func(f *data.Field) bool {
			return regexp.MustCompile(strings.Trim(pattern, "/")).MatchString(f.Config.DisplayNameFromDS)
		}) {
			return fmt.Errorf("no field is called %s", pattern)
		}
	}
	return nil
}

// names are what fields are called in answers, and texts that a transformation can make names of.
type names map[string]bool

func (n names) add(frames data.Frames) {
	for _, f := range frames {
		for _, field := range f.Fields {
			n[field.Name] = true
			if field.Config != nil {
				n[field.Config.DisplayNameFromDS] = true
			}
			for i := 0; field.Name == "to" && i < field.Len(); i++ {
				n[field.At(i).(string)] = true
			}
		}
	}
}

// after are the names that transformations leave.
func (n names) after(all []Transformation) names {
	for _, t := range all {
		if t.ID != "renameByRegex" {
			continue
		}
		before := n
		n = names{}
		for name := range before {
			n[regexp.MustCompile(t.Options["regex"].(string)).ReplaceAllString(name, "${1}")] = true
		}
	}
	return n
}

// requireOverrides checks that no override is for a field that nothing is called.
func (n names) requireOverrides(t *testing.T, all []Dashboard) {
	t.Helper()
	// need not occur in a small pool
	rare := []string{"drain or maintenance", "fault", "user or rank preemption", "unknown", "blocked", "absent", "48GB",
		"any", ">8", "5-8", "3-4", "change"}
	for _, grouping := range []query.Grouping{query.ByObstacle, query.ByReason} {
		rare = slices.AppendSeq(rare, maps.Values(query.Groupings[grouping].Shown))
	}
	for _, d := range all {
		for _, p := range d.allPanels() {
			made, err := json.Marshal(p.Transformations)
			require.NoError(t, err)
			known := n.after(p.Transformations)
			for _, o := range p.View.Overrides {
				asked := regexp.MustCompile(` \((sum|count)\)$`).ReplaceAllString(o.Field, "") // an aggregation's name
				byTransformation := strings.HasPrefix(o.Field, "\x00") || strings.Contains(string(made), strconv.Quote(asked))
				require.True(t, known[o.Field] || byTransformation || slices.Contains(rare, o.Field),
					"%s: %s: no field is called %q", d.UID, p.Title, o.Field)
			}
		}
	}
}

// results are what a rule's queries give, by name and label set, as the alert engine sees it.
func results(t *testing.T, d *plugin.Datasource, r Rule, now time.Time) map[string]map[string]plugintest.Value {
	t.Helper()
	all := map[string]map[string]plugintest.Value{}
	for i, q := range r.Queries {
		response := answer(t, d, withValues(t, q.Query, nil), now.Add(-q.Since), now.Add(-q.Until), true)
		require.NoError(t, response.Error, r.Title)
		values, err := plugintest.Alertable(response.Frames)
		require.NoError(t, err, r.Title)
		for key, v := range values {
			if q.Reduce != "" {
				require.Equal(t, "min", q.Reduce)
				v.Points = []float64{slices.Min(v.Points)}
				values[key] = v
			}
			require.Len(t, v.Points, 1)
		}
		all[refIDs[i:i+1]] = values
	}
	return all
}

// firing evaluates a condition for each label set that all its variables have.
func firing(t *testing.T, condition string, values map[string]map[string]plugintest.Value) (fires map[string]bool) {
	t.Helper()
	fires = map[string]bool{}
	for key := range values["A"] {
		expression, known := condition, 0
		for name, v := range values {
			if one, ok := v[key]; ok {
				expression = strings.ReplaceAll(expression, "$"+name, fmt.Sprintf("(%v)", one.Points[0]))
				known++
			}
		}
		if known == len(values) {
			result, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
			require.NoError(t, err, expression)
			fires[key] = constant.BoolVal(result.Value)
		}
	}
	return fires
}

func TestEveryRuleIsAnswered(t *testing.T) {
	dir, end := samplePool(t)
	d := openSource(t, dir, end)
	for _, r := range Rules() {
		values := results(t, d, r, end)
		for name, v := range values {
			require.NotEmpty(t, v, "%s: $%s", r.Title, name)
		}
		require.NotEmpty(t, firing(t, r.Condition, values), "%s: no label set is in all of %v", r.Title,
			slices.Sorted(maps.Keys(values)))
	}
	// no snapshot in the time range, none at all
	for _, nothing := range []*plugin.Datasource{openSource(t, dir, end.AddDate(-1, 0, 0)),
		openSource(t, emptyPool(t), end)} {
		for _, r := range Rules() {
			for name, v := range results(t, nothing, r, end.AddDate(-1, 0, 0)) {
				if r.Queries[0].View != "health" {
					require.Empty(t, v, "%s: $%s", r.Title, name)
				}
			}
		}
	}
}

// A rule fires when it should, and only then: that on old snapshots, and those whose conditions combine queries.
func TestRulesFire(t *testing.T) {
	dir, end := samplePool(t)
	for later, want := range map[time.Duration]bool{0: false, 2 * time.Hour: true} {
		d := openSource(t, dir, end.Add(later))
		stale := ruleOf(t, "gpureports-stale")
		require.Equal(t, map[string]bool{"": want}, firing(t, stale.Condition, results(t, d, stale, end.Add(later))), later)
	}
	for _, example := range []struct {
		uid     string
		numbers []float64 // of $A, $B …
		fires   bool
	}{
		{"gpureports-vanished", []float64{8, 300}, true}, {"gpureports-vanished", []float64{4, 300}, false},
		{"gpureports-evictions", []float64{30, 10, 9}, true}, {"gpureports-evictions", []float64{30, 9, 9}, false},
		{"gpureports-evictions", []float64{27, 50, 9}, false}, {"gpureports-supply", []float64{1, 3, 2, 8}, true},
		{"gpureports-supply", []float64{2, 3, 2, 8}, false}, {"gpureports-supply", []float64{0, 0, 1, 3}, false},
	} {
		values := map[string]map[string]plugintest.Value{}
		for i, x := range example.numbers {
			values[refIDs[i:i+1]] = map[string]plugintest.Value{"": {Points: []float64{x}}}
		}
		require.Equal(t, map[string]bool{"": example.fires}, firing(t, ruleOf(t, example.uid).Condition, values), example)
	}
}

// The rule on idle GPUs counts those that the panel which it leads to lists.
func TestIdleRuleCountsItsList(t *testing.T) {
	dir, end := samplePool(t)
	rule := ruleOf(t, "gpureports-idle")
	found := 0
	for hours := range 36 {
		now := end.Add(-time.Duration(hours) * 5 * time.Hour)
		d := openSource(t, dir, now)
		listed := map[string]float64{}
		for _, row := range golden.Rows(answer(t, d, withValues(t, ask("utilization", "idle"), nil), now.AddDate(0, 0, -7),
			now, false).Frames) {
			listed[row["device"].(string)] += row["gpus"].(float64)
		}
		counted := map[string]float64{}
		for _, v := range results(t, d, rule, now)["A"] {
			if v.Points[0] > 0 {
				counted[v.Labels["device"]] = v.Points[0]
			}
		}
		require.Equal(t, listed, counted, now)
		found += len(listed)
	}
	require.Positive(t, found)
}

func ruleOf(t *testing.T, uid string) Rule {
	t.Helper()
	i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.UID == uid })
	require.GreaterOrEqual(t, i, 0, uid)
	return Rules()[i]
}

// emptyTable takes all rows out of a month file.
func emptyTable(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	_, err = db.ExecContext(context.Background(), "DELETE FROM gpu_state")
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
