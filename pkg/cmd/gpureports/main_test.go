package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	code := m.Run()
	jobstest.StopServers()
	os.Exit(code)
}

var started = time.Date(2025, 10, 2, 0, 0, 0, 0, time.UTC)

// command runs a command line and returns its exit code and its output.
func command(t *testing.T, stdin string, args ...string) (code int, out, errors string) {
	t.Helper()
	return commandAt(t, started, stdin, args...)
}

// commandAt runs a command line at a time.
func commandAt(t *testing.T, now time.Time, stdin string, args ...string) (code int, out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	code = program().Run(context.Background(), args,
		&cli.Console{In: strings.NewReader(stdin), Out: &o, Err: &e, Now: now})
	return code, o.String(), e.String()
}

// writeSettings writes settings into a file of their own and returns its path.
func writeSettings(t *testing.T, settings map[string]any) string {
	t.Helper()
	text, err := json.Marshal(settings)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "settings.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// settingsFor writes a settings file into the folder of a golden pool, which it names by a relative path.
func settingsFor(t *testing.T, pool string) string {
	t.Helper()
	dir := golden.Pool(t, pool)
	path := filepath.Join(filepath.Dir(dir), "settings.json")
	text, err := json.Marshal(map[string]any{"jsonData": map[string]any{"snapshotDir": filepath.Base(dir),
		"cacheDir": "cache", "jobs": "sqlite"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

func answerTo(t *testing.T, settings, format, queries string) (int, string, string) {
	t.Helper()
	return command(t, queries, "query", "--settings", settings, "--query", "-", "--from", "2025-09-30T00:00:00Z", "--to",
		"now", "--format", format)
}

func TestQueryJSON(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	code, out, errors := answerTo(t, settings, "json", `[
		{"queryType": "allocation", "bucket": "1d", "refId": "series"},
		{"queryType": "allocation", "view": "nonsense"},
		{"queryType": "allocation", "view": "summary", "metrics": ["free"], "fromAlert": true},
		{"queryType": "allocation", "view": "summary", "fromAlert": true},
		{"queryType": "allocation", "filter": {"machines": ["nowhere"]}}]`)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "2 of 5 queries failed")
	var answers []struct {
		RefID  string
		Status int
		Error  *string
		Frames []struct {
			Schema struct {
				Meta   struct{ Type string }
				Fields []struct{ Name, Type string }
			}
			Data struct{ Values [][]any }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &answers), out)
	require.Len(t, answers, 5)
	require.Equal(t, []string{"series", "B", "C", "D", "E"},
		[]string{answers[0].RefID, answers[1].RefID, answers[2].RefID, answers[3].RefID, answers[4].RefID})
	require.Greater(t, len(answers[0].Frames), 1, "a frame a series")
	for _, frame := range answers[0].Frames {
		require.Equal(t, "timeseries-multi", frame.Schema.Meta.Type)
		require.Len(t, frame.Data.Values, 2)
	}
	require.Equal(t, 200, answers[0].Status)
	require.Nil(t, answers[0].Error)
	require.Equal(t, 400, answers[1].Status)
	require.Contains(t, *answers[1].Error, "nonsense")
	require.NotNil(t, answers[1].Frames, "frames is a list")
	require.Empty(t, answers[1].Frames)
	require.Equal(t, "numeric-long", answers[2].Frames[0].Schema.Meta.Type, "answered as for an alert rule")
	require.Contains(t, *answers[3].Error, "alert")
	require.Len(t, answers[4].Frames, 1)
	require.Empty(t, answers[4].Frames[0].Schema.Fields, "no data")

	code, out, errors = answerTo(t, settings, "json", `{"queryType": "userHours"}`)
	require.Equal(t, cli.ExitOK, code)
	require.Empty(t, errors, "only JSON")
	require.NoError(t, json.Unmarshal([]byte(out), &answers))
	require.Equal(t, "A", answers[0].RefID)
}

func TestQueryInterval(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	points := func(extra string) int {
		code, out, _ := answerTo(t, settings, "csv", `{"queryType": "allocation", "groupBy": ["slots"], "filter": {"slots": ["Real"]}`+extra+`}`)
		require.Equal(t, cli.ExitOK, code)
		return strings.Count(out, "\n") - 1
	}
	require.Equal(t, points(`, "bucket": "15m"`), points(""), "two days in a thousand points: the smallest")
	require.Equal(t, points(`, "bucket": "1h"`), points(`, "intervalMs": 3600000`))
	require.Equal(t, points(`, "bucket": "3h"`), points(`, "intervalMs": 3600001.5, "maxDataPoints": 7`))
}

func TestQueryCSV(t *testing.T) {
	code, out, errors := answerTo(t, settingsFor(t, "pool-a"), "csv", `[
		{"queryType": "allocation", "view": "summary"}, {"queryType": "nonsense"}, {"queryType": "userHours", "view": "summary", "groupBy": []}]`)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "nonsense")
	parts := strings.Split(out, "\n\n")
	require.Len(t, parts, 2, "frames separated by an empty line")
	records, err := csv.NewReader(strings.NewReader(parts[0])).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"category", "allocatedPercent", "allocated"}, records[0][:3])
	require.Equal(t, "Prioritized (Researcher Owned)", records[1][0])
	require.Len(t, records, 9, "head, six categories, two totals")
	require.NotContains(t, records[1][1], ",", "plain numbers")
}

func TestUsage(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	for _, args := range [][]string{
		{},
		{"nonsense"},
		{"query"},
		{"query", "--settings", settings, "--query", "-", "--from", "now-1h"},
		{"query", "--settings", settings, "--query", "-", "--from", "yesterday", "--to", "now"},
		{"query", "--settings", settings, "--query", "-", "--from", "now-1q", "--to", "now"},
		{"query", "--settings", settings, "--query", "-", "--from", "now-1h", "--to", "now", "--format", "xml"},
		{"query", "--settings", settings + "-missing", "--query", "-", "--from", "now-1h", "--to", "now"},
		{"query", "--settings", settings, "--query", settings + "-missing", "--from", "now-1h", "--to", "now"},
	} {
		code, out, errors := command(t, `{"queryType": "allocation"}`, args...)
		require.Equal(t, cli.ExitUsage, code, args)
		require.NotEmpty(t, errors, args)
		require.Empty(t, out, args)
	}
	for _, queries := range []string{``, `7`, `[]`, `{"queryType"`, `[{"refId": "A"}, {"refId": "A"}]`, `{"refId": 7}`} {
		code, _, errors := answerTo(t, settings, "json", queries)
		require.Equal(t, cli.ExitUsage, code, queries)
		require.NotEmpty(t, errors, queries)
	}
	code, out, _ := command(t, "", "--help")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, "query")
	code, out, _ = command(t, "", "query", "--help")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, "--from")
}

