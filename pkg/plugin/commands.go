package plugin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// Check runs the health check and checks all month files, the lists, and the job ads of the given length of time up to
// the newest snapshot. It returns the findings, the worst first. Its only error is ctx's.
func (d *Datasource) Check(ctx context.Context, last time.Duration) ([]check.Finding, error) {
	findings := d.findings(ctx, false)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return findings, nil // they say so
	}
	defer done()
	env, err := stores.env(ctx)
	if err != nil {
		return findings, nil
	}
	told, err := check.Look(ctx, check.Installation{
		Stores: stores.Stores, Dir: stores.dir, Zone: env.Zone, SliceMinutes: env.SliceMinutes, Lists: env.Lists,
		Now: d.now().UnixMicro(), Last: last.Microseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	findings = append(findings, told...)
	slices.SortStableFunc(findings, func(a, b finding) int {
		return slices.Index(check.Severities, a.Severity) - slices.Index(check.Severities, b.Severity)
	})
	return findings, nil
}

// BuiltDay is the result for one finished day.
type BuiltDay struct {
	Date    string // YYYY-MM-DD, UTC
	Missing bool   // the bucket lacks it, or did before it was built
	Rows    int64  // that it was built from
	Err     error
}

// Build computes the finished days in [from, to] that segmentBucket lacks, several at a time, uploads them, and passes
// each day to done, one after another. With list, it only reports the missing days. Because existing objects are not
// rebuilt, an interrupted build can be restarted. Errors: pool.BadQuery without the setting; the snapshots cannot be
// read; ctx's.
func (d *Datasource) Build(ctx context.Context, from, to time.Time, list bool, done func(BuiltDay)) error {
	stores, leave, err := d.use(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if stores.Timeline.Shared == nil {
		return pool.BadQuery("segmentBucket is not set: name the bucket that finished days are shared through")
	}
	dates, err := stores.Timeline.FinishedDays(ctx, from.UnixMicro(), to.UnixMicro())
	if err != nil {
		return err
	}
	var one sync.Mutex
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // one computes while another one waits for the bucket
	for _, date := range dates {
		group.Go(func() error {
			day := BuiltDay{Date: pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)}
			there, rows, err := stores.Timeline.Build(inner, date, list)
			day.Missing, day.Rows, day.Err = !there, rows, err
			if inner.Err() != nil {
				return inner.Err()
			}
			one.Lock()
			defer one.Unlock()
			done(day)
			return nil
		})
	}
	return group.Wait()
}
