package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// A pool publishes, and a data source of many pools answers from its facts; publishing again writes only the
// unfinished day.
func TestPublish(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	o := samplepool.Default()
	o.Machines, o.Start, o.End = 6, started.AddDate(0, 0, -2), started
	sample, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, sample.Write(t.Context(), dir))
	alias := fmt.Sprintf("publish-%d", time.Now().UnixNano()) // the server may be one that others use
	settings := func(jsonData map[string]any) string {
		jsonData["factsIndex"] = alias
		return writeSettings(t, map[string]any{"url": server, "jsonData": jsonData})
	}
	pool := settings(map[string]any{"snapshotDir": dir, "timezone": "America/Chicago"})
	code, out, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, cli.ExitOK, code, errors)
	require.Regexp(t, `Published \d{3,} documents of pool CHTC in .*; 0 outdated ones were removed`, out)
	code, again, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, cli.ExitOK, code, errors)
	require.Less(t, len(again), len(out), "the finished days are there")

	fleet := settings(map[string]any{"mode": "fleet"})
	code, out, errors = answerTo(t, fleet, "csv",
		`{"queryType": "allocation", "view": "summary", "groupBy": ["pool", "category"], "metrics": ["allocated"]}`)
	require.Equal(t, cli.ExitOK, code, errors)
	require.Contains(t, out, "CHTC,")

	code, _, errors = command(t, "", "publish", "--settings", pool, "--pool", "CHTC", "--since=soon")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "soon")
	code, _, errors = command(t, "", "publish", "--settings", fleet, "--pool", "CHTC")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, errors, "Ask the data source of a pool")
}
