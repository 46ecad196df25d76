package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// checkOf runs check over a directory with these settings and returns the findings by store, too.
func checkOf(t *testing.T, dir string, settings map[string]any) (code int, text string,
	found map[string]struct{ Severity, Text string }) {
	t.Helper()
	settings["snapshotDir"] = dir
	file := writeSettings(t, map[string]any{"jsonData": settings})
	code, text, errors := command(t, "", "check", "--settings", file)
	require.Equal(t, code == cli.ExitOK, errors == "", errors)
	again, out, _ := command(t, "", "check", "--settings", file, "--last", "7d", "--format", "json")
	require.Equal(t, code, again)
	var answer struct {
		Checked  time.Time
		Counts   map[string]int
		Findings []struct{ Store, Severity, Text string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &answer), out)
	require.Equal(t, started, answer.Checked)
	found = map[string]struct{ Severity, Text string }{}
	for _, f := range answer.Findings {
		found[f.Store] = struct{ Severity, Text string }{f.Severity, f.Text}
	}
	require.Equal(t, answer.Counts["error"]+answer.Counts["warning"] == 0, code == cli.ExitOK)
	for _, line := range strings.Split(text, "\n") {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 100)
	}
	return code, text, found
}

// A pool without a fault, up to the time at which the tests take place.
func TestCheckGoodPool(t *testing.T) {
	o := samplepool.RightClocks()
	o.Machines, o.Start, o.End = 6, started.AddDate(0, 0, -4), started
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(context.Background(), dir))
	code, text, found := checkOf(t, dir, map[string]any{"jobs": "sqlite"})
	require.Equal(t, cli.ExitOK, code, text)
	require.Contains(t, text, "ok       Time zone: UTC fits the jobs' queue dates in all month files.")
	require.Contains(t, text, "note     Cache: in memory only")
	require.Equal(t, "ok", found["clocks"].Severity)

	code, text, found = checkOf(t, dir, map[string]any{})
	require.Equal(t, cli.ExitOK, code, text)
	require.Equal(t, "note", found["jobs"].Severity, "no job source")
	require.NotContains(t, found, "links")

	code, text, found = checkOf(t, dir, map[string]any{"jobs": "sqlite", "jobsPath": "none.db",
		"timezone": "America/Chicago"})
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "error", found["jobs"].Severity)
	require.True(t, strings.HasPrefix(text, "error    Jobs: "), "the worst first: %s", text)
	require.Contains(t, text, "warning  Time zone: America/Chicago does not fit in all month files: no job is seen")
}

func TestCheckGolden(t *testing.T) {
	code, text, found := checkOf(t, golden.Pool(t, "pool-b"),
		map[string]any{"jobs": "sqlite", "timezone": "America/Chicago"})
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "ok", found["timezone"].Severity, found["timezone"].Text)
	require.Contains(t, found["other files"].Text, "gpu_state_2025-10_dev.db")
	require.Contains(t, found["snapshots"].Text, "That is in the future")
	require.Contains(t, text, "warning  Snapshots: ")
}

func TestCheckNothing(t *testing.T) {
	dir := t.TempDir()
	code, text, _ := checkOf(t, dir, map[string]any{})
	require.Equal(t, cli.ExitFailed, code)
	words := strings.Join(strings.Fields(text), " ") // wrapped at the terminal's width
	require.Contains(t, words, "error Snapshots: no month file gpu_state_YYYY-MM.db or gpu_state_YYYY-MM.parquet in "+
		"the snapshot directory "+dir)
	code, text, _ = checkOf(t, filepath.Join(dir, "missing"), map[string]any{})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "does not exist")
	code, text, _ = checkOf(t, dir, map[string]any{"sliceMinutes": 7})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "sliceMinutes 7 is unknown")
}

// Names of data that would change a terminal's colors do not.
func TestCheckHostileNames(t *testing.T) {
	dir := golden.Pool(t, "pool-a")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chtc_owned"), []byte("evil\x1b[31m\u202e.example.org\n"), 0o600))
	_, text, _ := checkOf(t, dir, map[string]any{})
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\u202e")
	require.Contains(t, text, "evil")
}

func TestCheckUsage(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	for _, args := range [][]string{{}, {"--settings", settings + "-missing"}, {"--settings", settings, "--last", "soon"},
		{"--settings", settings, "--last", "0d"}, {"--settings", settings, "--format", "xml"}} {
		code, out, errors := command(t, "", append([]string{"check"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.Empty(t, out)
		require.NotEmpty(t, errors)
	}
}
