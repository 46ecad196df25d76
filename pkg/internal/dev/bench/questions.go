package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
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
func (b *bench) questions(ctx context.Context) error {
	dir, err := b.copyMonth("questions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	queues := func(month time.Time) string {
		return filepath.Join(dir, "job_pressure_"+month.Format("2006-01")+".db")
	}
	queued := queuedJobs
	if b.GPUs < 100 {
		queued = 1000 // a test
	}
	if err := queueMore(ctx, queues(now.AddDate(0, -1, 0)), queued); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", queues(now))
	if err != nil {
		return err
	}
	defer db.Close()
	newest := now
	source, err := b.open(dir, "", "sqlite", func() time.Time { return newest })
	if err != nil {
		return err
	}
	defer source.Dispose()
	for _, q := range questions {
		warm, err := moving(ctx, source, q.json, b.monthDays(), b.Runs)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		b.add(warm.milliseconds(q.name+", 30 d, warm", 50, fmt.Sprintf("%d queued jobs", queued)))
	}
	for _, q := range questions {
		again := func(end time.Time) error { return ask(ctx, source, q.json, b.monthDays(), end) }
		runs, what := max(2, b.Runs/5), "after a new snapshot"
		var t timing
		if q.polls {
			what = "after a new poll"
			if err := again(newest); err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			t, err = prepared(runs, func() error {
				newest = newest.Add(samplepool.Default().Polls)
				runtime.GC() // as in the minutes between two polls
				return pollAgain(ctx, db, newest)
			}, func() error { return again(newest) })
		} else {
			t, err = growing(ctx, dir, &newest, runs, again)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		b.add(t.milliseconds(q.name+", 30 d, "+what, q.after, "with job ads"))
	}
	return nil
}

// queueMore adds jobs that waited for an hour in the month of files until its queue file holds a number of jobs.
func queueMore(ctx context.Context, file string, jobs int) error {
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `WITH RECURSIVE more(n) AS (SELECT count(DISTINCT GlobalJobId) FROM job_pressure UNION ALL
		SELECT n + 1 FROM more WHERE n < ?1)
		INSERT INTO job_pressure SELECT 'ap2001.chtc.example.org#' || (9000000 + n) || '.0#' || (?2 - n * 20 % 2300000),
			'ap2001.chtc.example.org', printf('user%03d', n % 300), 1, 4, 32768, NULL, ?2 - n * 20 % 2300000,
			CASE n % 3 WHEN 0 THEN 'Bio_One' WHEN 1 THEN 'CS_Five' ELSE 'Guests' END,
			(SELECT max(last_seen) FROM job_pressure WHERE last_seen <= ?2 - n * 20 % 2300000) - 3600,
			(SELECT max(last_seen) FROM job_pressure WHERE last_seen <= ?2 - n * 20 % 2300000) FROM more`,
		jobs, time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Unix()-3600)
	return errors.Join(err, db.Close())
}

// pollAgain appends a poll that sees the jobs of the newest one again.
func pollAgain(ctx context.Context, db *sql.DB, later time.Time) error {
	_, err := db.ExecContext(ctx, "UPDATE job_pressure SET last_seen = ? WHERE last_seen = (SELECT max(last_seen) FROM "+
		"job_pressure)", later.Unix())
	return err
}