func TestReport(t *testing.T) {
	settings := settingsFor(t, "pool-a")
	window := []string{"--from", "2025-09-30T00:00:00Z", "--to", "2025-10-01T00:00:00Z"}
	code, out, errors := command(t, "", append([]string{"report", "--settings", settings, "--title", "Weekly"},
		window...)...)
	require.Equal(t, cli.ExitOK, code, errors)
	require.True(t, strings.HasPrefix(out, "Weekly\n======\n2025-09-30 00:00 to 2025-10-01 00:00 UTC"), out[:200])
	require.Contains(t, out, "Real Slots (total)")

	file := filepath.Join(t.TempDir(), "report.html")
	code, out, errors = command(t, "", "report", "--settings", settings, "--last", "1d", "--timezone", "America/Chicago",
		"--format", "html", "--output", file)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Empty(t, out)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(page), "2025-09-30 19:00 to 2025-10-01 19:00 America/Chicago")

	for _, args := range [][]string{{}, {"--last", "soon"}, {"--from", "now"}, {"--last", "24h", "--sections", "weather"},
		{"--last", "24h", "--timezone", "Mars"}, {"--last", "24h", "--format", "pdf"}} {
		code, _, errors := command(t, "", append([]string{"report", "--settings", settings}, args...)...)
		require.Equal(t, cli.ExitUsage, code, "%v %s", args, errors)
	}
}

