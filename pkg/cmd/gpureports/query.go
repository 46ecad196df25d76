package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/report"
)

type queryCommand struct {
	Settings string `required:"" type:"path" placeholder:"FILE" help:"The data source's settings: {\"url\": …, \"jsonData\": {…}, \"secureJsonData\": {…}}."`
	Query    string `required:"" placeholder:"FILE" help:"A query or a list of queries in JSON; - reads them from standard input."`
	From     string `required:"" placeholder:"T" help:"Begin of the window: RFC 3339 or now-24h."`
	To       string `required:"" placeholder:"T" help:"End of the window."`
	Format   string `enum:"table,json,csv,html" default:"table" help:"table, json, csv or html."`
	asking
}

// Run answers the queries, each on its own.
func (q *queryCommand) Run(ctx context.Context, c *console) error {
	window, err := parseWindow(q.From, q.To, c.now)
	if err != nil {
		return err
	}
	queries, err := readQueries(q.Query, c.in)
	if err != nil {
		return err
	}
	settings, err := readSettings(q.Settings)
	if err != nil {
		return usageError{err}
	}
	source, err := q.open(settings, c)
	if err != nil {
		return err
	}
	defer source.Dispose()
	stop := working(c.err, "Answering")
	answers, err := ask(ctx, source, queries, window)
	stop()
	if err != nil {
		return err
	}
	layout := report.Options{Title: "Answers", From: window.From, To: window.To}
	if err := writers[q.Format](c.out, c.err, layout, answers); err != nil {
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

func parseWindow(from, to string, now time.Time) (backend.TimeRange, error) {
	a, err := parseTime(from, now)
	if err != nil {
		return backend.TimeRange{}, err
	}
	b, err := parseTime(to, now)
	if err != nil {
		return backend.TimeRange{}, err
	}
	return backend.TimeRange{From: a, To: b}, nil
}

// query is a query of the command line: the data source's JSON and what Grafana would send beside it.
type query struct {
	refID         string
	interval      time.Duration // 0: by the window
	maxDataPoints int64
	fromAlert     bool
	json          json.RawMessage
}

// readQueries reads one query or a list of them.
func readQueries(path string, stdin io.Reader) ([]query, error) {
	text, err := func() ([]byte, error) {
		if path == "-" {
			return io.ReadAll(stdin)
		}
		return os.ReadFile(path)
	}()
	if err != nil {
		return nil, usage("query: %w", err)
	}
	if text = bytes.TrimSpace(text); !bytes.HasPrefix(text, []byte("[")) {
		text = append(append([]byte("["), text...), ']')
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, usage("query %s: want a query object or a list of them: %w", path, err)
	}
	queries, seen := make([]query, len(list)), map[string]bool{}
	for i, raw := range list {
		if queries[i], err = readQuery(i, raw); err != nil {
			return nil, err
		}
		if seen[queries[i].refID] {
			return nil, usage("query %d: refId %q is used twice", i+1, queries[i].refID)
		}
		seen[queries[i].refID] = true
	}
	if len(queries) == 0 {
		return nil, usage("query %s: the list is empty", path)
	}
	return queries, nil
}

// readQuery reads what Grafana would take out of the i-th query.
func readQuery(i int, raw json.RawMessage) (query, error) {
	var known struct {
		RefID         string  `json:"refId"`
		IntervalMs    float64 `json:"intervalMs"`
		MaxDataPoints int64   `json:"maxDataPoints"`
		FromAlert     bool    `json:"fromAlert"`
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return query{}, usage("query %d: %w", i+1, err)
	}
	if known.RefID == "" {
		known.RefID = defaultRefID(i)
	}
	return query{known.RefID, time.Duration(known.IntervalMs * float64(time.Millisecond)), known.MaxDataPoints,
		known.FromAlert, raw}, nil
}

// defaultRefID names queries as Grafana does: A to Z, then by number.
func defaultRefID(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprintf("Q%d", i+1)
}

// ask sends queries to a data source: those for alert rules in a request of their own, as Grafana does.
func ask(ctx context.Context, source backend.QueryDataHandler, queries []query,
	window backend.TimeRange) ([]report.Answer, error) {
	responses := backend.Responses{}
	for _, fromAlert := range []bool{false, true} {
		request := &backend.QueryDataRequest{}
		if fromAlert {
			request.Headers = map[string]string{"FromAlert": "true"}
		}
		for _, q := range queries {
			if q.fromAlert == fromAlert {
				request.Queries = append(request.Queries, q.toBackend(window))
			}
		}
		if len(request.Queries) == 0 {
			continue
		}
		response, err := source.QueryData(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("the data source did not answer: %w", err)
		}
		for refID, r := range response.Responses {
			responses[refID] = r
		}
	}
	answers := make([]report.Answer, len(queries))
	for i, q := range queries {
		response, ok := responses[q.refID]
		if !ok {
			return nil, fmt.Errorf("the data source did not answer query %s", q.refID)
		}
		answers[i] = report.Answer{Name: q.refID, DataResponse: response}
	}
	return answers, nil
}

func (q query) toBackend(window backend.TimeRange) backend.DataQuery {
	interval := q.interval
	if interval <= 0 {
		interval = max(window.Duration()/1000, time.Second)
	}
	var kind struct {
		QueryType string `json:"queryType"`
	}
	_ = json.Unmarshal(q.json, &kind) // a queryType of another type is the data source's to refuse
	return backend.DataQuery{RefID: q.refID, QueryType: kind.QueryType, MaxDataPoints: q.maxDataPoints,
		Interval: interval, TimeRange: window, JSON: q.json}
}
