//go:build unix

package reliability

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak goes on")
	soakSeed = flag.Uint64("soak.seed", 1, "another seed draws other faults and questions")
)

// soak is a pool that grows, and processes that live long and share a cache directory and a bucket.
type soak struct {
	t          *testing.T
	random     *rand.Rand
	whole, dir string // all rows, and those that are there
	begin, now time.Time
	cache      string
	bucket     *buckettest.Proxy
	ads        *buckettest.Proxy // of Elasticsearch
	sources    [2]twin
	fresh      *host.Process
	saves      int64 // of data sources in the fresh process

	mu            sync.RWMutex // held for writing while a process is replaced
	long          [2]*host.Process
	asked, failed atomic.Int64 // questions of viewers
	told          sync.Map     // each error that they met, once
}

// twin is a data source of the long-lived processes, with one that caches nothing and has the server of Elasticsearch
// without faults.
type twin struct {
	cached, plain backend.DataSourceInstanceSettings
}

// Two processes answer about a pool that grows by an hour at each step, while faults that a seed draws happen to their
// files, to the bucket, to Elasticsearch and to themselves. After each of them both answer as a data source that was
// just made and caches nothing, with the same notices, and neither their goroutines nor their open files grow.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("with -soak 10m only")
	}
	o := small(func(o *samplepool.Options) {
		o.Seed, o.Start = *soakSeed, time.Date(2025, 10, 22, 0, 0, 0, 0, time.UTC)
		o.End = o.Start.AddDate(0, 0, 21)
	})
	s := &soak{t: t, random: rand.New(rand.NewPCG(*soakSeed, 0)), whole: write(t, o), dir: t.TempDir(),
		begin: o.Start, now: o.Start, cache: t.TempDir(), fresh: start(t)}
	for _, name := range []string{"chtc_owned", "masked_hosts.yaml", "jobs.db", "job_pressure_2025-10.db",
		"job_pressure_2025-11.db"} {
		text, err := os.ReadFile(filepath.Join(s.whole, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), text, 0o600))
	}
	s.grow(7 * 24 * time.Hour)
	server := buckettest.Start(t)
	options := server.Bucket(t)
	s.bucket = buckettest.NewProxy(t, server, false)
	options.Endpoint = s.bucket.Endpoint
	url, index := jobstest.Elasticsearch(t), fmt.Sprintf("soak-%d", time.Now().UnixNano())
	for _, name := range []string{"jobs_history_refactored.jsonl", "jobs_epochs.jsonl"} {
		_, err := adstash.LoadFile(t.Context(), url, index, adstash.Refactored, filepath.Join(s.whole, name))
		require.NoError(t, err)
	}
	s.ads = buckettest.NewProxy(t, &buckettest.Server{Endpoint: url}, false)
	for i, store := range []string{"sqlite", "elasticsearch"} {
		cached := sharing(t, 1+i, s.dir, s.cache, options)
		cached.JSONData = append(fmt.Appendf(nil, `{"jobs": %q, "jobsIndex": %q, `, store, index), cached.JSONData[1:]...)
		plain := saved(t, 98+i, map[string]any{"snapshotDir": s.dir, "jobs": store, "jobsIndex": index})
		if store == "elasticsearch" {
			cached.URL, plain.URL = s.ads.Endpoint, url
		}
		s.sources[i] = twin{cached, plain}
	}
	for i := range s.long {
		s.long[i] = start(t, allowBuckets)
	}
	stop := make(chan struct{})
	var viewers sync.WaitGroup
	for n := range uint64(3) {
		viewers.Go(func() { s.view(rand.New(rand.NewPCG(*soakSeed, n+1)), stop) })
	}
	defer viewers.Wait()
	defer close(stop)

	faults := s.faults()
	early := [len(s.long)]gauges{}
	for n, end := 0, time.Now().Add(*soakFor); time.Now().Before(end); n++ {
		s.grow(time.Hour)
		s.agree("growth")
		f := faults[s.random.IntN(len(faults))]
		f.do()
		s.agree(f.name)
		for i, process := range s.long {
			g := measure(t, process)
			t.Logf("%4d %-28s process %d: %+v; %d questions, %d failed", n, f.name, i, g, s.asked.Load(), s.failed.Load())
			if n == 2*len(faults) || f.name == "a process killed" {
				early[i] = g
			}
			if e := early[i]; n > 2*len(faults) && e.handles > 0 {
				require.LessOrEqual(t, g.handles, 2*e.handles+50, "process %d", i)
				require.LessOrEqual(t, g.goroutines, 2*e.goroutines+200, "process %d", i)
			}
		}
	}
}

