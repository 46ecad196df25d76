package facts

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/utilization"
)

// hourly are the buckets of facts.
var hourly = localtime.Bucket{Name: "1h", Minutes: 60}

// FloorHour is the beginning of the hour of a zone that holds t.
func FloorHour(zone *time.Location, t pool.Micros) pool.Micros { return hourly.Floor(t, zone) }

// NextHour is the beginning of the hour after the one that begins at start. That is not always an hour later: clocks of
// Lord Howe Island are changed by half an hour.
func NextHour(zone *time.Location, start pool.Micros) pool.Micros { return hourly.Next(start, zone) }

// groupings of GPU-slices, from which the other fields of [Group] follow.
var groupings = query.NamesOf(linked.HourlyBy)

// catalog plans the counts.
var catalog = query.Catalog{{Name: "facts", Views: []query.View{
	query.SeriesView(append(slices.Clone(groupings), "user", "jobProject"), []string{"claimed"}, nil)}}}

// Compute returns the facts of a pool's hours, in no order, and warnings about faulty snapshots and missing job ads.
// hours are the beginnings of consecutive ones, and the end of the last one. now is the time, because job ads of runs
// that ended lately are not there yet. An hour without a snapshot has only the fact of its coverage. Errors come from
// the timeline, and pool.SourceError if the job source does not answer, because facts without it would differ.
func Compute(ctx context.Context, s *stores.Stores, env query.Env, name string, hours []pool.Micros,
	now pool.Micros) (all []*Fact, warnings []string, err error) {
	c := &computation{stores: s, env: env, pool: name, hours: hours, now: now, facts: map[string]*Fact{}}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return c.count(ctx, KindGPUs, hours, nil) },
		c.users,
		c.runs, // whose error says why the job source does not answer
		c.usage,
		c.backfill,
		c.demand,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, nil, err
		}
	}
	return slices.Collect(maps.Values(c.facts)), c.warnings, nil
}

type computation struct {
	stores   *stores.Stores
	env      query.Env
	pool     string
	hours    []pool.Micros
	now      pool.Micros
	facts    map[string]*Fact // by id
	warnings []string
}

// users adds the GPU-slices of users. The projects of their jobs are those that the rows in reach of the hour's UTC day
// tell: which hours are published together does not matter.
func (c *computation) users(ctx context.Context) error {
	for hours := c.hours; len(hours) > 1; {
		day, n := pool.DayOf(hours[0]), 1
		for n < len(hours)-1 && pool.DayOf(hours[n]) == day {
			n++
		}
		projects, err := c.projectsOf(ctx, day)
		if err != nil {
			return err
		}
		if err := c.count(ctx, KindUsers, hours[:n+1], projects); err != nil {
			return err
		}
		hours = hours[n:]
	}
	return nil
}

// projectsOf are the projects of the jobs of a UTC day, nil without queue files.
func (c *computation) projectsOf(ctx context.Context, day int32) (*queues.Projects, error) {
	w := pool.Window{From: pool.Micros(day) * pool.Day, To: pool.Micros(day+1)*pool.Day - 1}
	rows, err := c.stores.Queues.Load(ctx, w)
	if err != nil || rows.Files == 0 {
		return nil, err
	}
	return c.stores.Projects(ctx, rows, w)
}

// count adds the facts of GPUs with the hours' coverage, or those of users, by the projects of their jobs unless these
// are nil. The window is longer by an hour at both ends, so that no slice of the hours is cut.
func (c *computation) count(ctx context.Context, kind string, hours []pool.Micros, projects *queues.Projects) error {
	by := slices.Clone(groupings)
	if kind == KindUsers {
		by = append(by, "user")
	}
	if projects != nil {
		by = append(by, "jobProject")
	}
	// Count the slices of the hours by group, and by user and project for users.
	p, err := catalog.Plan(query.Request{
		Model:  query.Model{QueryType: "facts", GroupBy: by, Bucket: hourly.Name},
		Window: pool.Window{From: hours[0] - pool.Hour, To: hours[len(hours)-1] + pool.Hour - 1},
	}, c.env)
	if err != nil {
		return err
	}
	loaded, _, err := counts.Load(ctx, c.stores.Timeline, p)
	if err != nil {
		return err
	}
	wants := []counts.Class{counts.Claimed}
	if projects == nil {
		wants = append(wants, counts.Unclaimed, counts.Drained, counts.OtherState, counts.Free, counts.Prevented)
	}
	count, err := counts.New(ctx, c.stores.Memo, p, loaded, projects, by, wants...)
	if err != nil {
		return err
	}
	// With the GPUs, note what the hours are worth: slices and covered time.
	if kind == KindGPUs {
		for _, n := range loaded.View.Notices {
			if n.Warning {
				c.warnings = append(c.warnings, n.Text)
			}
		}
		for i, start := range hours[:len(hours)-1] {
			covered := loaded.Covered(pool.Window{From: start, To: hours[i+1]})
			c.fact(KindHour, start, nil, nil).Coverage = &Coverage{Slices: int(count.Slices[count.Buckets.Of(start)]),
				CoveredHours: pool.Hours(covered)}
		}
	}
	// Make a fact of each group and hour that has a slice.
	names := loaded.View.Names.Texts()
	for g := range count.Groups {
		of := &count.Groups[g]
		group, name := c.groupOf(of.Key), names[of.Key[query.ByUser]]
		var user, project *string
		if kind == KindUsers {
			user = &name
		}
		if of.Key[query.ByJobProject] != 0 {
			text := c.text(of.Key, query.ByJobProject)
			project = &text
		}
		for b := range count.Buckets.Len() {
			sums, start := gpusOf(&of.Sums, b), count.Buckets.Starts[b]
			if start < hours[0] || start >= hours[len(hours)-1] || sums == (GPUs{}) {
				continue
			}
			c.fact(kind, start, group, user, func(f *Fact) { f.JobProject = project }).GPUs = &sums
		}
	}
	return nil
}

