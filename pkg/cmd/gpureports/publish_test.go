package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs/jobstest"
)

// A pool publishes, and a data source of many pools answers from what is there; publishing again only writes the day
// that is not finished.
func TestPublish(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	dir := t.TempDir()
	code, _, errors := command(t, "", "sample", filepath.Join(dir, "pool"), "--machines", "6", "--days", "2")
	require.Equal(t, exitOK, code, errors)
	alias := fmt.Sprintf("publish-%d", time.Now().UnixNano()) // the server may be one that others use
	settings := func(jsonData map[string]any) string {
		jsonData["factsIndex"] = alias
		return writeSettings(t, map[string]any{"url": server, "jsonData": jsonData})
	}
	pool := settings(map[string]any{"snapshotDir": filepath.Join(dir, "pool"), "timezone": "America/Chicago"})
	code, out, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, exitOK, code, errors)
	require.Regexp(t, `Published \d{3,} documents of pool CHTC in .*; 0 that are no more were removed`, out)
	code, again, errors := command(t, "", "publish", "--settings", pool, "--pool", "CHTC")
	require.Equal(t, exitOK, code, errors)
	require.Less(t, len(again), len(out), "the finished days are there")

	fleet := settings(map[string]any{"mode": "fleet"})
	code, out, errors = answerTo(t, fleet, "csv",
		`{"queryType": "allocation", "view": "summary", "groupBy": ["pool", "category"], "metrics": ["allocated"]}`)
	require.Equal(t, exitOK, code, errors)
	require.Contains(t, out, "CHTC,")

	for _, wrong := range [][]string{{"--every", "5s"}, {"--since", "soon"}} {
		code, _, _ = command(t, "", append([]string{"publish", "--settings", pool, "--pool", "CHTC"}, wrong...)...)
		require.Equal(t, exitUsage, code, wrong)
	}
	code, _, errors = command(t, "", "publish", "--settings", fleet, "--pool", "CHTC")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errors, "Ask the data source of a pool")
}
