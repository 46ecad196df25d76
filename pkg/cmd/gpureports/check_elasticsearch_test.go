package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/cmd/cli"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// A good pool whose job ads are in a real Elasticsearch, in both schemas.
func TestCheckElasticsearch(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	o := samplepool.RightClocks()
	o.Machines, o.Start, o.End = 6, started.AddDate(0, 0, -3), started
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(context.Background(), dir))
	prefix := fmt.Sprintf("check-%d", time.Now().UnixNano()) // the server may be one that others use
	for index, load := range map[string]struct {
		file   string
		schema adstash.Schema
	}{
		prefix + "-history": {"jobs_history_legacy.jsonl", adstash.Legacy},
		prefix + "-epochs":  {"jobs_epochs.jsonl", adstash.Refactored},
	} {
		_, err := adstash.LoadFile(t.Context(), url, index, load.schema, filepath.Join(dir, load.file))
		require.NoError(t, err)
	}
	check := func(url string, jsonData map[string]any) (int, string) {
		jsonData["snapshotDir"], jsonData["jobs"] = dir, "elasticsearch"
		code, text, _ := command(t, "", "check", "--settings",
			writeSettings(t, map[string]any{"url": url, "jsonData": jsonData}))
		return code, text
	}
	code, text := check(url, map[string]any{"jobsIndex": prefix + "-history", "jobsEpochIndex": prefix + "-epochs"})
	require.Equal(t, cli.ExitOK, code, text)
	require.Contains(t, text, "Jobs: ")
	require.Contains(t, text, "Elasticsearch 8.")
	require.Contains(t, text, "ok       Links: ")
	require.Contains(t, text, "ok       Clocks: ")

	code, text = check(url, map[string]any{"jobsIndex": prefix + "-missing"})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "error    Jobs: ")
	require.Contains(t, text, prefix+"-missing")

	code, text = check("http://somebody:secret@127.0.0.1:1", map[string]any{"jobsIndex": prefix + "-history"})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, text, "error    Jobs: ")
	require.NotContains(t, text, "secret")
}
