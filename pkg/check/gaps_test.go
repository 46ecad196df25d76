package check

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/collect"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The run log as the collector really writes it.
func TestRunLog(t *testing.T) {
	dir := t.TempDir()
	fake := filepath.Join(t.TempDir(), "condor_status")
	script := func(text string) { require.NoError(t, os.WriteFile(fake, []byte("#!/bin/sh\n"+text+"\n"), 0o700)) }
	options := collect.Options{SnapshotDir: dir, CondorStatus: fake}
	script(`echo '[{"Name": "slot1@m1", "Machine": "m1", "State": "Unclaimed", "AssignedGPUs": "GPU-aaaaaaaa"}]'`)
	_, err := collect.Run(t.Context(), options)
	require.NoError(t, err)
	first := time.Now().UnixMicro()
	script(`echo "the collector is away" >&2; exit 1`)
	for range 2 {
		_, err = collect.Run(t.Context(), options)
		require.Error(t, err)
	}
	in := open(t, dir, "UTC", time.Now())
	log, err := runlog.Read(t.Context(), in.Dir, pool.Window{From: first - pool.Hour, To: first + pool.Hour})
	require.NoError(t, err)
	require.Len(t, log.Failed, 2)
	reason := why(log, timeline.Gap{From: first, To: first + pool.Hour})
	require.Contains(t, reason, "2 runs of the collector failed, the last one: ")
	require.Contains(t, reason, "the collector is away")
	require.Equal(t, "the collector was not started", why(log, timeline.Gap{From: first + pool.Hour,
		To: first + 2*pool.Hour}))
	require.Empty(t, why(log, timeline.Gap{From: first - 2*pool.Hour, To: first - pool.Hour}), "before there was a log")
	require.Empty(t, why(nil, timeline.Gap{From: first, To: first + pool.Hour}))
}

func TestRunLogBroken(t *testing.T) {
	p, dir := made(t, good())
	require.NoError(t, os.WriteFile(filepath.Join(dir, runlog.Name),
		[]byte("no database, but long enough to be looked at as one, "+
			"which takes a hundred bytes or so, not fewer than that"), 0o600))
	found := look(t, open(t, dir, "UTC", p.Options().End))
	require.Equal(t, Note, found["run log"].Severity)
	require.Contains(t, found["run log"].Text, "cannot be read")
}
