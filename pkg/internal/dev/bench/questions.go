package bench

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	deletion "github.com/elastic/go-elasticsearch/v8/typedapi/indices/delete"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
)

// questions are the panels about owners and failing machines. After is the bound after a new poll of the queues, or
// after a new snapshot.
var questions = []struct {
	panel
	polls bool
	after float64
}{
	{panel{"hours by project of the job",
		`{"queryType":"userHours","view":"summary","groupBy":["jobProject"]}`}, true, 1500},
	{panel{"waits by own GPUs", `{"queryType":"demand","view":"summary","groupBy":["ownGpus"]}`}, true, 1500},
	{panel{"machines on which jobs fail", `{"queryType":"utilization","view":"failures"}`}, false, 200},
	{panel{"hours by used GPU memory",
		`{"queryType":"utilization","view":"summary","groupBy":["device","usedMemory"]}`}, false, 200},
}

// queuedJobs is how many jobs the queue files hold at least.
const queuedJobs = 100_000

// questions asks these panels over a copy of the month, with job ads: warm, and after something new.
func (b *bench) questions(ctx context.Context) {
	dir := b.copyMonth("questions")
	defer os.RemoveAll(dir)
	queues := func(month time.Time) string {
		return filepath.Join(dir, "job_pressure_"+month.Format("2006-01")+".db")
	}
	queued := queuedJobs
	if b.GPUs < 100 {
		queued = 1000 // a test
	}
	queueMore(ctx, queues(now.AddDate(0, -1, 0)), queued)
	db := must(sql.Open("sqlite", queues(now)))
	defer db.Close()
	newest := now
	source := b.open(dir, "", "sqlite", func() time.Time { return newest })
	defer source.Dispose()
	for _, q := range questions {
		warm := moving(ctx, source, q.json, b.monthDays(), b.Runs)
		b.add(warm.milliseconds(q.name+", 30 d, warm", 50, fmt.Sprintf("%d queued jobs", queued)))
	}
	for _, q := range questions {
		again := func(end time.Time) { ask(ctx, source, q.json, b.monthDays(), end) }
		runs, what := max(2, b.Runs/5), "after a new snapshot"
		var t timing
		if q.polls {
			what = "after a new poll"
			again(newest)
			t = prepared(runs, func() {
				newest = newest.Add(samplepool.Default().Polls)
				runtime.GC() // as in the minutes between two polls
				pollAgain(ctx, db, newest)
			}, func() { again(newest) })
		} else {
			t = growing(ctx, dir, &newest, runs, again)
		}
		b.add(t.milliseconds(q.name+", 30 d, "+what, q.after, "with job ads"))
	}
}

// queueMore adds jobs that waited for an hour in the month of files until its queue file holds a number of jobs.
func queueMore(ctx context.Context, file string, jobs int) {
	db := must(sql.Open("sqlite", file))
	must(db.ExecContext(ctx, `WITH RECURSIVE more(n) AS (SELECT count(DISTINCT GlobalJobId) FROM job_pressure UNION ALL
		SELECT n + 1 FROM more WHERE n < ?1)
		INSERT INTO job_pressure SELECT 'ap2001.chtc.example.org#' || (9000000 + n) || '.0#' || (?2 - n * 20 % 2300000),
			'ap2001.chtc.example.org', printf('user%03d', n % 300), 1, 4, 32768, NULL, ?2 - n * 20 % 2300000,
			CASE n % 3 WHEN 0 THEN 'Bio_One' WHEN 1 THEN 'CS_Five' ELSE 'Guests' END,
			(SELECT max(last_seen) FROM job_pressure WHERE last_seen <= ?2 - n * 20 % 2300000) - 3600,
			(SELECT max(last_seen) FROM job_pressure WHERE last_seen <= ?2 - n * 20 % 2300000) FROM more`,
		jobs, time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Unix()-3600))
	check(db.Close())
}

// pollAgain appends a poll that sees the jobs of the newest one again.
func pollAgain(ctx context.Context, db *sql.DB, later time.Time) {
	must(db.ExecContext(ctx, "UPDATE job_pressure SET last_seen = ? WHERE last_seen = (SELECT max(last_seen) FROM "+
		"job_pressure)", later.Unix()))
}

// StartElasticsearch as Options.Elasticsearch starts the server of the checkout's tests/elasticsearch.
const StartElasticsearch = "start"

const (
	adsInElasticsearch = 100_000
	adsIndex           = "gpureports-bench"
)

// elasticsearch asks for evictions with the month's ads in a server: for the first time, then every 30 s for 10 min.
func (b *bench) elasticsearch(ctx context.Context) {
	if b.Elasticsearch == "" {
		return
	}
	url := b.Elasticsearch
	if url == StartElasticsearch {
		var server elastictest.Server
		check(server.Start(ctx))
		defer server.Stop()
		url = server.URL
	}
	es := must(elastic.New(url, nil, elastic.Remedies{}))
	remove := func() { _, _ = deletion.NewDeleteFunc(es)(adsIndex).Do(context.WithoutCancel(ctx)) }
	remove() // of an earlier run that did not come to its end
	defer remove()
	n := b.load(ctx, es)
	s := settings(b.month(), "", "elasticsearch", map[string]any{"jobsIndex": adsIndex})
	s.URL = url
	at := now
	source := plugin.Open(s, func() time.Time { return at })
	defer source.Dispose()
	ask(ctx, source, byCategory, b.monthDays()+7, now) // reads the snapshots
	again := func(int) { ask(ctx, source, evictionsByDevice.json, b.monthDays(), at) }
	first := timed(1, again)
	note := fmt.Sprintf("%d ads in it", n)
	b.add(first.milliseconds("first answer with job ads in Elasticsearch", 6000, note+", the server on the same cores"))
	b.add(Figure{What: "the same: CPU time of the plugin", Value: first.cpu, Unit: "ms", Bound: 6000, Note: note})
	rebuilds := 0
	for range 20 {
		at = at.Add(30 * time.Second)
		if timed(1, again).cpu > first.cpu/20 { // runs are linked with their ads again
			rebuilds++
		}
	}
	b.add(Figure{What: "a panel every 30 s for 10 min, no new snapshot", Value: float64(rebuilds),
		Unit: "answers that link runs anew", Bound: 2, Note: note})
}

// load fills an index of its own with the month's ads, epoch ads first.
func (b *bench) load(ctx context.Context, es *elastic.Client) (n int) {
	for _, name := range []string{"jobs_epochs.jsonl", "jobs_history_refactored.jsonl"} {
		text := must(os.ReadFile(filepath.Join(b.month(), name)))
		left := adsInElasticsearch - n
		n += must(adstash.Load(ctx, es, adsIndex, adstash.Refactored, func(yield func([]byte) bool) {
			for line := range bytes.Lines(text) {
				if left--; left < 0 || !yield(line) {
					return
				}
			}
		}))
	}
	return n
}
