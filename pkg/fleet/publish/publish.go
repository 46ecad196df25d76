// Package publish puts the facts of a pool into Elasticsearch: one index per month under an alias, documents that
// replace their earlier versions, and a checkpoint from which the next run resumes.
package publish

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Options define the facts to publish and their target.
type Options struct {
	Client *elastic.Client
	Index  string // the alias of the facts
	Pool   string // the name under which its facts are published
	Since  time.Time
	Shards int // for indices of months that do not exist yet; 0 = as in an earlier run, or 1
	Now    func() time.Time
}

// Part is one published part: the hours of about a day.
type Part struct {
	From, To  time.Time
	Documents int // written: new ones, and those that have changed
	Removed   int // obsolete documents from an earlier run
	Warnings  []string
}

// correcting is how long an hour is checked again, because snapshots and job ads of the following week can change how
// runs began and ended (methodology section 8), and job ads can come late.
const correcting = 8 * pool.Day

// Run publishes the full hours that are over and corrects those of the last eight days, or all hours from Since.
// Unchanged documents are not written again. An interrupted run resumes where it stopped. Errors: pool.BadQuery if
// there are facts of another kind; errors from the snapshots, the job source and Elasticsearch; ctx's.
//
// Two servers may publish the same pool at the same time: one that finds the checkpoint written by the other reads it
// again, and continues from there.
func Run(ctx context.Context, s *stores.Stores, env query.Env, o Options, done func(Part)) error {
	for try := 1; ; try++ {
		if err := run(ctx, s, env, o, done); !errors.Is(err, errMet) || try == meetings {
			return err
		}
	}
}

// meetings is how often publishing starts over because of other publishers.
const meetings = 10

func run(ctx context.Context, s *stores.Stores, env query.Env, o Options, done func(Part)) error {
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
	seen, err := w.recognize(ctx, s.Timeline, known, newest)
	if err != nil {
		return err
	}
	// Continue after the checkpoint, or begin anew where facts cannot be mixed.
	from, point, err := begin(known, env, o, first)
	if err != nil {
		return err
	}
	point.Seen = seen
	if known != nil && point != known { // facts that cannot be mixed: none of the old ones stay
		w.clear = facts.Micros(known.Since)
	}
	// Publish a day at a time, so that readers see all of it or nothing.
	const hoursAtOnce = 24
	zone := env.Zone.Calendar()
	end := facts.FloorHour(zone, newest)
	// earlier days are finished: there is a row more than two hours after their end
	finished := pool.Micros(pool.DayOf(newest-2*pool.Hour-1)) * pool.Day
	for from < end {
		starts := []pool.Micros{from}
		for len(starts) <= hoursAtOnce && starts[len(starts)-1] < end {
			starts = append(starts, facts.NextHour(zone, starts[len(starts)-1]))
		}
		all, warnings, err := facts.Compute(ctx, s, env, o.Pool, starts, o.Now().UnixMicro())
		if err != nil {
			return err
		}
		from = starts[len(starts)-1]
		part, err := w.publish(ctx, point, starts, all, facts.FloorHour(zone, min(from, finished)))
		if err != nil {
			return err
		}
		part.Warnings = warnings
		done(part)
	}
	return nil
}

