package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

// realNames finds users and jobs of the sample pool.
var realNames = regexp.MustCompile(`user\d{3}|"osg"|osg@|@ospool|#\d+\.\d+#`)

// openPseudonymous opens a data source that shows names to editors only.
func openPseudonymous(t *testing.T, o samplepool.Options, dir string) *Datasource {
	t.Helper()
	settings := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "userNames": "pseudonyms"})
	settings.DecryptedSecureJSONData = map[string]string{"pseudonymSecret": "correct horse battery"}
	d := Open(settings, o.End.UTC)
	t.Cleanup(d.Dispose)
	return d
}

// someone asks with a role; "" is someone whom Grafana does not name.
func someone(role string) backend.PluginContext {
	if role == "" {
		return backend.PluginContext{}
	}
	return backend.PluginContext{User: &backend.User{Login: "visitor", Role: role}}
}

// askAs asks with a role, and returns the answers in JSON, by query.
func askAs(t *testing.T, d *Datasource, role string, fromAlert bool, queries ...backend.DataQuery) []string {
	t.Helper()
	request := &backend.QueryDataRequest{PluginContext: someone(role), Queries: queries}
	if fromAlert {
		request.Headers = map[string]string{"FromAlert": "true"}
	}
	r, err := d.QueryData(t.Context(), request)
	require.NoError(t, err)
	texts := make([]string, len(queries))
	for i, q := range queries {
		answer := r.Responses[q.RefID]
		for _, f := range answer.Frames {
			f.Meta.Stats = nil // how the answer was made
		}
		text, err := answer.MarshalJSON()
		require.NoError(t, err)
		texts[i] = string(text)
	}
	return texts
}

// everyQuestion is every view of every kind by no grouping, by each, by each with user, and by all; with all metrics
// and with each. So a new kind, view, grouping or metric is among them.
func everyQuestion() (models []query.Model) {
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			groups := [][]string{{}, view.GroupBy}
			for _, g := range view.GroupBy {
				groups = append(groups, []string{g})
				if g != "user" && slices.Contains(view.GroupBy, "user") {
					groups = append(groups, []string{g, "user"})
				}
			}
			for _, by := range groups {
				models = append(models, query.Model{QueryType: kind.Name, View: view.Name, GroupBy: by, Metrics: view.Metrics})
			}
			for _, metric := range view.Metrics {
				models = append(models, query.Model{QueryType: kind.Name, View: view.Name, Metrics: []string{metric}})
			}
		}
	}
	return models
}

func queriesOf(t *testing.T, o samplepool.Options, models []query.Model) (queries []backend.DataQuery) {
	t.Helper()
	for i, m := range models {
		text, err := json.Marshal(m)
		require.NoError(t, err)
		queries = append(queries, queryOf(t, o, fmt.Sprint(i), string(text)))
	}
	return queries
}

func TestNoNamePasses(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := openPseudonymous(t, o, dir)
	queries := queriesOf(t, o, everyQuestion())
	named, numbered := 0, 0
	for i, text := range askAs(t, d, "Editor", false, queries...) {
		if realNames.MatchString(text) {
			named++
		}
		require.NotContains(t, text, "User ", "%s", queries[i].JSON)
	}
	require.Greater(t, named, 60, "there are names to hide")
	for _, asker := range []struct {
		role      string
		fromAlert bool
	}{{"Viewer", false}, {"", false}, {"Admin", true}} {
		for i, text := range askAs(t, d, asker.role, asker.fromAlert, queries...) {
			require.Empty(t, realNames.FindAllString(text, 3), "%+v: %s", asker, queries[i].JSON)
			if strings.Contains(text, "User ") {
				numbered++
			}
			require.NotContains(t, text, "please report", "%s", queries[i].JSON)
		}
	}
	require.Greater(t, numbered, named)

	for _, dimension := range query.Dimensions {
		for _, filter := range []string{"", `{"users": ["/./"]}`,
			`{"users": ["!user001@chtc.example.org", "user002@chtc.example.org"]}`} {
			for _, role := range []string{"Viewer", ""} {
				_, _, body := getAs(t, d, role, "values/"+dimension, url.Values{"filter": {filter}})
				require.Empty(t, realNames.FindAllString(string(body), 3), "%s %s", dimension, filter)
			}
		}
	}
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone("Viewer")})
	require.NoError(t, err)
	require.Equal(t, backend.HealthStatusOk, health.Status, health.Message)
	require.Empty(t, realNames.FindAllString(health.Message+string(health.JSONDetails), 3))
}

