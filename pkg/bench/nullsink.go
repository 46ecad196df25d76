package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/publish"
)

// nullSink is an Elasticsearch that holds nothing and takes everything.
type nullSink struct{}

func (nullSink) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := `{"id": "none", "hits": {"hits": []}}`
	switch {
	case strings.HasSuffix(r.URL.Path, "/_mapping"):
		answer = `{}`
	case strings.HasSuffix(r.URL.Path, "/_bulk"):
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		items := strings.Repeat(`{"index":{"status":201}},`, bytes.Count(body, []byte("\n"))/2)
		answer = `{"items":[` + strings.TrimSuffix(items, ",") + `]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(answer)),
		Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}, "Content-Type": {"application/json"}}}, nil
}

// publishNowhere measures what the publisher itself takes.
func (b *bench) publishNowhere(ctx context.Context, days []publish.Computed, point facts.Checkpoint) error {
	client, err := fleet.Connect(fleet.Config{URL: "http://nowhere", Transport: nullSink{}, Index: factsAlias})
	if err != nil {
		return err
	}
	begin, documents := processorTime(), 0
	if err := publish.Put(ctx, publish.Options{Client: client, Index: factsAlias, Pool: point.Pool, Now: time.Now}, point,
		days, func(p publish.Part) { documents += p.Documents }); err != nil {
		return err
	}
	b.add(Figure{Area: "many pools", What: "documents that the publisher makes and sends nowhere",
		Value: float64(documents) / (processorTime() - begin).Seconds(), Unit: "a second of CPU",
		Note: fmt.Sprintf("%d documents; wanted: 20000", documents)})
	return nil
}
