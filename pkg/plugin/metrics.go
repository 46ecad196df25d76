package plugin

import (
	"strconv"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/query"
)

var (
	queries = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: "gpureports", Name: "queries_total", Help: "Queries answered, by query type, view and status.",
	}, []string{"kind", "view", "status"})
	seconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "gpureports", Name: "query_seconds", Help: "Time to answer a query, by query type.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100},
	}, []string{"kind"})
)

// observe counts an answered query. Words that the query model does not know are counted as one.
func observe(m query.Model, response backend.DataResponse, took time.Duration) {
	kind, view := "unknown", "unknown"
	if k := kinds.Catalog.Kind(m.QueryType); k != nil {
		kind = k.Name
		if v := k.View(m.View); v != nil {
			view = v.Name
		}
	}
	queries.WithLabelValues(kind, view, strconv.Itoa(int(response.Status))).Inc()
	seconds.WithLabelValues(kind).Observe(took.Seconds())
}
