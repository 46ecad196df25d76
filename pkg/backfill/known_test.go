package backfill_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Answers from the cache equal those of a newly opened source, after any queries and any changes: of the window, the
// ads, the lists, the snapshots.
func TestKeptPeriodsAreDropped(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(golden.Pool(t, "pool-b"))))
	now := time.Date(2025, 11, 3, 6, 0, 0, 0, time.UTC)
	memory := jobstest.NewMemory()
	source := jobs.NewCache(1<<26, func() time.Time { return now }).Source(memory, "memory", nil)
	s := runstest.Open(t, dir, "America/Chicago")
	windows := []pool.Window{golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z"),
		golden.Window(t, "2025-11-01T03:00:00Z", "2025-11-02T09:30:00Z"),
		golden.Window(t, "2025-11-01T03:07:00Z", "2025-11-02T09:37:00Z")}
	views := []string{summary, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", "limit": 50000}`,
		`{"queryType": "backfillAvailability", "view": "jobLength"}`}
	last := ""
	check := func(what string) {
		t.Helper()
		fresh := runstest.Open(t, dir, "America/Chicago")
		fresh.Env = s.Env
		all := ""
		for _, w := range windows {
			for _, view := range views {
				want := fmt.Sprint(golden.Rows(fresh.Ask(t, memory, w, view)))
				for range 2 {
					require.Equal(t, want, fmt.Sprint(golden.Rows(s.Ask(t, source, w, view))), "%s: %s %v", what, view, w)
				}
				all += want
			}
		}
		require.NotEqual(t, last, all, what)
		last = all
	}
	check("no ads")
	memory.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, "pool-b", "jobs_epochs.jsonl")), []byte("\n"))...)
	now = now.Add(7 * time.Hour)
	check("late ads")
	s.Env.Lists.CHTCOwned = nil
	check("other lists")
	files, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.db"))
	require.NoError(t, err)
	require.Greater(t, len(files), 1)
	require.NoError(t, os.Remove(files[0]))
	check("a month is gone")
}
