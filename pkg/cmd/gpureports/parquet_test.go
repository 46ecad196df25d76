package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// questions are one of each view that has numbers.
var questions = []map[string]any{
	{"queryType": "allocation", "view": "timeseries", "bucket": "1h", "metrics": []string{"allocated", "free", "drained"}},
	{"queryType": "allocation", "view": "summary", "groupBy": []string{"category", "device", "memory"}},
	{"queryType": "allocation", "view": "summary", "groupBy": []string{"machine"}},
	{"queryType": "allocation", "view": "current"},
	{"queryType": "allocation", "view": "machines"},
	{"queryType": "allocation", "view": "stateTimeline"},
	{"queryType": "allocation", "view": "annotations"},
	{"queryType": "userHours", "view": "summary"},
	{"queryType": "backfillAvailability", "view": "summary"},
	{"queryType": "backfillAvailability", "view": "periods"},
	{"queryType": "backfillAvailability", "view": "survival"},
	{"queryType": "evictions", "view": "summary", "groupBy": []string{"device"}},
	{"queryType": "evictions", "view": "runs"},
}

// answersOf asks all questions of a directory and returns the answers, without how long they took.
func answersOf(t *testing.T, dir, zone, from, to string) string {
	t.Helper()
	path := writeSettings(t, map[string]any{"jsonData": map[string]any{"snapshotDir": dir, "timezone": zone}})
	query, err := json.Marshal(questions)
	require.NoError(t, err)
	code, out, errors := command(t, string(query), "query", "--settings", path, "--query", "-", "--from", from, "--to",
		to, "--format", "json")
	require.Equal(t, cli.ExitOK, code, errors)
	return regexp.MustCompile(`"stats":\[[^]]*\]`).ReplaceAllString(out, "")
}

// Months in Parquet give the very answers that months in SQLite give: as polars wrote them, and as `convert` does.
func TestFormatsGiveTheSameAnswers(t *testing.T) {
	windows := [][2]string{
		{"2025-09-27T05:00:00Z", "2025-10-03T05:00:00Z"}, {"2025-09-30T12:00:00Z", "2025-10-01T12:00:00Z"},
		{"2025-09-29T03:17:11Z", "2025-10-01T09:44:00Z"},
	}
	sqlite, parquet, converted := golden.Pool(t, "pool-c"), golden.Parquet(t), golden.Pool(t, "pool-c")
	for _, month := range []string{"gpu_state_2025-09.db", "gpu_state_2025-10.db"} {
		code, out, errors := command(t, "", "convert", filepath.Join(converted, month))
		require.Equal(t, cli.ExitOK, code, errors)
		require.Contains(t, out, "compared with "+month+" row by row")
		require.NoError(t, os.Remove(filepath.Join(converted, month)))
	}
	for _, w := range windows {
		want := answersOf(t, sqlite, "America/Chicago", w[0], w[1])
		require.Greater(t, len(want), 10000)
		require.Equal(t, want, answersOf(t, parquet, "America/Chicago", w[0], w[1]))
		require.Equal(t, want, answersOf(t, converted, "America/Chicago", w[0], w[1]))
	}
	code, _, errors := command(t, "", "convert", filepath.Join(converted, "gpu_state_2025-09.parquet"),
		filepath.Join(converted, "chtc_owned"))
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "chtc_owned is not a month file")
	require.FileExists(t, filepath.Join(converted, "gpu_state_2025-09.db"), "the others are converted")
}