// month is the newest month file.
func (s *soak) month() string {
	return filepath.Join(s.dir, "gpu_state_"+s.now.Add(-time.Microsecond).Format("2006-01")+".db")
}

// exec executes statements on the newest month.
func (s *soak) exec(statements ...string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.month()+"?_pragma=busy_timeout(60000)")
	require.NoError(s.t, err)
	db.SetMaxOpenConns(1) // an attached file belongs to a connection
	for _, statement := range statements {
		_, err := db.ExecContext(s.t.Context(), statement)
		require.NoError(s.t, err, statement)
	}
	require.NoError(s.t, db.Close())
}

// grow appends the rows of the next stretch of time, as far as the whole pool goes.
func (s *soak) grow(by time.Duration) {
	for to := s.now.Add(by); s.now.Before(to); {
		from := s.now.Format("2006-01-02 15:04:05")
		next := time.Date(s.now.Year(), s.now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if s.now = to; next.Before(to) {
			s.now = next
		}
		s.exec("ATTACH '"+filepath.Join(s.whole, filepath.Base(s.month()))+"' AS whole",
			"CREATE TABLE IF NOT EXISTS gpu_state AS SELECT * FROM whole.gpu_state LIMIT 0",
			"INSERT INTO gpu_state SELECT * FROM whole.gpu_state WHERE timestamp >= '"+from+"' AND timestamp < '"+
				s.now.Format("2006-01-02 15:04:05")+"' ORDER BY rowid")
	}
}

// pause lets the viewers meet a fault.
func (s *soak) pause() { time.Sleep(time.Duration(500+s.random.IntN(2000)) * time.Millisecond) }

// fault is something that happens, and is over when do returns.
type fault struct {
	name string
	do   func()
}

func (s *soak) faults() []fault {
	try := func(err error) { require.NoError(s.t, err) }
	edit := func(statement string, n int) func() {
		return func() { s.exec(fmt.Sprintf(statement, s.random.IntN(n))) }
	}
	replace := func(name func() string) func() { // by a copy
		return func() {
			path := name()
			text, err := os.ReadFile(path)
			try(err)
			try(os.WriteFile(path+".new", text, 0o600))
			try(os.Rename(path+".new", path))
		}
	}
	in := func(name string) func() string { return func() string { return filepath.Join(s.dir, name) } }
	return []fault{
		{"late rows", edit("INSERT INTO gpu_state SELECT * FROM gpu_state WHERE timestamp = (SELECT timestamp FROM "+
			"gpu_state ORDER BY rowid LIMIT 1 OFFSET %d)", 200)},
		{"edited rows", edit("UPDATE gpu_state SET State = 'Owner' WHERE rowid %% 97 = %d", 97)},
		{"removed rows", edit("DELETE FROM gpu_state WHERE rowid %% 211 = %d", 211)},
		{"a replaced month", replace(s.month)},
		{"a truncated month", func() {
			text, err := os.ReadFile(s.month())
			try(err)
			try(os.Truncate(s.month(), int64(len(text)/2)))
			s.pause()
			try(os.WriteFile(s.month(), text, 0o600))
		}},
		{"a month moved away", func() {
			try(os.Rename(s.month(), s.month()+".away"))
			s.pause()
			try(os.Rename(s.month()+".away", s.month()))
		}},
		{"a locked month", func() {
			db, err := sql.Open("sqlite", "file:"+s.month()+"?_pragma=busy_timeout(60000)")
			try(err)
			db.SetMaxOpenConns(1)
			_, err = db.Exec("BEGIN EXCLUSIVE")
			try(err)
			s.pause()
			_, err = db.Exec("ROLLBACK")
			try(errors.Join(err, db.Close()))
		}},
		{"a list edited", func() {
			tiers := [...]string{"tiers:\n", "tiers: {Flagship: [A100 H100]}\n", "tiers: {Flagship: [A100, H100]}\n"}
			try(os.WriteFile(in("gpu_tiers.yaml")(), []byte(tiers[s.random.IntN(len(tiers))]), 0o600))
		}},
		{"the job file replaced", replace(in("jobs.db"))},
		{"ads that come late", func() {
			db, err := sql.Open("sqlite", "file:"+in("jobs.db")()+"?_pragma=busy_timeout(60000)")
			try(err)
			db.SetMaxOpenConns(1) // the temporary table belongs to a connection
			_, err = db.Exec(fmt.Sprintf("CREATE TEMP TABLE late AS SELECT * FROM ads WHERE rowid %% 5 = %[1]d; "+
				"DELETE FROM ads WHERE rowid %% 5 = %[1]d", s.random.IntN(5)))
			try(err)
			s.pause()
			_, err = db.Exec("INSERT INTO ads SELECT * FROM late")
			try(errors.Join(err, db.Close()))
		}},
		{"a queue file replaced", replace(in("job_pressure_2025-10.db"))},
		{"the bucket away", func() {
			s.bucket.Set(buckettest.Gone)
			s.pause()
			s.bucket.Set(nil)
		}},
		{"Elasticsearch away", func() {
			s.ads.Set(buckettest.Gone)
			s.pause()
			s.ads.Set(nil)
		}},
		{"the cache wiped", func() { try(os.RemoveAll(s.cache)) }},
		{"the cache not writable", func() { // a file is there, so that even root cannot
			try(errors.Join(os.Rename(s.cache, s.cache+".away"), os.WriteFile(s.cache, nil, 0o600)))
			s.pause()
			try(errors.Join(os.RemoveAll(s.cache), os.Rename(s.cache+".away", s.cache)))
		}},
		{"the cache damaged", func() {
			_ = filepath.WalkDir(s.cache, func(path string, entry fs.DirEntry, err error) error { // it may be gone
				if err == nil && entry.Type().IsRegular() && s.random.IntN(2) == 0 {
					_ = os.WriteFile(path, []byte("damaged"), 0o600)
				}
				return nil
			})
		}},
		{"a process killed", func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			i := s.random.IntN(len(s.long))
			try(syscall.Kill(s.long[i].PID(), syscall.SIGKILL))
			s.long[i] = start(s.t, allowBuckets)
		}},
		{"a process stopped", func() {
			pid := s.long[s.random.IntN(len(s.long))].PID()
			try(syscall.Kill(pid, syscall.SIGSTOP))
			s.pause()
			try(syscall.Kill(pid, syscall.SIGCONT))
		}},
	}
}

