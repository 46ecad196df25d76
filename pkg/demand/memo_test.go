package demand_test

import (
	"database/sql"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// Answers with remembered waits equal those without, after any other queries, and also when the files grow.
func TestRememberedWaits(t *testing.T) {
	dir := golden.Pool(t, "pool-c")
	s := runstest.Open(t, dir, "America/Chicago")
	random := rand.New(rand.NewPCG(19, 14))
	whole := golden.Window(t, "2025-09-29T00:00:00Z", "2025-10-03T00:00:00Z")
	compare := func() {
		from := whole.From + random.Int64N(whole.To-whole.From)
		w := pool.Window{From: from, To: from + random.Int64N(whole.To-from)}
		for _, q := range []string{
			`{"queryType": "demand", "view": "summary", "groupBy": ["user"]}`,
			`{"queryType": "demand", "view": "summary", "filter": {"gpus": ["1"]}}`,
			`{"queryType": "demand", "view": "waiting", "limit": 50000}`,
			`{"queryType": "demand", "view": "survival"}`,
			`{"queryType": "demand", "view": "hourOfWeek"}`,
			`{"queryType": "demand", "bucket": "1h", "metrics": ["waitingGpus", "started", "freeWhileWaiting"]}`,
			`{"queryType": "demand", "view": "obstacles", "bucket": "1h", "groupBy": ["user"],
				"metrics": ["waitingJobs", "waitingGpus"]}`,
			`{"queryType": "demand", "view": "unused", "bucket": "3h", "groupBy": ["device"]}`,
		} {
			kept := s.Ask(t, nil, w, q)
			fresh := runstest.Open(t, dir, "America/Chicago")
			want := fresh.Ask(t, nil, w, q)
			require.Len(t, kept, len(want), q)
			for i := range want {
				require.Equal(t, golden.Rows(want[i:i+1]), golden.Rows(kept[i:i+1]), "%s in %v", q, w)
			}
			require.NoError(t, fresh.Close())
		}
		require.Positive(t, s.Memo.WeightedSize())
	}
	for range 6 {
		compare()
	}
	files, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	for _, statement := range []string{
		"UPDATE job_pressure SET last_seen = (SELECT max(last_seen) FROM job_pressure) WHERE rowid % 7 = 0",
		"INSERT INTO job_pressure SELECT * FROM job_pressure WHERE rowid % 50 = 0",
	} {
		db, err := sql.Open("sqlite", files[len(files)-1])
		require.NoError(t, err)
		_, err = db.Exec(statement)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		for range 4 {
			compare()
		}
	}
}
