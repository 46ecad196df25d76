package plugin

import (
	"context"
	"slices"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A trace shows where a query's time goes.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
	defer otel.SetTracerProvider(before)
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	_, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A",
		`{"queryType": "evictions"}`)}})
	require.NoError(t, err)
	parents, names := map[string]string{}, map[string]string{}
	for _, span := range recorder.Ended() {
		names[span.SpanContext().SpanID().String()] = span.Name()
	}
	for _, span := range recorder.Ended() {
		parents[span.Name()] = names[span.Parent().SpanID().String()]
	}
	require.Equal(t, map[string]string{"gpureports query": "", "gpureports compute": "gpureports query",
		"gpureports load": "gpureports compute", "gpureports link": "gpureports compute"}, parents)
	query := recorder.Ended()[slices.IndexFunc(recorder.Ended(),
		func(s trace.ReadOnlySpan) bool { return s.Name() == "gpureports query" })]
	require.Equal(t, "evictions", query.Attributes()[0].Value.AsString())
}
