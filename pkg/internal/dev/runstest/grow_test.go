package runstest

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// told are the notices of an answer, and its statistics but those of how it came about.
func told(answer data.Frames) (all []string) {
	for _, n := range answer[0].Meta.Notices {
		all = append(all, n.Text)
	}
	for _, s := range answer[0].Meta.Stats {
		if s.Unit != "ms" && s.DisplayName != "Rows read" && !strings.HasPrefix(s.DisplayName, "Days ") {
			all = append(all, fmt.Sprint(s.DisplayName, " ", s.Value))
		}
	}
	return all
}

var queries = []string{
	`{"queryType": "evictions", "groupBy": ["machine"]}`,
	`{"queryType": "evictions", "view": "events", "limit": 50000}`,
	`{"queryType": "evictions", "view": "timeseries"}`,
	`{"queryType": "evictions", "view": "survival"}`,
	`{"queryType": "backfillAvailability", "totals": false}`,
	`{"queryType": "backfillAvailability", "groupBy": ["machine"]}`,
	`{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`,
	`{"queryType": "backfillAvailability", "view": "periods", "duration": "tenure", "limit": 50000}`,
	`{"queryType": "backfillAvailability", "view": "timeseries"}`,
	`{"queryType": "backfillAvailability", "view": "transitions", "groupBy": ["machine"]}`,
	`{"queryType": "backfillAvailability", "view": "survival"}`,
	`{"queryType": "backfillAvailability", "view": "jobLength"}`,
	`{"queryType": "allocation", "bucket": "3h", "metrics": ["allocatedPercent", "free", "prevented"]}`,
	`{"queryType": "allocation", "view": "summary", "filter": {"machines": ["/gpu/"]}}`,
	`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "1d"}`,
	`{"queryType": "userHours", "groupBy": ["device"]}`,
	`{"queryType": "utilization", "view": "summary", "groupBy": ["user", "device"]}`,
	`{"queryType": "utilization", "view": "runs", "limit": 50000}`,
	`{"queryType": "utilization", "view": "idle"}`,
	`{"queryType": "utilization", "bucket": "1h", "metrics": ["busy", "idle"], "groupBy": ["category"]}`,
	`{"queryType": "utilization", "bucket": "1d", "metrics": ["utilizationPercent"], "filter": {"slots": ["Backfill"]}}`,
	`{"queryType": "demand", "view": "summary", "groupBy": ["user"]}`,
	`{"queryType": "demand", "view": "summary", "filter": {"gpus": ["1"]}}`,
	`{"queryType": "demand", "view": "waiting", "limit": 50000}`,
	`{"queryType": "demand", "view": "survival"}`,
	`{"queryType": "demand", "bucket": "1h", "metrics": ["waitingGpus", "started", "freeWhileWaiting"]}`,
	`{"queryType": "demand", "view": "obstacles", "bucket": "1h", "groupBy": ["user"], "metrics": ["waitingJobs"]}`,
	`{"queryType": "demand", "view": "unused", "bucket": "3h", "groupBy": ["device"]}`,
}

// Answers and their notices while a sample pool, its queues and its lists change equal those of a newly opened source,
// whatever is kept of earlier ones: with job ads, of which some come late, and without.
func TestAnswersWhileAPoolGrows(t *testing.T) {
	options := samplepool.Default()
	options.Machines, options.ShortRuns, options.MissingJobIDs = 8, 0.2, 0.1
	p, err := samplepool.New(options)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 4))
	g := Grow(t, p)
	require.NoError(t, p.WriteQueues(t.Context(), g.Dir))
	queues, err := sql.Open("sqlite", filepath.Join(g.Dir, "job_pressure_2025-10.db"))
	require.NoError(t, err)
	defer queues.Close()
	all, err := p.Ads(t.Context())
	require.NoError(t, err)
	var now time.Time
	archive := jobstest.NewMemory()
	ads := jobs.NewCache(1<<28, func() time.Time { return now }).Source(archive, "archive", nil)
	s, fresh := Open(t, g.Dir, "America/Chicago"), Open(t, g.Dir, "America/Chicago")
	g.Add(150)
	for step := range 16 {
		now = g.Add(1 + random.IntN(12)).Add(time.Minute)
		switch step % 6 {
		case 1:
			_, err := queues.Exec("UPDATE job_pressure SET last_seen = last_seen + 3600 WHERE rowid % 7 = ?", step%7)
			require.NoError(t, err)
		case 2:
			s.Env.Lists.CHTCOwned = map[string]bool{p.Machines()[step%3].Name: true}
			fresh.Env = s.Env
		case 3:
			now = now.Add(8 * time.Hour) // then late ads are requested again
		case 5:
			g.Edit(random)
		}
		for i, ad := range all {
			if arrived := now.Unix() >= ad.RecordTime && random.IntN(3) > 0; arrived && ad.JSON != nil {
				archive.Add(ad.JSON)
				all[i].JSON = nil
			}
		}
		w := pool.NewWindow(now.Add(-20*time.Hour), now)
		if step%4 == 0 {
			w.From -= random.Int64N(pool.Day)
		}
		fresh.Runs.Close()
		fresh.Memo.InvalidateAll()
		for _, source := range []jobs.Source{ads, nil} {
			for _, q := range queries {
				want, got := fresh.Ask(t, source, w, q), s.Ask(t, source, w, q)
				require.Equal(t, golden.Rows(want), golden.Rows(got), "step %d: %s", step, q)
				require.Equal(t, told(want), told(got), "step %d: %s", step, q)
			}
		}
		require.Positive(t, s.Memo.WeightedSize())
	}
}
