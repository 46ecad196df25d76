package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	code := m.Run()
	jobstest.StopServers()
	os.RemoveAll(built)
	os.Exit(code)
}

// command runs a command line and returns its exit code and its output.
func command(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	now := time.Date(2025, 10, 2, 0, 0, 0, 0, time.UTC)
	code = program().Run(t.Context(), args, &cli.Console{Out: &o, Err: &e, Now: now})
	return code, o.String(), e.String()
}

// binary is the plugin's binary, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpureports-cmd-")
	if err != nil {
		return "", err
	}
	built = dir
	return host.Build(context.Background(), dir)
})

var built string // its directory

func pluginBinary(t *testing.T) string {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return path
}

func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	args := []string{"demo", "--directory", dir, "--plugin", pluginBinary(t), "--machines", "8", "--days", "2"}
	code, out, errors := command(t, args...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "Made a sample pool of 8 machines over 2 days in "+dir)
	require.Contains(t, out, "Health: OK")
	require.Contains(t, out, "What next")
	var questions []struct{ Title string }
	require.NoError(t, json.Unmarshal(demoQuestions, &questions))
	require.NotEmpty(t, questions)
	for _, q := range questions {
		_, answer, found := strings.Cut(out, "\n"+q.Title)
		require.True(t, found, q.Title)
		_, answer, _ = strings.Cut(answer, " ms)\n")
		answer, _, _ = strings.Cut(answer, " ms)\n")
		require.NotContains(t, answer, "No data.", q.Title)
		require.Greater(t, strings.Count(answer, "\n"), 3, q.Title)
	}
	require.FileExists(t, filepath.Join(dir, settingsFile))

	code, out, errors = command(t, args...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "Using the sample pool in "+dir)
}

// Three pools in three zones publish, and a data source of all of them answers by pool.
func TestDemoFleet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pools")
	code, out, errors := command(t, "demo", "--fleet", "--directory", dir, "--plugin", pluginBinary(t), "--machines",
		"6", "--days", "2")
	if strings.Contains(errors, elastictest.ErrNoTools.Error()) && os.Getenv("CI") == "" {
		t.Skip(errors)
	}
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "Health: OK")
	require.Contains(t, out, "What next")
	var questions []struct{ Title string }
	require.NoError(t, json.Unmarshal(fleetQuestions, &questions))
	for _, q := range questions {
		_, answer, found := strings.Cut(out, "\n"+q.Title)
		require.True(t, found, q.Title)
		_, answer, _ = strings.Cut(answer, " ms)\n")
		answer, _, _ = strings.Cut(answer, " ms)\n")
		for _, p := range fleetPools {
			require.Contains(t, answer, p.name, q.Title)
		}
	}
}

// Without the programs that Elasticsearch is put together with, the demo says which one is missing.
func TestDemoFleetWithoutTools(t *testing.T) {
	t.Setenv("PATH", "")
	code, _, errors := command(t, "demo", "--fleet", "--directory", t.TempDir())
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "a JDK (javac, 17 or newer) and Maven (mvn), and one of them is missing")
}

func TestSample(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	code, out, errors := command(t, "sample", dir, "--machines", "5", "--days", "1")
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, settingsFile)
	for _, name := range []string{"chtc_owned", "masked_hosts.yaml", "jobs.db", settingsFile} {
		require.FileExists(t, filepath.Join(dir, name))
	}
	code, _, errors = command(t, "sample", dir, "--machines", "5", "--days", "1")
	require.Equal(t, cli.ExitFailed, code, "nothing is written over")
	require.NotEmpty(t, errors)
	code, _, errors = command(t, "sample", filepath.Join(dir, "x"), "--machines", "3")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "5 to 2000")
}

