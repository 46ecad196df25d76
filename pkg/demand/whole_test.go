package demand_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

// Why 38,000 jobs wait over 30 days of 900 GPUs, polled every half hour: the first time, asked again, and after a
// further poll.
func BenchmarkWhyJobsWait(b *testing.B) {
	o := samplepool.RightClocks()
	o.Machines, o.GPUs, o.Polls, o.NewColumns, o.Cadence = 170, 900, 0, o.Start, 30*time.Minute
	o.End = o.Start.AddDate(0, 0, 30)
	made, err := samplepool.New(o)
	require.NoError(b, err)
	dir := b.TempDir()
	require.NoError(b, made.WriteSnapshots(b.Context(), dir))
	grow := longQueue(b, dir, o.Start, o.End.Add(-24*time.Hour))
	w := pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()}
	for _, view := range []string{"obstacles", "unused", "freeWhileWaiting"} {
		text := fmt.Sprintf(`{"queryType": "demand", "view": %q, "bucket": "3h"}`, view)
		if view == "freeWhileWaiting" {
			text = `{"queryType": "demand", "bucket": "3h", "metrics": ["freeWhileWaiting"]}`
		}
		first := func(b *testing.B) runstest.Source {
			s := runstest.Open(b, dir, o.Timezone)
			s.Ask(b, nil, w, `{"queryType": "demand", "view": "summary", "metrics": ["waits"]}`) // reads files
			return s
		}
		b.Run(view+"/first", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := first(b)
				b.StartTimer()
				s.Ask(b, nil, w, text)
			}
		})
		s := first(b)
		s.Ask(b, nil, w, text)
		b.Run(view+"/warm", func(b *testing.B) {
			for n := pool.Micros(0); b.Loop(); n++ {
				s.Ask(b, nil, pool.Window{From: w.From + n, To: w.To + n}, text)
			}
		})
		b.Run(view+"/new poll", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				grow()
				b.StartTimer()
				s.Ask(b, nil, w, text)
			}
		})
	}
}

// longQueue writes a queue file in which about 38,000 jobs wait at each poll, and returns what adds a poll.
func longQueue(b *testing.B, dir string, from, to time.Time) (grow func()) {
	b.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "job_pressure_"+from.Format("2006-01")+".db"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec(`CREATE TABLE job_pressure (GlobalJobId TEXT NOT NULL, ScheddName TEXT, Owner TEXT, RequestGPUs REAL,
		RequestCPUs REAL, RequestMemory REAL, RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT,
		first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL)`)
	require.NoError(b, err)
	rnd := rand.New(rand.NewPCG(4, 7))
	const poll, mean = 1800, 5 * 86400
	polls := int(to.Sub(from).Seconds()) / poll
	tx, err := db.BeginTx(context.Background(), nil)
	require.NoError(b, err)
	insert, err := tx.Prepare("INSERT INTO job_pressure VALUES (?,?,?,?,?,?,?,?,?,?,?)")
	require.NoError(b, err)
	clusters := 38_000 * polls * poll / mean / 40
	for c := range clusters + 38_000/40 {
		at := int(from.Unix()) + max(0, c-38_000/40)*polls/clusters*poll
		gpus, memory := []int{1, 1, 1, 2, 4, 8}[rnd.IntN(6)], []any{nil, 10_000, 40_000, 79_000, 120_000}[rnd.IntN(5)]
		cpus, ram := 1+rnd.IntN(16), 8192*(1+rnd.IntN(16))
		for proc := range 40 {
			last := min(at+int(rnd.ExpFloat64()*mean)/poll*poll, int(from.Unix())+polls*poll)
			_, err := insert.Exec(fmt.Sprintf("ap%d#%d.%d#%d", c%5, 1000+c, proc, at-60), fmt.Sprintf("ap%d", c%5),
				fmt.Sprintf("user%03d", c%200), gpus, cpus, ram, memory, at-60, "Chem_Two", at, last)
			require.NoError(b, err)
		}
	}
	require.NoError(b, tx.Commit())
	return func() {
		_, err := db.Exec("UPDATE job_pressure SET last_seen = last_seen + 1800 WHERE last_seen = " +
			"(SELECT max(last_seen) FROM job_pressure)")
		require.NoError(b, err)
	}
}
