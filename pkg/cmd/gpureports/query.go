package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

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
	// Read the queries, then the settings.
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
		return err
	}
	source, err := q.open(settings, c)
	if err != nil {
		return err
	}
	defer source.Dispose()
	// Answer them, and write the answers.
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

// maxWidth of text: a terminal breaks longer lines, and a pager need not.
const maxWidth = 200

// write writes answers in a format of the command line: the answers to out, notices beside CSV to errors.
func write(format string, out, errors io.Writer, o report.Options, answers []report.Answer) error {
	switch format {
	case "json":
		return writeJSON(out, answers)
	case "csv":
		return writeCSV(out, errors, answers)
	case "html":
		return report.Lay(o, answers).HTML(out)
	}
	if len(answers) == 1 {
		answers[0].Name = ""
	}
	return report.Lay(o, answers).Text(out, maxWidth)
}

// writeJSON writes [{"refId", "status", "error"?, "frames": [data.Frame JSON]}] and no other text.
func writeJSON(out io.Writer, answers []report.Answer) error {
	type document struct {
		RefID  string         `json:"refId"`
		Status backend.Status `json:"status"`
		Error  string         `json:"error,omitempty"`
		Frames []*data.Frame  `json:"frames"`
	}
	documents := make([]document, len(answers))
	for i, a := range answers {
		documents[i] = document{RefID: a.Name, Status: a.Status, Frames: append([]*data.Frame{}, a.Frames...)} // not null
		if a.Error != nil {
			documents[i].Error = a.Error.Error()
		}
	}
	return json.NewEncoder(out).Encode(documents)
}

// writeCSV writes frames separated by an empty line, each with its field names, as a machine reads them: plain numbers,
// times in RFC 3339, nothing for null. Errors and notices go to errors.
func writeCSV(out, errors io.Writer, answers []report.Answer) error {
	first := true
	for _, a := range answers {
		if a.Error != nil {
			fmt.Fprintf(errors, "%s: %s\n", a.Name, report.Sentence(a.Error.Error()))
			continue
		}
		for _, frame := range a.Frames {
			for _, n := range report.Told(frame) {
				fmt.Fprintf(errors, "%s: %s: %s\n", a.Name, n.Severity, report.Sentence(n.Text))
			}
			if len(frame.Fields) == 0 {
				continue
			}
			if !first {
				fmt.Fprintln(out)
			}
			first = false
			if err := csv.NewWriter(out).WriteAll(csvRecords(frame)); err != nil {
				return err
			}
		}
	}
	return nil
}

// csvRecords are the names of the fields, and the rows.
func csvRecords(frame *data.Frame) [][]string {
	records := make([][]string, 1+frame.Fields[0].Len())
	unchanged := func(text string) string { return text }
	for _, field := range frame.Fields {
		records[0] = append(records[0], harmless(report.SeriesName(field, field.Name, unchanged)))
		for row := range field.Len() {
			records[row+1] = append(records[row+1], csvCell(field, row))
		}
	}
	return records
}

func csvCell(field *data.Field, row int) string {
	value, ok := field.ConcreteAt(row)
	if !ok {
		return ""
	}
	switch v := value.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return harmless(v)
	}
	return fmt.Sprint(value)
}

// harmless puts an apostrophe before a text that a spreadsheet would take for a formula.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
