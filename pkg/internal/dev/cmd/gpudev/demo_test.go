package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
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