func TestBridge(t *testing.T) {
	process, err := host.Start(pluginBinary(t), io.Discard)
	require.NoError(t, err)
	defer process.Close()
	settings := settingsOf(t, "", map[string]any{"snapshotDir": golden.Pool(t, "pool-a"), "jobs": "sqlite"})
	server := httptest.NewServer(bridge(process.Source(settings)))
	defer server.Close()
	ask := func(method, path, body string, header ...string) (int, string) {
		request, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		for _, h := range header {
			request.Header.Set(h, "true")
		}
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}

	status, body := ask("GET",
		"/api/datasources/uid/any/health", "")
	require.Equal(t, 200, status)
	var health struct {
		Status, Message string
		Details         map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(body), &health))
	require.Equal(t, "OK", health.Status)
	require.Contains(t, health.Message, "Snapshots")
	require.NotEmpty(t, health.Details)

	status, body = ask("GET",
		"/api/datasources/uid/any/resources/values/slots?filter=%7B%22slots%22%3A%5B%22Real%22%5D%7D", "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `[{"text": "Real", "value": "Real"}]`, body)
	status, body = ask("GET", "/api/datasources/uid/any/resources/values/colour", "")
	require.Equal(t, 404, status)
	require.Contains(t, body, "colour")

	from, to := time.Date(2025, 9, 30, 0, 0, 0, 0, time.UTC).UnixMilli(),
		time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	query := func(window, queries string, header ...string) (int, map[string]struct {
		Status int
		Error  string
		Frames []json.RawMessage
	}) {
		status, body := ask("POST", "/api/ds/query", `{`+window+`, "queries": [`+queries+`]}`, header...)
		var answer struct {
			Results map[string]struct {
				Status int
				Error  string
				Frames []json.RawMessage
			}
		}
		require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
		return status, answer.Results
	}
	window := `"from": "` + strconv.FormatInt(from, 10) + `", "to": "` + strconv.FormatInt(to, 10) + `"`
	status, results := query(window, `{"refId": "A", "queryType": "allocation", "intervalMs": 3600000}`)
	require.Equal(t, 200, status)
	require.Equal(t, 200, results["A"].Status)
	require.Len(t, results["A"].Frames, 6)
	status, results = query(window, `{"refId": "A", "queryType": "allocation"}, {"refId": "B", "queryType": "weather"}`)
	require.Equal(t, 400, status)
	require.Empty(t, results["A"].Error)
	require.Contains(t, results["B"].Error, "weather")
	_, results = query(window, `{"refId": "A", "queryType": "allocation", "view": "current"}`, "FromAlert")
	require.Contains(t, results["A"].Error, "alert")
	status, _ = ask("POST", "/api/ds/query", `nonsense`)
	require.Equal(t, 400, status)
	status, _ = ask("POST", "/api/ds/query", `{"from": "soon", "to": "now", "queries": []}`)
	require.Equal(t, 400, status)
}

// The sample pool's ads, loaded into a real Elasticsearch as docker-compose.yaml does it, answer as the job file does.
func TestLoadAds(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	dir := filepath.Join(t.TempDir(), "pool")
	code, _, errors := command(t, "sample", dir, "--machines", "8", "--days", "2")
	require.Equal(t, cli.ExitOK, code, errors)
	prefix := fmt.Sprintf("load-ads-%d", time.Now().UnixNano()) // the server may be one that others use
	for schema, files := range map[string][]string{"legacy": {"jobs_history_legacy.jsonl"},
		"refactored": {"jobs_history_refactored.jsonl", "jobs_epochs.jsonl"}} {
		args := []string{"load-ads", "--url", server, "--index", prefix + "-" + schema, "--schema", schema}
		for _, file := range files {
			args = append(args, filepath.Join(dir, file))
		}
		code, out, errors := command(t, args...)
		require.Equal(t, cli.ExitOK, code, errors)
		require.Contains(t, out, files[0]+": ")
	}
	ask := func(jsonData map[string]any) string {
		jsonData["snapshotDir"], jsonData["timezone"] = dir, "America/Chicago"
		source := plugin.Open(settingsOf(t, server, jsonData), time.Now)
		defer source.Dispose()
		to := time.Date(2025, 10, 2, 0, 0, 0, 0, time.UTC)
		queries, err := cli.ReadQueries("-", strings.NewReader(`[{"queryType": "evictions", "view": "runs"},
			{"queryType": "backfillAvailability", "view": "periods"}]`), backend.TimeRange{From: to.AddDate(0, 0, -2), To: to})
		require.NoError(t, err)
		answers, err := cli.Ask(t.Context(), source, queries)
		require.NoError(t, err)
		var rows string
		for _, a := range answers {
			require.NoError(t, a.Error)
			for _, frame := range a.Frames {
				text, err := data.FrameToJSON(frame, data.IncludeDataOnly)
				require.NoError(t, err)
				rows += string(text) + "\n"
			}
		}
		require.Greater(t, len(rows), 10_000)
		return rows
	}
	require.Equal(t, ask(map[string]any{"jobs": "sqlite"}),
		ask(map[string]any{"jobs": "elasticsearch", "jobsIndex": prefix + "-refactored"}))
	require.Equal(t, ask(map[string]any{"jobs": "sqlite"}),
		ask(map[string]any{"jobs": "elasticsearch", "jobsIndex": prefix + "-legacy," + prefix + "-refactored"}),
		"an ad stored twice counts once")
}

func settingsOf(t *testing.T, url string, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{URL: url, JSONData: text}
}