// usage adds the usage by runs to the facts of users.
func (c *computation) usage(ctx context.Context) error {
	all, err := utilization.ByHour(ctx, c.stores, c.env, c.hours)
	for k, h := range all {
		c.linked(KindUsers, k).Usage = h
	}
	return err
}

// runs adds backfill runs to the facts of users, evictions, and the counts of linked runs to those of hours.
func (c *computation) runs(ctx context.Context) error {
	all, err := evictions.ByHour(ctx, c.stores, c.env, c.hours, c.now)
	if err != nil {
		return err
	}
	c.warnings = append(c.warnings, all.Notices...)
	for k, h := range all.Runs {
		c.linked(KindUsers, k).Backfill = h
	}
	for k, e := range all.Evictions {
		c.fact(KindEvictions, c.hours[k.Hour], c.groupOf(k.Key), c.userOf(k.Key), func(f *Fact) {
			f.Evicted = &Evicted{Cause: k.Cause, Evidence: k.Evidence, Saved: Millis(k.Saved), Began: Millis(k.Began)}
		}).Eviction = e
	}
	for i := range all.Links {
		c.fact(KindHour, c.hours[i], nil, nil).Links = &all.Links[i]
	}
	return nil
}

// backfill adds how the backfill pool was used to the facts of GPUs.
func (c *computation) backfill(ctx context.Context) error {
	all, err := backfill.ByHour(ctx, c.stores, c.env, c.hours)
	if err != nil {
		return err
	}
	for k, h := range all.GPUs {
		c.fact(KindGPUs, c.hours[k.Hour], c.groupOf(k.Key), nil).Occupancy = &h
	}
	for i, n := range all.Snapshots {
		c.fact(KindHour, c.hours[i], nil, nil).Coverage.Snapshots = n
	}
	return nil
}

// demand adds the waits, and the coverage of the polls of the queues.
func (c *computation) demand(ctx context.Context) error {
	all, err := demand.ByHour(ctx, c.stores, c.env, c.hours)
	if err != nil || all == nil {
		return err
	}
	for k, h := range all.Waits {
		request := Request{c.text(k.Key, query.ByProject), c.text(k.Key, query.BySchedd), c.text(k.Key, query.ByGPUs),
			c.text(k.Key, query.ByGPUMemory)}
		c.fact(KindWaits, c.hours[k.Hour], nil, c.userOf(k.Key), func(f *Fact) {
			f.Request, f.Project = &request, &request.Project
		}).Waits = h
	}
	for i, covered := range all.Covered {
		c.fact(KindHour, c.hours[i], nil, nil).PolledHours = covered
	}
	return nil
}

func (c *computation) linked(kind string, k linked.HourOf) *Fact {
	return c.fact(kind, c.hours[k.Hour], c.groupOf(k.Key), c.userOf(k.Key))
}

func (c *computation) groupOf(k aggregate.Key) *Group {
	category, device := pool.Category(k[query.ByCategory]), c.text(k, query.ByDevice)
	return &Group{Category: category.Key(), Slots: category.Side().String(), Device: device,
		Memory: c.text(k, query.ByMemory), Tier: c.env.Lists.TierOf(device), Ownership: c.text(k, query.ByOwnership),
		Project: c.text(k, query.ByProject)}
}

func (c *computation) userOf(k aggregate.Key) *string {
	user := c.text(k, query.ByUser)
	return &user
}

func (c *computation) text(k aggregate.Key, g query.Grouping) string {
	return aggregate.Text(g, k[g], c.env.Lists, c.stores.Timeline.Names.Texts())
}

// fact returns the fact of an hour, a group and other keys, which is added if it is not there.
func (c *computation) fact(kind string, start pool.Micros, group *Group, user *string, keys ...func(*Fact)) *Fact {
	fact := &Fact{Pool: c.pool, Kind: kind, Hour: Millis(start), Group: group, User: user}
	if group != nil {
		fact.Project = &group.Project
	}
	for _, set := range keys {
		set(fact)
	}
	id := fact.ID()
	if c.facts[id] == nil {
		c.facts[id] = fact
	}
	return c.facts[id]
}

func gpusOf(sums *counts.Sums, b int) GPUs {
	sum := func(class counts.Class) float64 {
		if sums[class] == nil {
			return 0
		}
		return sums[class][b]
	}
	return GPUs{Claimed: sum(counts.Claimed), Unclaimed: sum(counts.Unclaimed), Drained: sum(counts.Drained),
		Other: sum(counts.OtherState), Free: sum(counts.Free), Prevented: sum(counts.Prevented)}
}
