package demand_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/convert"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// At every poll that has a slice the obstacles add up to the jobs and GPUs that wait, and the reasons of unused GPUs to
// what the allocation has free and prevented in that slice: of random pools, with and without what machines have left,
// and with queue files of both formats.
func TestObstaclesAndReasonsAddUp(t *testing.T) {
	for seed := range uint64(2) {
		for _, newer := range []bool{true, false} {
			for _, format := range []string{"sqlite", "parquet"} {
				t.Run(fmt.Sprintf("seed %d, newer %v, %s", seed, newer, format), func(t *testing.T) {
					o := samplepool.Default()
					o.Seed, o.Machines, o.Crowded = seed, 9, 20
					o.Start = time.Date(2025, 11, 1, 20, 0, 0, 0, time.UTC) // the clock changes in Chicago
					o.End = o.Start.Add(30 * time.Hour)
					if o.NewColumns = o.End.AddDate(0, 1, 0); newer {
						o.NewColumns = o.Start
					}
					checkSums(t, o, format, newer)
				})
			}
		}
	}
}

func checkSums(t *testing.T, o samplepool.Options, format string, newer bool) {
	made, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, made.WriteSnapshots(t.Context(), dir))
	require.NoError(t, made.WriteQueues(t.Context(), dir))
	if format == "parquet" {
		queues, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
		require.NoError(t, err)
		require.NotEmpty(t, queues)
		for _, file := range queues {
			_, err := convert.File(t.Context(), file, dir, nil)
			require.NoError(t, err)
			require.NoError(t, os.Remove(file))
		}
	}
	s := runstest.Open(t, dir, o.Timezone)
	w := pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()}
	waits, polls, err := demand.WaitsOf(t.Context(), s.Stores, &query.Plan{Window: w, Env: s.Env})
	require.NoError(t, err)
	found := map[any]int{}
	for i, poll := range polls.Times[:len(polls.Times)-1] {
		until := polls.Times[i+1] - 1
		if !polls.Covers(poll) || !polls.Covers(until) {
			continue
		}
		jobs, gpus := 0.0, 0.0
		for n := range waits {
			if w := &waits[n]; !w.AdOnly && w.First <= poll && poll <= w.Last {
				jobs++
				gpus += w.Request.GPUs
			}
		}
		sum := func(w pool.Window, text string) map[any]float64 {
			sums := map[any]float64{}
			for _, f := range s.Ask(t, nil, w, text) {
				for _, field := range f.Fields[min(1, len(f.Fields)):] {
					word := field.Labels["obstacle"] + field.Labels["reason"]
					if v, ok := field.ConcreteAt(0); ok {
						sums[field.Name] += v.(float64)
						sums[word] += v.(float64)
						found[word]++
					}
				}
			}
			return sums
		}
		at := pool.Window{From: poll, To: until}
		waiting := sum(at, `{"queryType": "demand", "view": "obstacles", "bucket": "window",
			"metrics": ["waitingJobs", "waitingGpus"]}`)
		unused := sum(at, `{"queryType": "demand", "view": "unused", "bucket": "window", "groupBy": ["device"]}`)
		slice := s.Env.Zone.Slice(poll, 15)
		allocated := map[string]float64{}
		rows := golden.Rows(s.Ask(t, nil, pool.Window{From: slice, To: slice + 15*pool.Minute - 1},
			`{"queryType": "allocation", "view": "summary", "metrics": ["free", "prevented"], "groupBy": [], "totals": false}`))
		for _, row := range rows {
			allocated["free"] += row["free"].(float64)
			allocated["prevented"] += row["prevented"].(float64)
		}
		if len(rows) == 0 { // no slice holds the poll
			require.Empty(t, waiting)
			require.Empty(t, unused)
			found["no slice"]++
			continue
		}
		require.InDelta(t, jobs, waiting["waitingJobs"], 1e-9)
		require.InDelta(t, gpus, waiting["waitingGpus"], 1e-9)
		require.InDelta(t, allocated["prevented"], unused["prevented"], 1e-9)
		require.InDelta(t, allocated["free"],
			unused["gpus"]-unused["prevented"]-unused["drained"]-unused["other"], 1e-9, "at %v", pool.Time(poll))
	}
	require.Greater(t, found["fits"], 5)
	require.Greater(t, found["gpus"]+found["gpuMemory"]+found["shape"], 5)
	require.Equal(t, newer, found["cpus"] > 0)
}

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
