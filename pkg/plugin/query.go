package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/backend/tracing"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// computing bounds the computations that run at the same time, of all data sources of the process: of queries, values
// and health checks.
var (
	computingLimit = int64(2 * runtime.GOMAXPROCS(0))
	computing      = parallel.NewSlots(computingLimit)
)

// QueryData answers each query on its own, as long as all answers together obey [query.MaxCells]: in the order of the
// request, so that the same request always has the same answers. It never returns an error.
func (d *Datasource) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	fromAlert, onDashboard := isFromAlert(req.Headers), req.GetHTTPHeader("X-Dashboard-Uid") != ""
	naming := d.naming(cmp.Or(req.PluginContext.User, d.User), fromAlert || d.Pseudonyms)
	answers, asked := make([]backend.DataResponse, len(req.Queries)), make([]query.Asked, len(req.Queries))
	group, ctx := parallel.WithContext(ctx)
	group.SetLimit(10) // queries that are answered at the same time
	cells := 0
	before := make(chan struct{})
	close(before)
	for i, q := range req.Queries {
		earlier, decided := before, make(chan struct{})
		before = decided
		group.Go(func() error {
			defer close(decided)
			err := parallel.Recovered(func() error {
				answers[i], asked[i] = d.respond(ctx, q, naming, fromAlert, onDashboard)
				return nil
			})
			if err != nil {
				answers[i] = failure(err)
			}
			<-earlier
			admit(&answers[i], &cells)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	responses, named := backend.Responses{}, []frames.Named{}
	for i, q := range req.Queries {
		if responses[q.RefID] = answers[i]; answers[i].Error == nil {
			named = append(named, frames.Named{RefID: q.RefID, Frames: answers[i].Frames, Label: asked[i].Label})
		}
	}
	// Panels and Explore draw all queries of a request into one chart, so that names of series must differ. Only they
	// send this header.
	if len(req.Queries) > 1 && req.GetHTTPHeader("X-Datasource-Uid") != "" {
		frames.Distinguish(named)
	}
	return &backend.QueryDataResponse{Responses: responses}, nil
}

// admit adds an answer's numbers to those of the answers before it, or puts an error in the answer's place where they
// are too many together.
func admit(answer *backend.DataResponse, cells *int) {
	n := cellsOf(answer.Frames)
	if n+*cells > query.MaxCells {
		*answer = failure(pool.BadQuery("this answer has %s numbers, those before it in the request %s: together more than "+
			"%s. Ask for less at once, with a limit, longer buckets or fewer queries", frames.Thousands(n),
			frames.Thousands(*cells), frames.Thousands(query.MaxCells)))
		return
	}
	*cells += n
}

// respond answers one query: with frames, or with an error and whose fault it is. It also returns what the query names.
func (d *Datasource) respond(ctx context.Context, q backend.DataQuery, naming query.Naming, fromAlert,
	onDashboard bool) (backend.DataResponse, query.Asked) {
	begin := time.Now()
	model, err := query.Parse(q.JSON)
	ctx, span := tracing.DefaultTracer().Start(ctx, "gpureports query", trace.WithAttributes(
		attribute.String("kind", model.QueryType), attribute.String("view", model.View), attribute.Bool("alert", fromAlert)))
	defer span.End()
	var answer data.Frames
	catalog := kinds.Catalog
	if d.parsed.Mode == modeFleet {
		catalog = fleet.Catalog
	}
	asked, _ := catalog.Find(model.QueryType, model.View) // the plan says why there is none
	if err == nil {
		if asked.TakesUsers(model.Metrics) { // otherwise a GPU that an excluded user holds is still held
			model.Filter.Users = append(model.Filter.Users, d.FilterUsers...)
		}
		answer, err = d.answer(ctx, naming, query.Request{
			Model:       model,
			Asked:       asked,
			Window:      pool.NewWindow(q.TimeRange.From, q.TimeRange.To),
			IntervalMs:  q.Interval.Milliseconds(),
			FromAlert:   fromAlert,
			OnDashboard: onDashboard,
			Now:         d.now().UnixMicro(),
		})
	}
	response := backend.DataResponse{Status: backend.StatusOK, Frames: answer}
	logger := backend.Logger.FromContext(ctx).With("refId", q.RefID, "kind", model.QueryType, "view", model.View, "took",
		time.Since(begin))
	if err != nil {
		response = failure(err)
		response.Error = d.redact(err)
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		logFailure(logger.With("status", int(response.Status)), "query failed", err)
	} else {
		logger.Debug("query answered", "frames", len(answer))
	}
	observe(asked, response, time.Since(begin))
	return response, asked
}

// answer computes equal queries within a second once, for each naming. An answer depends only on the request, the
// naming, and the data that the data source itself reads.
func (d *Datasource) answer(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	same := r
	same.RefID, same.Now = "", 0
	key, err := json.Marshal(same)
	if err != nil {
		return nil, fmt.Errorf("naming the query: %w", err)
	}
	question := naming.Key + string(key)
	answer, err := d.answers.get(ctx, question, func(ctx context.Context) (data.Frames, error) {
		return inSlot(ctx, func(ctx context.Context) (data.Frames, error) {
			ctx, span := tracing.DefaultTracer().Start(ctx, "gpureports compute")
			defer span.End()
			answer, err := d.compute(ctx, naming, r)
			if err == nil {
				err = d.names.check(naming, r, answer)
			}
			return answer, err
		})
	})
	return copies(answer), err
}

// inSlot calls compute when fewer run than may at the same time. A panic of compute is a *parallel.Panic.
func inSlot[T any](ctx context.Context, compute func(context.Context) (T, error)) (result T, err error) {
	err = computing.Compute(ctx, func(ctx context.Context) error {
		return parallel.Recovered(func() error {
			result, err = compute(ctx)
			return err
		})
	})
	return result, err
}

// lookUp is inSlot for requests that are not queries. It returns when ctx ends, even if get hangs, such as on a file
// system that does not answer.
func lookUp[T any](ctx context.Context, get func(context.Context) (T, error)) (T, error) {
	var found T
	finished := make(chan error, 1)
	parallel.Go(func() (err error) { found, err = inSlot(ctx, get); return err }, func(err error) { finished <- err })
	select {
	case err := <-finished:
		return found, err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// compute answers a query from the stores, or from the facts of many pools.
func (d *Datasource) compute(ctx context.Context, naming query.Naming, r query.Request) (data.Frames, error) {
	if d.parsed.Mode == modeFleet {
		if err := cmp.Or(d.invalid, d.noFacts); err != nil {
			return nil, err
		}
		return d.facts.Answer(ctx, kinds.Catalog, d.fleetEnv(naming), r)
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

// statusClientClosed is the status that web servers log when the caller has gone away.
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
		yes, err := strconv.ParseBool(value)
		if strings.TrimPrefix(strings.ToLower(name), "http_") == "fromalert" && err == nil && yes {
			return true
		}
	}
	return false
}

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
func observe(asked query.Asked, response backend.DataResponse, took time.Duration) {
	kind, view := "unknown", "unknown"
	if asked.Kind != nil {
		kind = asked.Kind.Name
	}
	if asked.View != nil {
		view = asked.View.Name
	}
	queries.WithLabelValues(kind, view, strconv.Itoa(int(response.Status))).Inc()
	seconds.WithLabelValues(kind).Observe(took.Seconds())
}

// redact replaces the server's directories in an error's text by their base names, because not everyone who sees a
// panel may know the paths. (The health check names whole paths, for administrators.)
func (d *Datasource) redact(err error) error {
	dirs := listed(allowedDirs)
	for _, dir := range []string{d.parsed.SnapshotDir, d.parsed.CacheDir} {
		if dir != "" {
			dirs = append(dirs, dir, resolve(dir))
		}
	}
	// a directory before those that hold it
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	text := err.Error()
	for _, dir := range dirs {
		if base := filepath.Base(dir); base != dir && base != string(filepath.Separator) {
			text = strings.ReplaceAll(text, dir, base)
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