// Jobs that tie are in the order of what is shown: that of their ids would reveal whose they are.
func TestTiesAreInTheOrderShown(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := openPseudonymous(t, o, dir)
	for model, tied := range map[string][]string{
		`{"queryType": "evictions", "view": "jobs"}`: {"evictions", "lostGpuHours"},
		`{"queryType": "demand", "view": "waiting"}`: {"since"},
	} {
		ties := 0
		for h := 2; h < 34; h++ {
			q := queryOf(t, o, "A", model)
			q.TimeRange.To = q.TimeRange.From.Add(time.Duration(h) * time.Hour)
			r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{PluginContext: someone("Viewer"),
				Queries: []backend.DataQuery{q}})
			require.NoError(t, err)
			require.NoError(t, r.Responses["A"].Error)
			rows := golden.Rows(r.Responses["A"].Frames)
			for i := 1; i < len(rows); i++ {
				if !slices.ContainsFunc(tied, func(name string) bool { return rows[i-1][name] != rows[i][name] }) {
					ties++
					require.Less(t, rows[i-1]["job"], rows[i]["job"])
				}
			}
		}
		require.Positive(t, ties, model)
	}
}

func TestWhoSeesNames(t *testing.T) {
	o := small()
	d := openPseudonymous(t, o, t.TempDir())
	for role, sees := range map[string]bool{"Viewer": false, "Editor": true, "Admin": true, "": false, "None": false,
		"editor": false, "Grafana Admin": false} {
		for _, fromAlert := range []bool{false, true} {
			naming := d.naming(someone(role).User, fromAlert)
			require.Equal(t, sees && !fromAlert, naming.User == nil, "%s %t", role, fromAlert)
			require.Equal(t, sees, slices.Contains(naming.Taken("alice"), "alice"), "%s %t", role, fromAlert)
		}
	}
}

// getAs is get with a role.
func getAs(t *testing.T, d *Datasource, role, path string, parameters url.Values) (status int,
	header map[string][]string,
	body []byte) {
	t.Helper()
	require.NoError(t, d.CallResource(context.Background(), &backend.CallResourceRequest{PluginContext: someone(role),
		Method: "GET", Path: path, URL: path + "?" + parameters.Encode()},
		backend.CallResourceResponseSenderFunc(func(r *backend.CallResourceResponse) error {
			status, header = r.Status, r.Headers
			body = append(body, r.Body...)
			return nil
		})))
	return status, header, body
}

// The same figures under other names: each user's row of an editor is the row of one pseudonym of a viewer.
func TestPseudonymsChangeNoFigure(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := openPseudonymous(t, o, dir)
	hours := func(role, filter string) map[string]float64 {
		model := `{"queryType": "userHours", "view": "summary", "groupBy": [], "filter": ` + filter + `}`
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{PluginContext: someone(role),
			Queries: []backend.DataQuery{queryOf(t, o, "A", model)}})
		require.NoError(t, err)
		require.NoError(t, r.Responses["A"].Error)
		found := map[string]float64{}
		for _, frame := range r.Responses["A"].Frames {
			user, hours, rows := fieldOf(frame, "user"), fieldOf(frame, "gpuHours"), fieldOf(frame, "rowType")
			for i := 0; user != nil && i < user.Len(); i++ {
				if rows.At(i) != "user" {
					continue
				}
				value, err := hours.FloatAt(i)
				require.NoError(t, err)
				found[user.At(i).(string)] = value
			}
		}
		return found
	}
	names, numbers := hours("Admin", "{}"), hours("Viewer", "{}")
	require.Greater(t, len(names), 5)
	require.Len(t, numbers, len(names))
	for name, value := range names {
		pseudonym := name
		if name != query.Unknown && name != "" {
			pseudonym = d.names.user(name)
		}
		require.InDelta(t, value, numbers[pseudonym], 1e-9, name)
		filter := func(entry string) string {
			text, err := json.Marshal(map[string][]string{"users": {entry}})
			require.NoError(t, err)
			return string(text)
		}
		if pseudonym == name {
			continue
		}
		require.Equal(t, map[string]float64{pseudonym: value}, hours("Viewer", filter(pseudonym)))
		require.Empty(t, hours("Viewer", filter(name)), "a name chooses nothing")
		require.Equal(t, map[string]float64{name: value}, hours("Editor", filter(name)))
		require.Equal(t, map[string]float64{name: value}, hours("Editor", filter(pseudonym)), "editors can look up who it is")
		others := hours("Viewer", filter("!"+pseudonym))
		require.Len(t, others, len(numbers)-1)
		require.NotContains(t, others, pseudonym)
		require.Len(t, hours("Viewer", filter("/^"+pseudonym+"$/")), 1)
	}
}

func fieldOf(frame *data.Frame, name string) *data.Field {
	f, _ := frame.FieldByName(name)
	return f
}

