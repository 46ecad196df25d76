package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/report"
)

// Query is a query of the command line, as Grafana would send it.
type Query struct {
	backend.DataQuery
	FromAlert bool
}

// ReadQueries reads one query or a list of them, about a window.
func ReadQueries(path string, stdin io.Reader, window backend.TimeRange) ([]Query, error) {
	read := os.ReadFile
	if path == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(stdin) }
	}
	text, err := read(path)
	if err != nil {
		return nil, Usage("query: %w", err)
	}
	if text = bytes.TrimSpace(text); !bytes.HasPrefix(text, []byte("[")) {
		text = append(append([]byte("["), text...), ']')
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, Usage("query %s: want a query object or a list of them: %w", path, err)
	}
	queries, seen := make([]Query, len(list)), map[string]bool{}
	for i, raw := range list {
		if queries[i], err = ReadQuery(i, raw, window); err != nil {
			return nil, err
		}
		if seen[queries[i].RefID] {
			return nil, Usage("query %d: refId %q is used twice", i+1, queries[i].RefID)
		}
		seen[queries[i].RefID] = true
	}
	if len(queries) == 0 {
		return nil, Usage("query %s: the list is empty", path)
	}
	return queries, nil
}

// ReadQuery reads the fields of the i-th query that Grafana would pass separately.
func ReadQuery(i int, raw json.RawMessage, window backend.TimeRange) (Query, error) {
	var known struct {
		RefID         string  `json:"refId"`
		IntervalMs    float64 `json:"intervalMs"`
		MaxDataPoints int64   `json:"maxDataPoints"`
		FromAlert     bool    `json:"fromAlert"`
		QueryType     any     `json:"queryType"`
	}
	if err := json.Unmarshal(raw, &known); err != nil {
		return Query{}, Usage("query %d: %w", i+1, err)
	}
	refID := fmt.Sprintf("Q%d", i+1)
	if i < 26 { // as Grafana names queries
		refID = string(rune('A' + i))
	}
	interval := time.Duration(known.IntervalMs * float64(time.Millisecond))
	if interval <= 0 {
		interval = max(window.Duration()/1000, time.Second)
	}
	queryType, _ := known.QueryType.(string) // another type is the data source's to refuse
	return Query{backend.DataQuery{RefID: cmp.Or(known.RefID, refID), QueryType: queryType, Interval: interval,
		MaxDataPoints: known.MaxDataPoints, TimeRange: window, JSON: raw}, known.FromAlert}, nil
}

// Ask sends queries to a data source: those for alert rules in a request of their own, as Grafana does.
func Ask(ctx context.Context, source backend.QueryDataHandler, queries []Query) ([]report.Answer, error) {
	answers := make([]report.Answer, len(queries))
	for _, fromAlert := range []bool{false, true} {
		request := &backend.QueryDataRequest{}
		if fromAlert {
			request.Headers = map[string]string{"FromAlert": "true"}
		}
		for _, q := range queries {
			if q.FromAlert == fromAlert {
				request.Queries = append(request.Queries, q.DataQuery)
			}
		}
		if len(request.Queries) == 0 {
			continue
		}
		response, err := source.QueryData(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("the data source did not answer: %w", err)
		}
		for i, q := range queries {
			if q.FromAlert == fromAlert {
				answers[i] = report.Answer{Name: q.RefID, DataResponse: response.Responses[q.RefID]}
			}
		}
	}
	return answers, nil
}
