package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

// Source is a data source of a running plugin: its settings go along with every request, as Grafana sends them.
type Source struct {
	process   *Process
	context   backend.PluginContext
	undecoded bool
}

// Source returns the data source with these settings. Settings with a later Updated replace those before.
func (p *Process) Source(settings backend.DataSourceInstanceSettings) *Source {
	return &Source{process: p, context: backend.PluginContext{OrgID: 1, PluginID: settings.Type,
		DataSourceInstanceSettings: &settings}}
}

// As returns the same data source, as queried by a user with a role; "" is a request without a user.
func (s *Source) As(role string) *Source {
	asked := *s
	asked.context.User = nil
	if role != "" {
		asked.context.User = &backend.User{Login: "someone", Role: role}
	}
	return &asked
}

// Undecoded returns the same data source, whose answers come without frames: what the plugin sends is received, and not
// decoded. Many clients on the plugin's own machine take less of it.
func (s *Source) Undecoded() *Source {
	asked := *s
	asked.undecoded = true
	return &asked
}

// QueryData answers queries.
func (s *Source) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	withContext := *req
	withContext.PluginContext = s.context
	if s.undecoded {
		return s.process.receive(ctx, &withContext)
	}
	return s.process.QueryData(ctx, &withContext)
}

// CheckHealth asks for the data source's health.
func (s *Source) CheckHealth(ctx context.Context) (*backend.CheckHealthResult, error) {
	return s.process.CheckHealth(ctx, &backend.CheckHealthRequest{PluginContext: s.context})
}

// Resource gets a resource by its path below the data source and its query string ("from=1&to=2").
func (s *Source) Resource(ctx context.Context, path, query string) (*backend.CallResourceResponse, error) {
	url := path
	if query != "" {
		url += "?" + query
	}
	stream, err := s.process.resources.CallResource(ctx, backend.ToProto().CallResourceRequest(
		&backend.CallResourceRequest{PluginContext: s.context, Method: http.MethodGet, Path: path, URL: url}))
	if err != nil {
		return nil, err
	}
	var response *backend.CallResourceResponse
	for {
		next, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && response != nil:
			return response, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("resource %s: the plugin sent nothing", path)
		case err != nil:
			return nil, err
		}
		part := backend.FromProto().CallResourceResponse(next)
		if response == nil {
			response = part
		} else {
			response.Body = append(response.Body, part.Body...)
		}
	}
}