// A filter reveals nothing about names to viewers: in every query, a real name is answered like one that does not
// exist, and a pattern over names as one over nothing.
func TestFiltersTellNothing(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := openPseudonymous(t, o, dir)
	var models, unknown []query.Model
	for i, m := range everyQuestion() {
		if !slices.Contains(kinds.Catalog.Kind(m.QueryType).View(m.View).Filters, "users") || len(m.Metrics) == 1 {
			continue
		}
		for k, shape := range []string{"%s@chtc.example.org", "!%s@chtc.example.org", "/%s/", "!/^%s/"} {
			name := fmt.Sprintf("user%03d", (i+k)%10)
			asked := m
			asked.Filter.Users = []string{fmt.Sprintf(shape, name)}
			models = append(models, asked)
			asked.Filter.Users = []string{fmt.Sprintf(shape, strings.Replace(name, "user", "nope", 1))}
			unknown = append(unknown, asked)
		}
	}
	require.Greater(t, len(models), 100)
	want, got := askAs(t, d, "Viewer", false, queriesOf(t, o, unknown)...),
		askAs(t, d, "Viewer", false, queriesOf(t, o, models)...)
	for i := range models {
		// the query's own text is in the executed query and in the notice that nothing matches
		require.Equal(t, strings.ReplaceAll(want[i], "nope", "user"), got[i], "%+v", models[i])
	}
}

func TestPseudonymsAreStable(t *testing.T) {
	one, err := newPseudonyms("correct horse battery")
	require.NoError(t, err)
	two, err := newPseudonyms("correct horse battery")
	require.NoError(t, err)
	other, err := newPseudonyms("incorrect horse battery")
	require.NoError(t, err)
	const users = 20_000
	seen := map[string]bool{}
	same := 0
	for i := range users {
		shown := one.user(fmt.Sprint("user", i))
		require.Regexp(t, numbered, shown)
		require.False(t, seen[shown], "two users have one number")
		seen[shown] = true
		if other.user(fmt.Sprint("user", i)) == shown {
			same++
		}
	}
	require.Less(t, same, 3, "another secret, other numbers")
	for i := users - 1; i >= 0; i-- { // met in another order, among fewer
		if i%3 == 0 {
			require.Equal(t, one.user(fmt.Sprint("user", i)), two.user(fmt.Sprint("user", i)))
		}
	}
	require.NotEqual(t, one.job("ap#1.0#1"), one.job("ap#1.1#1"))
}

// Two users whose numbers are equal stay two.
func TestPseudonymsDoNotCollide(t *testing.T) {
	p, err := newPseudonyms("correct horse battery")
	require.NoError(t, err)
	first := p.user("alice")
	q, err := newPseudonyms("correct horse battery")
	require.NoError(t, err)
	q.taken[first] = true
	require.NotEqual(t, first, q.user("alice"))
	require.Equal(t, q.user("alice"), q.user("alice"))
}

func TestPseudonymsNeedASecret(t *testing.T) {
	d := open(t, small().End, map[string]any{"snapshotDir": t.TempDir(), "userNames": "pseudonyms"})
	r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{
		queryOf(t, small(), "A", `{"queryType": "allocation"}`)}})
	require.NoError(t, err)
	require.ErrorContains(t, r.Responses["A"].Error, "pseudonymSecret")
	_, err = ParseSettings(json.RawMessage(`{"snapshotDir": "/data", "userNames": "initials"}`))
	require.ErrorContains(t, err, "full or pseudonyms")
}

// What a kind forgets is refused, not shown.
func TestForgottenNamesAreRefused(t *testing.T) {
	p, err := newPseudonyms("correct horse battery")
	require.NoError(t, err)
	naming := query.Naming{User: p.user, Job: p.job}
	question := query.Request{Model: query.Model{QueryType: "evictions", View: "events"}}
	question.Asked, err = kinds.Catalog.Find(question.QueryType, question.View)
	require.NoError(t, err)
	labelled := data.NewField("evictions", data.Labels{"user": "alice"}, []float64{1})
	for name, field := range map[string]*data.Field{
		"user":  data.NewField("user", nil, []string{"User 1", "alice"}),
		"job":   data.NewField("job", nil, []string{"ap#1.0#1"}),
		"taken": data.NewField("takenOverBy", nil, []string{"alice"}), "label": labelled,
	} {
		err := p.check(naming, question, data.Frames{data.NewFrame("", field)})
		require.ErrorContains(t, err, "only pseudonyms", name)
		require.NotContains(t, err.Error(), "alice")
		require.NoError(t, p.check(query.Naming{}, question, data.Frames{data.NewFrame("", field)}), name)
	}
	fine := data.NewFrame("", data.NewField("user", nil, []string{"User 1", "", "Unknown"}),
		data.NewField("job", nil, []string{"Job 7", "", ""}), data.NewField("machine", nil, []string{"a", "b", "c"}))
	require.NoError(t, p.check(naming, question, data.Frames{fine}))
}