// begin returns the hour with which publishing begins, and the checkpoint to continue.
func begin(known *facts.Checkpoint, env query.Env, o Options, first pool.Micros) (pool.Micros, *facts.Checkpoint,
	error) {
	zone := env.Zone.Calendar()
	from := facts.FloorHour(zone, first)
	if !o.Since.IsZero() {
		from = max(from, facts.FloorHour(zone, o.Since.UnixMicro()))
	}
	fresh := &facts.Checkpoint{Pool: o.Pool, Kind: facts.KindPool, Version: facts.Version,
		Zone: zone.String(), SliceMinutes: env.SliceMinutes, Since: facts.Millis(from),
		CompleteThrough: facts.Millis(from), Through: facts.Millis(from)}
	if known == nil {
		return from, fresh, nil
	}
	same := known.Version == fresh.Version && known.Zone == fresh.Zone && known.SliceMinutes == fresh.SliceMinutes
	switch {
	case !same && (o.Since.IsZero() || o.Since.UnixMilli() > known.Since):
		return 0, nil, pool.BadQuery("the facts of pool %s are of version %d, zone %s and slices of %d min, and now it is "+
			"version %d, zone %s and %d min, which cannot be mixed: publish all of them again with --since %s", o.Pool,
			known.Version, known.Zone, known.SliceMinutes, fresh.Version, fresh.Zone, fresh.SliceMinutes,
			pool.Time(facts.Micros(known.Since)).Format(time.RFC3339))
	case !same:
		return from, fresh, nil
	case o.Since.IsZero():
		again := max(known.Since, facts.Millis(facts.FloorHour(zone, facts.Micros(known.CompleteThrough)-correcting)))
		if known.Filling != nil {
			again = min(again, known.Filling.Next)
		}
		return facts.Micros(again), known, nil
	case fresh.Since > known.Through:
		return 0, nil, pool.BadQuery("the facts of pool %s end at %s: publishing since %s would leave a hole. Omit --since "+
			"to continue from there", o.Pool, pool.Time(facts.Micros(known.Through)).Format(time.RFC3339),
			pool.Time(from).Format(time.RFC3339))
	}
	known.Filling = filling(known, fresh.Since)
	return facts.Micros(known.Filling.Next), known, nil
}

// filling returns the hours still to be written after a checkpoint whose hours are published again from one onward.
func filling(known *facts.Checkpoint, from int64) *facts.Filling {
	f := facts.Filling{Since: min(known.Since, from), Next: from}
	if before := known.Filling; before != nil {
		f.Since, f.Next = min(f.Since, before.Since), min(f.Next, before.Next)
	}
	return &f
}

// filled records that the hours before next are written. Earlier ones become part of the published range once no hole
// follows them.
func filled(point *facts.Checkpoint, next int64) {
	f := point.Filling
	if f == nil || next < f.Next {
		return
	}
	if f.Next = next; next >= point.Since {
		point.Since = min(point.Since, f.Since)
	}
	if next >= point.CompleteThrough-facts.Millis(correcting) { // every run checks the hours from there on again
		point.Filling = nil
	}
}

// recognize refuses to put the facts of one pool in place of another's of the same name: none of the GPUs that the
// checkpoint knows is in the snapshots, though they have that day. It returns the GPUs of the newest snapshots.
// Errors: pool.BadQuery, the timeline's.
func (w *writer) recognize(ctx context.Context, t *timeline.Timeline, known *facts.Checkpoint, newest pool.Micros) (
	*facts.Seen, error) {
	if known != nil && known.Seen != nil {
		at := facts.Micros(known.Seen.At)
		gpus, err := gpusOf(ctx, t, at)
		if err != nil {
			return nil, err
		}
		if len(gpus) > 0 && !slices.ContainsFunc(known.Seen.GPUs,
			func(gpu string) bool { return slices.Contains(gpus, gpu) }) {
			return nil, pool.BadQuery("the facts of pool %s under %s are another pool's: none of the GPUs that it had on %s is "+
				"in these snapshots. Give each pool a name of its own", w.Pool, w.Index, pool.Time(at).Format("2006-01-02"))
		}
	}
	const mostSeen = 16
	gpus, err := gpusOf(ctx, t, newest)
	return &facts.Seen{At: facts.Millis(newest), GPUs: gpus[:min(len(gpus), mostSeen)]}, err
}

// gpusOf are the hashes of the GPUs of a time's UTC day, ascending.
func gpusOf(ctx context.Context, t *timeline.Timeline, at pool.Micros) (gpus []string, err error) {
	view, err := t.Load(ctx, at, at)
	if err != nil {
		return nil, err
	}
	for _, day := range view.Days {
		if day.Date != pool.DayOf(at) {
			continue
		}
		for i := range day.GPUs() {
			machine, id := view.Names.GPU(day.GPU(i))
			gpus = append(gpus, facts.HashGPU(view.Names.Text(machine), view.Names.Text(id)))
		}
	}
	slices.Sort(gpus)
	return gpus, nil
}
