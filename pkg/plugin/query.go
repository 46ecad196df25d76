package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/backend/tracing"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/grafana/grafana-plugin-sdk-go/experimental/concurrent"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/fresh"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// perRequest is how many queries of one request are answered at the same time.
const perRequest = 10

// computing bounds the computations that run at the same time, of all data sources of the process.
var (
	computingLimit = int64(2 * runtime.GOMAXPROCS(0))
	computing      = semaphore.NewWeighted(computingLimit)
)

// QueryData answers each query on its own. It never returns an error.
func (d *Datasource) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	fromAlert, onDashboard := isFromAlert(req.Headers), req.GetHTTPHeader("X-Dashboard-Uid") != ""
	answers, err := concurrent.QueryData(ctx, req, func(ctx context.Context, q concurrent.Query) backend.DataResponse {
		return d.respond(ctx, q.DataQuery, d.naming(req.PluginContext.User, fromAlert), fromAlert, onDashboard)
	}, perRequest)
	// A panel and Explore draw what they ask for in one request into one chart; they send this header, others do not.
	if err == nil && len(req.Queries) > 1 && req.GetHTTPHeader("X-Datasource-Uid") != "" {
		distinguish(req.Queries, answers.Responses)
	}
	return answers, err
}

// distinguish gives the series of a request's queries different names.
func distinguish(queries []backend.DataQuery, answers backend.Responses) {
	var all []frames.Named
	for _, q := range queries {
		model, err := query.Parse(q.JSON)
		if answer := answers[q.RefID]; err == nil && answer.Error == nil {
			all = append(all, frames.Named{RefID: q.RefID, Frames: answer.Frames, Label: func(metric string) string {
				return kinds.Catalog.Label(model, metric)
			}})
		}
	}
	frames.Distinguish(all)
}

// respond answers one query: with frames, or with an error and whose fault it is.
func (d *Datasource) respond(ctx context.Context, q backend.DataQuery, naming query.Naming, fromAlert,
	onDashboard bool) backend.DataResponse {
	begin := time.Now()
	ctx = fresh.Asked(ctx, begin)
	model, err := query.Parse(q.JSON)
	ctx, span := tracing.DefaultTracer().Start(ctx, "gpureports query", trace.WithAttributes(
		attribute.String("kind", model.QueryType), attribute.String("view", model.View), attribute.Bool("alert", fromAlert)))
	defer span.End()
	var answer data.Frames
	if err == nil {
		answer, err = d.answer(ctx, naming, query.Request{
			Model:         model,
			Window:        pool.NewWindow(q.TimeRange.From, q.TimeRange.To),
			IntervalMs:    q.Interval.Milliseconds(),
			MaxDataPoints: q.MaxDataPoints,
			FromAlert:     fromAlert,
			OnDashboard:   onDashboard,
			Now:           d.now().UnixMicro(),
		})
	}
	response := backend.DataResponse{Status: backend.StatusOK, Frames: answer}
	logger := backend.Logger.FromContext(ctx).With("refId", q.RefID, "kind", model.QueryType, "view", model.View, "took",
		time.Since(begin))
	if err != nil {
		response = failure(d.forViewers(err))
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		logFailure(logger.With("status", int(response.Status)), "query failed", err)
	} else {
		logger.Debug("query answered", "frames", len(answer))
	}
	observe(model, response, time.Since(begin))
	return response
}

// answer computes equal queries that are asked within a second once, for each naming. What an answer depends on is in
// the request and the naming, but for what the data source itself reads.
func (d *Datasource) answer(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	same := r
	same.RefID, same.Now = "", 0
	key, err := json.Marshal(same)
	if err != nil {
		return nil, fmt.Errorf("naming the query: %w", err)
	}
	question := naming.Key + string(key)
	if frames, ok := d.recent.find(question); ok {
		return frames, nil
	}
	return d.flights.do(ctx, question, func(ctx context.Context) (data.Frames, error) {
		if err := computing.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		defer computing.Release(1)
		ctx, span := tracing.DefaultTracer().Start(ctx, "gpureports compute")
		defer span.End()
		answer, err := d.compute(ctx, naming, r)
		if err == nil {
			err = d.names.check(naming, r, answer)
		}
		if err == nil {
			d.recent.keep(question, answer)
		}
		return answer, err
	})
}

// compute answers a query from the stores, or from the facts of many pools.
func (d *Datasource) compute(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	if d.parsed.Mode == modeFleet {
		return d.computeFleet(ctx, naming, r)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	env, err := stores.env(ctx)
	if err != nil {
		return nil, err
	}
	env.Naming = naming
	if d.parsed.Links {
		env.LinksFrom = d.settings.UID
	}
	return kinds.Answer(ctx, stores.Stores, env, r)
}

// logFailure writes an error to the log: a panic, which is a bug, with its stack.
func logFailure(logger log.Logger, what string, err error) {
	var bug *parallel.Panic
	if errors.As(err, &bug) {
		logger.Error(what, "error", err, "stack", string(bug.Stack))
		return
	}
	logger.Warn(what, "error", err)
}

// statusClientClosed is what web servers log when the caller has gone away.
const statusClientClosed backend.Status = 499

// failure says whose fault an error is: a wrong query or a store that does not answer are not the plugin's.
func failure(err error) backend.DataResponse {
	status, source := backend.StatusInternal, backend.ErrorSourcePlugin
	switch fault := pool.FaultOf(err); {
	case errors.Is(err, context.Canceled):
		status, source = statusClientClosed, backend.ErrorSourceDownstream
	case errors.Is(err, context.DeadlineExceeded):
		status, source = backend.StatusTimeout, backend.ErrorSourceDownstream
	case fault == pool.FaultQuery:
		status, source = backend.StatusBadRequest, backend.ErrorSourceDownstream
	case fault == pool.FaultSource:
		status, source = backend.StatusBadGateway, backend.ErrorSourceDownstream
	}
	return backend.DataResponse{Status: status, ErrorSource: source, Error: err}
}

// isFromAlert reports whether the alert engine asks. Its header arrives in more than one case and with a prefix.
func isFromAlert(headers map[string]string) bool {
	for name, value := range headers {
		switch strings.ToLower(name) {
		case "fromalert", "http_fromalert":
			if yes, err := strconv.ParseBool(value); err == nil && yes {
				return true
			}
		}
	}
	return false
}