// view asks one question after another. Errors are counted and logged: files are away or damaged now and then.
func (s *soak) view(random *rand.Rand, stop <-chan struct{}) {
	for {
		from := s.begin.Add(time.Duration(random.IntN(240)) * time.Hour)
		to := from.Add(time.Duration(1+random.IntN(240)) * time.Hour)
		s.mu.RLock()
		source := s.sources[random.IntN(len(s.sources))].cached
		r, err := s.long[random.IntN(len(s.long))].Source(source).QueryData(s.t.Context(),
			request(from, to, views()[random.IntN(len(views()))]))
		s.mu.RUnlock()
		if s.asked.Add(1); err == nil {
			err = r.Responses["0"].Error
		}
		if err != nil {
			s.failed.Add(1)
			if _, again := s.told.LoadOrStore(err.Error(), true); !again {
				s.t.Log("a viewer is told:", err)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.IntN(300)) * time.Millisecond):
		}
	}
}

// agree compares answers of both processes with those of a data source that was just made.
func (s *soak) agree(after string) {
	s.t.Helper()
	for _, q := range s.random.Perm(len(views()))[:4] {
		source := s.sources[s.random.IntN(len(s.sources))]
		for i := range s.long {
			require.EventuallyWithT(s.t, func(c *assert.CollectT) {
				s.saves++
				source.plain.Updated = time.Unix(s.saves, 0)
				want := ask(s.t, s.fresh.Source(source.plain), s.begin, s.now, views()[q])[0]
				got := ask(s.t, s.long[i].Source(source.cached), s.begin, s.now, views()[q])[0]
				require.NoError(c, errors.Join(want.Error, got.Error))
				require.Equal(c, noticed(want)+figures(s.t, want), noticed(got)+figures(s.t, got))
			}, 5*time.Minute, time.Second, "after %s (seed %d), process %d: %s", after, *soakSeed, i, views()[q])
		}
	}
}

// noticed are the notices of an answer.
func noticed(answer backend.DataResponse) (text string) {
	for _, frame := range answer.Frames {
		if frame.Meta != nil {
			text += fmt.Sprintln(frame.Meta.Notices)
		}
	}
	return text
}