func TestImportJobs(t *testing.T) {
	dir := golden.Pool(t, "pool-a")
	output := filepath.Join(t.TempDir(), "jobs.db")
	code, out, errors := command(t, "", "import-jobs", "--output", output,
		filepath.Join(dir, "jobs_history_refactored.jsonl"), filepath.Join(dir, "jobs_epochs.jsonl"))
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, " 0 already there, 0 of the other kind, 0 not readable")
	code, out, _ = command(t, "", "import-jobs", "--output", output, "--kind", "history",
		filepath.Join(dir, "jobs_epochs.jsonl"))
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, out, " 0 stored")
	odd := filepath.Join(t.TempDir(), "odd.jsonl")
	require.NoError(t, os.WriteFile(odd, []byte("{\"GlobalJobId\": \"a#1.0#3\", \"CompletionDate\": "+
		"7}\nnonsense\n{\"a\": \"\x01\"}\n"), 0o600))
	code, out, errors = command(t, "", "import-jobs", "--output", output, odd)
	require.Equal(t, cli.ExitFailed, code, "nothing is left out in silence")
	require.Contains(t, out, " 1 stored, 0 already there, 0 of the other kind, 2 not readable")
	require.Contains(t, errors, odd+":2: ")
	require.Contains(t, errors, odd+":3: ")
	require.NotContains(t, errors, "\x01")
	code, _, _ = command(t, "", "import-jobs", "--output", output, "--kind", "x", filepath.Join(dir, "jobs_epochs.jsonl"))
	require.Equal(t, cli.ExitUsage, code)
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	code, _, errors := command(t, "", "collect", "--snapshot-dir", dir, "--condor-status",
		filepath.Join(dir, "condor_status"))
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errors, "condor_status")
	code, _, errors = command(t, "", "collect", "--snapshot-dir", dir, "--timezone", "Mars")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "Mars")
	code, _, _ = command(t, "", "collect", "--snapshot-dir", dir, "--every", "1s")
	require.Equal(t, cli.ExitUsage, code)
}

// skill is the page for those who ask by machine. UPDATE=1 go test ./pkg/cmd/gpureports -run TestSkill renews its
// answers.
const skill = "../../../docs/agents/SKILL.md"

// example is a worked example: a block with a command, and the block with its answer.
var example = regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n\n```text\n(.*?)^```\n")

// Each worked example of the page is answered as the page shows it, on the sample pool that it names.
func TestSkill(t *testing.T) {
	o := samplepool.Default()
	made, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, made.Write(t.Context(), dir))
	settings := filepath.Join(dir, "settings.json")
	text, err := json.Marshal(map[string]any{"jsonData": map[string]any{"snapshotDir": ".", "timezone": o.Timezone,
		"jobs": "sqlite"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(settings, text, 0o600))

	page, err := os.ReadFile(skill)
	require.NoError(t, err)
	examples := example.FindAllStringSubmatch(string(page), -1)
	require.Len(t, examples, 10)
	renewed := string(page)
	for _, e := range examples {
		block, shown := e[1], e[2]
		commands := commandsOf(t, block)
		require.Len(t, commands, 1, block)
		args := commands[0].args
		require.Equal(t, "gpureports", args[0])
		for i, arg := range args {
			if arg == "settings.json" {
				args[i] = settings
			}
		}
		code, out, errors := commandAt(t, o.End, commands[0].input, args[1:]...)
		require.Equal(t, cli.ExitOK, code, "%s\n%s", block, errors)
		table := withoutNotices(out)
		require.Greater(t, strings.Count(table, "\n"), 2, "no answer: %s", block)
		if os.Getenv("UPDATE") != "" {
			renewed = strings.Replace(renewed, e[0], "```sh\n"+block+"```\n\n```text\n"+table+"```\n", 1)
		} else {
			require.Equal(t, table, shown, "%s\nUPDATE=1 go test ./pkg/cmd/gpureports -run TestSkill renews the page", block)
		}
	}
	if renewed != string(page) {
		require.NoError(t, os.WriteFile(skill, []byte(renewed), 0o600))
	}
}

// withoutNotices cuts the title of a table and the notices after it; CSV has neither.
func withoutNotices(out string) string {
	if _, table, found := strings.Cut(out, "\n\n\n"); found {
		out, _, _ = strings.Cut(table, "\n* ")
	}
	return strings.TrimRight(out, "\n") + "\n"
}
