package plugin

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
	if stores.Timeline.Shared() == nil {
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
			day := buildDay(inner, stores.Timeline, date, list)
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

func buildDay(ctx context.Context, t *timeline.Timeline, date int32, list bool) BuiltDay {
	day := BuiltDay{Date: pool.Time(pool.Micros(date) * pool.Day).Format(time.DateOnly)}
	if list {
		day.Missing, day.Err = t.Missing(ctx, date)
		return day
	}
	built, err := t.Build(ctx, date)
	day.Missing, day.Rows, day.Err = !built.There, built.Rows, err
	return day
}
