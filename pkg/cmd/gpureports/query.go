package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/report"
)

type queryCommand struct {
	Settings string `required:"" type:"path" placeholder:"FILE" help:"The data source's settings: {\"url\": …, \"jsonData\": {…}, \"secureJsonData\": {…}}."`
	Query    string `required:"" placeholder:"FILE" help:"A query or a list of queries in JSON; - reads them from standard input."`
	From     string `required:"" placeholder:"T" help:"Start of the time range: RFC 3339, a date, now-24h or now-1M/M (UTC)."`
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
	queries, err := cli.ReadQueries(q.Query, c.In, window)
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
	answers, err := cli.Ask(ctx, source, queries)
	stop()
	if err != nil {
		return err
	}
	layout := report.Options{Title: "Answers", From: window.From, To: window.To}
	if err := write(q.Format, c.Out, c.Err, layout, answers); err != nil {
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
	Pseudonyms  bool     `help:"Show users and jobs as viewers see them if the setting userNames is pseudonyms. Filters and --exclude-user take names and pseudonyms."`
	ExcludeUser []string `placeholder:"USER" help:"Leave out these users, by name or /pattern/, in answers about users. Denominators still count all GPUs and hours of the pool."`
}

// open opens the data source.
func (a asking) open(settings backend.DataSourceInstanceSettings, c *cli.Console) (*plugin.Datasource, error) {
	parsed, err := plugin.ParseSettings(settings.JSONData)
	if a.Pseudonyms && err == nil && !parsed.Pseudonymous() {
		return nil, cli.Usage("--pseudonyms: the setting userNames is %s: write pseudonyms, and pseudonymSecret into "+
			"secureJsonData", parsed.UserNames)
	}
	source := plugin.OpenOnce(settings, func() time.Time { return c.Now })
	source.User, source.Pseudonyms = &backend.User{Role: "Admin"}, a.Pseudonyms
	for _, user := range a.ExcludeUser {
		if user = strings.TrimSpace(user); user != "" {
			source.FilterUsers = append(source.FilterUsers, "!"+user)
		}
	}
	return source, nil
}
