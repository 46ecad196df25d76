package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/grafana/grafana-plugin-sdk-go/experimental/concurrent"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/pool"
)

// perRequest is how many queries of one request run at the same time.
const perRequest = 10

// running bounds the queries that run at the same time, of all data sources of the process.
var running = semaphore.NewWeighted(int64(2 * runtime.GOMAXPROCS(0)))

// QueryData answers each query on its own. It never returns an error.
func (d *Datasource) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	if len(req.Queries) == 0 {
		return backend.NewQueryDataResponse(), nil
	}
	return concurrent.QueryData(ctx, req, func(ctx context.Context, q concurrent.Query) backend.DataResponse {
		return d.respond(ctx, q.DataQuery, isFromAlert(req.Headers))
	}, perRequest)
}

// respond answers one query: with frames, or with an error and whose fault it is.
func (d *Datasource) respond(ctx context.Context, q backend.DataQuery, fromAlert bool) (response backend.DataResponse) {
	logger := backend.Logger.FromContext(ctx).With("refId", q.RefID)
	begin := time.Now()
	defer func() {
		if r := recover(); r != nil {
			logger.Error("query panicked", "panic", r, "stack", string(debug.Stack()))
			response = failure(fmt.Errorf("a bug of the plugin: %v", r))
		}
		logger.Debug("query answered", "status", int(response.Status), "took", time.Since(begin))
	}()
	if err := running.Acquire(ctx, 1); err != nil {
		return failure(err)
	}
	defer running.Release(1)
	frames, err := d.answer(ctx, q, fromAlert)
	if err != nil {
		logger.Warn("query failed", "error", err)
		return failure(err)
	}
	return backend.DataResponse{Status: backend.StatusOK, Frames: frames}
}

func (d *Datasource) answer(ctx context.Context, q backend.DataQuery, fromAlert bool) (data.Frames, error) {
	return nil, pool.BadQuery("not available yet")
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

// isFromAlert tells whether the alert engine asks. Its header arrives in more than one case and with a prefix.
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
