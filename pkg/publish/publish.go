// Package publish puts the facts of a pool into Elasticsearch: an index a month behind an alias, documents that replace
// their earlier selves, and a checkpoint from which the next publishing goes on.
package publish

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Options say what is published where.
type Options struct {
	Client *elastic.Client
	Index  string // the alias of the facts
	Pool   string // its name among the pools
	Since  time.Time
	Shards int // of the indices of months that are not there yet; 0 = as an earlier publishing wanted, or 1
	Now    func() time.Time
}

// Part is what was published at once: the hours of about a day.
type Part struct {
	From, To  time.Time
	Documents int // written: new ones, and those that have changed
	Removed   int // that an earlier publishing wrote, and that are no more
	Compared  int // hours whose documents were read, as something in them has changed
	Warnings  []string
}

// hoursAtOnce are published together: readers see all of them or none.
const hoursAtOnce = 24

// correcting is how long after it an hour is looked at again: what snapshots and job ads of a week show later changes
// how runs began and ended (methodology section 8), and job ads can come late.
const correcting = 8 * pool.Day

// Run publishes the full hours that are over, and corrects those of the last eight days; or all from Since. Documents
// that have not changed are not written again, and those of hours in which nothing has changed since they were written
// are not even read, unless Since says so. A publishing that was ended goes on where it was. Errors: pool.BadQuery
// where facts of another kind are there; what the snapshots, the job source or Elasticsearch say; ctx's.
func Run(ctx context.Context, s *stores.Stores, env query.Env, o Options, done func(Part)) error {
	first, newest, ok, err := s.Timeline.Range(ctx)
	if err != nil {
		return err
	}
	if !ok {
		return pool.SourceError("pool %s has no snapshot yet: check that the collector runs", o.Pool)
	}
	w := &writer{Options: o}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	known, err := w.checkpoint(ctx)
	if err != nil {
		return err
	}
	from, point, err := begin(known, env, o, first)
	if err != nil {
		return err
	}
	if err := w.forget(ctx, point, from); err != nil {
		return err
	}
	end := facts.FloorHour(env, newest)
	// earlier days are finished: there is a row more than two hours after their end
	finished := pool.Micros(pool.DayOf(newest-2*pool.Hour-1)) * pool.Day
	for from < end {
		starts := []pool.Micros{from}
		for len(starts) <= hoursAtOnce && starts[len(starts)-1] < end {
			starts = append(starts, facts.NextHour(env, starts[len(starts)-1]))
		}
		all, warnings, err := facts.Compute(ctx, s, env, facts.Asked{Pool: o.Pool, Hours: starts, Finished: finished,
			Now: o.Now().UnixMicro()})
		if err != nil {
			return err
		}
		from = starts[len(starts)-1]
		part, err := w.publish(ctx, point, starts, all, facts.FloorHour(env, min(from, finished)))
		if err != nil {
			return err
		}
		part.Warnings = warnings
		done(part)
	}
	return nil
}

// begin returns the hour with which publishing begins, and the checkpoint to go on with.
func begin(known *facts.Checkpoint, env query.Env, o Options, first pool.Micros) (pool.Micros, *facts.Checkpoint,
	error) {
	from := facts.FloorHour(env, first)
	if !o.Since.IsZero() {
		from = max(from, facts.FloorHour(env, o.Since.UnixMicro()))
	}
	fresh := &facts.Checkpoint{Pool: o.Pool, Kind: facts.KindPool, Version: facts.Version,
		Zone: env.Zone.Calendar().String(), SliceMinutes: env.SliceMinutes, Since: facts.Millis(from),
		CompleteThrough: facts.Millis(from), Through: facts.Millis(from)}
	if known == nil {
		return from, fresh, nil
	}
	same := known.Version == fresh.Version && known.Zone == fresh.Zone && known.SliceMinutes == fresh.SliceMinutes
	switch {
	case !same && (o.Since.IsZero() || fresh.Since > known.Since):
		return 0, nil, pool.BadQuery("the facts of pool %s are of version %d, zone %s and slices of %d min, and now it is "+
			"version %d, zone %s and %d min, which cannot be mixed: publish all of them again with --since %s", o.Pool,
			known.Version, known.Zone, known.SliceMinutes, fresh.Version, fresh.Zone, fresh.SliceMinutes,
			pool.Time(facts.Micros(known.Since)).Format(time.RFC3339))
	case !same:
		return from, fresh, nil
	case o.Since.IsZero():
		again := facts.FloorHour(env, facts.Micros(known.CompleteThrough)-correcting)
		return max(facts.Micros(known.Since), again), known, nil
	case fresh.Since > known.Through:
		return 0, nil, pool.BadQuery("the facts of pool %s end at %s: publishing since %s would leave a hole. Leave --since "+
			"out to go on where they end", o.Pool, pool.Time(facts.Micros(known.Through)).Format(time.RFC3339),
			pool.Time(from).Format(time.RFC3339))
	}
	known.Since = min(known.Since, fresh.Since)
	return from, known, nil
}
