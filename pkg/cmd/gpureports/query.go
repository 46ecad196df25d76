package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type queryCommand struct {
	Settings string `required:"" type:"path" placeholder:"FILE" help:"The data source's settings: {\"url\": …, \"jsonData\": {…}, \"secureJsonData\": {…}}."`
	Query    string `required:"" placeholder:"FILE" help:"A query or a list of queries in JSON; - reads them from standard input."`
	From     string `required:"" placeholder:"T" help:"Start of the time range: RFC 3339 or now-24h."`
	To       string `required:"" placeholder:"T" help:"End of the time range."`
	Format   string `enum:"table,json,csv,html" default:"table" help:"table, json, csv or html."`
	asking
}

// Run answers the queries, each on its own.
func (q *queryCommand) Run(ctx context.Context, c *cli.Console) error {
	window, err := cli.ParseWindow(q.From, q.To, c.Now)
	if err != nil {
		return err
	}
	queries, err := cli.ReadQueries(q.Query, c.In)
	if err != nil {
		return err
	}
	settings, err := cli.ReadSettings(q.Settings)
	if err != nil {
		return cli.Usage("%w", err)
	}
	source, err := q.open(settings, c)
	if err != nil {
		return err
	}
	defer source.Dispose()
	stop := cli.Working(c.Err, "Answering")
	answers, err := cli.Ask(ctx, source, queries, window)
	stop()
	if err != nil {
		return err
	}
	layout := report.Options{Title: "Answers", From: window.From, To: window.To}
	if err := writers[q.Format](c.Out, c.Err, layout, answers); err != nil {
		return fmt.Errorf("writing the answers: %w", err)
	}
	failed := 0
	for _, a := range answers {
		if a.Error != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d queries failed", failed, len(answers))
	}
	return nil
}

// asking has the options for the identity of the caller and for excluded users. By default names are shown, because the
// caller can read the settings and the files.
type asking struct {
	Pseudonyms  bool     `help:"Show users and jobs as viewers see them if the setting userNames is pseudonyms."`
	ExcludeUser []string `placeholder:"USER" help:"Leave out these users, by name or /pattern/, in answers about users. Denominators still count all GPUs and hours of the pool."`
}

// asked is a data source with the user of its queries.
type asked struct {
	*plugin.Datasource
	user     *backend.User
	excluded []string // entries of filter.users
}

// QueryData answers queries.
func (a asked) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	by := *req
	by.PluginContext.User = a.user
	by.Queries = slices.Clone(req.Queries)
	for i := range by.Queries {
		if err := exclude(&by.Queries[i], a.excluded); err != nil {
			return nil, fmt.Errorf("--exclude-user: %w", err)
		}
	}
	return a.Datasource.QueryData(ctx, &by)
}

// exclude adds entries to a query's filter of users, if its view takes that filter: if users are not distinguished, a
// GPU that an excluded user holds is still held.
func exclude(q *backend.DataQuery, entries []string) error {
	var model map[string]any
	if err := json.Unmarshal(q.JSON, &model); err != nil || len(entries) == 0 {
		return nil // the data source reports the fault
	}
	name, _ := model["view"].(string)
	kind := kinds.Catalog.Kind(q.QueryType)
	if kind == nil || kind.View(name) == nil {
		return nil
	}
	view := kind.View(name)
	if metrics, _ := model["metrics"].([]any); !slices.Contains(view.Filters, "users") ||
		len(view.UserMetrics) > 0 && (len(metrics) != 1 || !slices.Contains(view.UserMetrics, fmt.Sprint(metrics[0]))) {
		return nil
	}
	filter, _ := model["filter"].(map[string]any)
	if filter == nil {
		filter = map[string]any{}
	}
	users, _ := filter["users"].([]any)
	for _, entry := range entries {
		users = append(users, entry)
	}
	filter["users"], model["filter"] = users, filter
	text, err := json.Marshal(model)
	q.JSON = text
	return err
}

// open opens the data source.
func (a asking) open(settings backend.DataSourceInstanceSettings, c *cli.Console) (asked, error) {
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if a.Pseudonyms && err == nil && !parsed.Pseudonymous() {
		return asked{}, cli.Usage("--pseudonyms: the setting userNames is %s: write pseudonyms, and pseudonymSecret into "+
			"secureJsonData", parsed.UserNames)
	}
	source := asked{Datasource: plugin.OpenOnce(settings, func() time.Time { return c.Now })}
	if !a.Pseudonyms {
		source.user = &backend.User{Role: "Admin"}
	}
	for _, user := range a.ExcludeUser {
		if user = strings.TrimSpace(user); user != "" {
			source.excluded = append(source.excluded, "!"+user)
		}
	}
	return source, nil
}
