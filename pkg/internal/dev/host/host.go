// Package host builds and starts the plugin's binary and talks to it over the plugin protocol, as Grafana does.
// The demo, the bridge for browser tests, benchmarks and tests use it.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/grpcplugin"
	"github.com/grafana/grafana-plugin-sdk-go/genproto/pluginv2"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
)

// Process is a running plugin binary. It is safe for concurrent use.
type Process struct {
	client      *goplugin.Client
	data        grpcplugin.DataClient
	diagnostics grpcplugin.DiagnosticsClient
	resources   grpcplugin.ResourceClient
}

// Start starts a plugin binary. Its log goes to log, in the SDK's JSON lines; environment is added to this process's
// own. The process ends with Close.
func Start(binary string, log io.Writer, environment ...string) (*Process, error) {
	return StartIn(append(os.Environ(), environment...), binary, log)
}

// StartIn is Start with no other environment, as Grafana 12.4 and newer start plugins.
func StartIn(environment []string, binary string, log io.Writer) (*Process, error) {
	command := exec.CommandContext(context.Background(), binary) // #nosec G204 -- the plugin's own binary; Close ends it
	command.Env = slices.Concat([]string{}, environment)         // nil would inherit this process's
	client := goplugin.NewClient(&goplugin.ClientConfig{
		Cmd:         command,
		SkipHostEnv: true, // command.Env holds it
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion:  grpcplugin.ProtocolVersion,
			MagicCookieKey:   grpcplugin.MagicCookieKey,
			MagicCookieValue: grpcplugin.MagicCookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{grpcplugin.ProtocolVersion: {
			"data":        &grpcplugin.DataGRPCPlugin{},
			"diagnostics": &grpcplugin.DiagnosticsGRPCPlugin{},
			"resource":    &grpcplugin.ResourceGRPCPlugin{},
		}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     time.Minute,
		Logger:           hclog.NewNullLogger(),
		Stderr:           log,
		GRPCDialOptions:  []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256 << 20))},
	})
	p := &Process{client: client}
	if err := p.connect(); err != nil {
		client.Kill()
		return nil, fmt.Errorf("starting the plugin %s: %w", binary, err)
	}
	return p, nil
}

func (p *Process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	var missing [3]error
	p.data, missing[0] = dispense[grpcplugin.DataClient](protocol, "data")
	p.diagnostics, missing[1] = dispense[grpcplugin.DiagnosticsClient](protocol, "diagnostics")
	p.resources, missing[2] = dispense[grpcplugin.ResourceClient](protocol, "resource")
	return errors.Join(missing[:]...)
}

func dispense[Service any](protocol goplugin.ClientProtocol, name string) (service Service, err error) {
	raw, err := protocol.Dispense(name)
	if err != nil {
		return service, fmt.Errorf("%s: %w", name, err)
	}
	service, ok := raw.(Service)
	if !ok {
		return service, fmt.Errorf("%s: the plugin offers a %T", name, raw)
	}
	return service, nil
}

// Close ends the process.
func (p *Process) Close() { p.client.Kill() }

// Exited reports whether the process has ended.
func (p *Process) Exited() bool { return p.client.Exited() }

// PID is the operating system's number of the process.
func (p *Process) PID() int { return p.client.ReattachConfig().Pid }

// QueryData asks the plugin.
func (p *Process) QueryData(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	response, err := p.data.QueryData(ctx, backend.ToProto().QueryDataRequest(req))
	if err != nil {
		return nil, err
	}
	return backend.FromProto().QueryDataResponse(response)
}

// receive asks the plugin and leaves the frames of the answers as they come. An answer with neither frames nor an error
// is an error.
func (p *Process) receive(ctx context.Context, req *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	response, err := p.data.QueryData(ctx, backend.ToProto().QueryDataRequest(req))
	if err != nil {
		return nil, err
	}
	answers := backend.NewQueryDataResponse()
	for refID, r := range response.Responses {
		answer := backend.DataResponse{Status: backend.Status(r.Status)}
		if r.Error != "" {
			answer.Error = errors.New(r.Error)
		} else if len(r.Frames) == 0 {
			answer.Error = errors.New("the plugin sent no frames")
		}
		answers.Responses[refID] = answer
	}
	return answers, nil
}

// CheckHealth asks the plugin for a data source's health.
func (p *Process) CheckHealth(ctx context.Context, req *backend.CheckHealthRequest) (*backend.CheckHealthResult,
	error) {
	response, err := p.diagnostics.CheckHealth(ctx, &pluginv2.CheckHealthRequest{
		PluginContext: backend.ToProto().PluginContext(req.PluginContext)})
	if err != nil {
		return nil, err
	}
	return backend.FromProto().CheckHealthResponse(response), nil
}

// CollectMetrics returns the plugin's metrics in Prometheus' text format.
func (p *Process) CollectMetrics(ctx context.Context) ([]byte, error) {
	response, err := p.diagnostics.CollectMetrics(ctx, &pluginv2.CollectMetricsRequest{})
	if err != nil {
		return nil, err
	}
	return response.GetMetrics().GetPrometheus(), nil
}

// BinaryName is what Grafana calls the plugin's binary for this machine.
func BinaryName() string {
	name := "gpx_gpureports_" + runtime.GOOS + "_" + runtime.GOARCH
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return name
}

// Build builds the plugin's binary for this machine into a directory and returns its path. Go itself finds out whether
// one that is there is up to date.
func Build(ctx context.Context, dir string) (string, error) {
	source, err := checkout.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, BinaryName())
	// #nosec G204
	command := exec.CommandContext(ctx, "go", "build", "-tags", "arrow_json_stdlib", "-ldflags", "-s -w", "-o", binary,
		"./pkg")
	command.Dir = source
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	return binary, nil
}

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
