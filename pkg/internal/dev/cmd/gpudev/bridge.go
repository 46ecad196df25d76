package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
)

// bridgeCommand lets the browser tests reach the plugin's binary: it speaks the part of Grafana's HTTP API that the
// front end uses, on this machine only.
type bridgeCommand struct {
	Settings string `required:"" type:"path" placeholder:"FILE" help:"The data source's settings."`
	Plugin   string `type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout."`
}

// Run serves until it is interrupted. Its address is the first line on standard output.
func (b *bridgeCommand) Run(ctx context.Context, c *cli.Console) error {
	settings, err := cli.ReadSettings(b.Settings)
	if err != nil {
		return err
	}
	process, err := startPlugin(ctx, b.Plugin, c)
	if err != nil {
		return err
	}
	defer process.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: bridge(process.Source(settings)), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Fprintf(c.Out, "http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func bridge(source *host.Source) http.Handler {
	asked := func(r *http.Request) *host.Source { // by the role that a test names; an administrator else
		return source.As(cmp.Or(r.Header.Get("X-Test-Role"), "Admin"))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/ds/query", func(w http.ResponseWriter, r *http.Request) {
		response, err := bridgeQuery(r, asked(r))
		if err != nil {
			sendJSON(w, http.StatusBadRequest, map[string]string{"message": err.Error()})
			return
		}
		status := http.StatusOK
		for _, answer := range response.Responses {
			if answer.Error != nil {
				status = http.StatusBadRequest // as Grafana: the body still holds every answer
			}
		}
		sendJSON(w, status, response)
	})
	mux.HandleFunc("GET /api/datasources/uid/{uid}/resources/{path...}", func(w http.ResponseWriter, r *http.Request) {
		response, err := asked(r).Resource(r.Context(), r.PathValue("path"), r.URL.RawQuery)
		if err != nil {
			sendJSON(w, http.StatusInternalServerError, map[string]string{"message": err.Error()})
			return
		}
		for name, values := range response.Headers {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		w.WriteHeader(response.Status)
		_, _ = w.Write(response.Body)
	})
	mux.HandleFunc("GET /api/datasources/uid/{uid}/health", func(w http.ResponseWriter, r *http.Request) {
		health, err := asked(r).CheckHealth(r.Context())
		if err != nil {
			sendJSON(w, http.StatusInternalServerError, map[string]string{"message": err.Error()})
			return
		}
		status := http.StatusOK
		if health.Status != backend.HealthStatusOk {
			status = http.StatusBadRequest
		}
		sendJSON(w, status, map[string]any{"status": health.Status.String(), "message": health.Message,
			"details": json.RawMessage(health.JSONDetails)})
	})
	return mux
}

// bridgeQuery reads the body of /api/ds/query and asks.
func bridgeQuery(r *http.Request, source *host.Source) (*backend.QueryDataResponse, error) {
	var body struct {
		Queries  []json.RawMessage `json:"queries"`
		From, To string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	from, err := bridgeTime(body.From)
	if err != nil {
		return nil, err
	}
	to, err := bridgeTime(body.To)
	if err != nil {
		return nil, err
	}
	request := &backend.QueryDataRequest{Headers: map[string]string{}}
	if r.Header.Get("FromAlert") != "" {
		request.Headers["FromAlert"] = r.Header.Get("FromAlert")
	}
	for i, raw := range body.Queries {
		q, err := cli.ReadQuery(i, raw, backend.TimeRange{From: from, To: to})
		if err != nil {
			return nil, err
		}
		request.Queries = append(request.Queries, q.DataQuery)
	}
	return source.QueryData(r.Context(), request)
}

// bridgeTime reads milliseconds since 1970, as the front end sends them, or what the command line reads.
func bridgeTime(text string) (time.Time, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.UnixMilli(ms), nil
	}
	return cli.ParseTime(text, time.Now())
}

func sendJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
