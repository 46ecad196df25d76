package fleet

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/userhours"
	"github.com/chtc/gpureports/pkg/utilization"
)

// allocation returns the averages of allocation: of each pool Σ of GPU-slices / N, added up over pools.
func (a *asked) allocation(ctx context.Context) (*counts.Figures, error) {
	// Choose the facts.
	wants := allocation.ClassesOf(a.plan.Metrics)
	w := wanted{kind: facts.KindGPUs, fields: make([]string, len(wants)), having: facts.ClassFields[:]}
	for i, class := range wants {
		w.fields[i] = facts.ClassFields[class]
	}
	if !a.plan.Select.All(query.ByUser) {
		w.kind, w.having = facts.KindUsers, facts.ClassFields[counts.Claimed:counts.Claimed+1]
	}
	// Each bucket has one slice: the values are averages already.
	f := &counts.Figures{Slices: slices.Repeat([]float64{1}, a.buckets.Len())}
	for b, at := range a.times() {
		if a.drawn[b] {
			f.Drawn, f.Times = append(f.Drawn, b), append(f.Times, at)
		}
	}
	// Add them up by group and bucket.
	var found groups[counts.Group]
	err := a.each(ctx, w, func(c cell) error {
		if c.pool.slices[c.bucket] == 0 {
			return nil
		}
		texts := a.textsOf(a.plan.GroupBy, c.texts)
		group, err := found.of(texts, a.buckets.Len(), func() counts.Group {
			g := counts.Group{Side: sideOf(c.texts), Texts: texts}
			for _, class := range wants {
				g.Sums[class] = a.empty(c.pool)
			}
			return g
		})
		if err != nil {
			return err
		}
		for i, class := range wants {
			group.Sums[class][c.bucket] += c.values[i] / c.pool.slices[c.bucket]
		}
		return nil
	})
	f.Groups = found.all
	return f, err
}

// userHours returns GPU-hours: of each pool Σ of claimed GPU-slices / N · D, added up over pools. A notice tells of how
// many the projects of the jobs are not known.
func (a *asked) userHours(ctx context.Context, about *frames.About) (*userhours.Hours, error) {
	by := userhours.Groupings(a.plan)
	var found groups[userhours.Usage]
	var all, unknown float64
	w := wanted{kind: facts.KindUsers, by: []string{"user"}, fields: []string{facts.ClassFields[counts.Claimed]}}
	err := a.each(ctx, w, func(c cell) error {
		if !c.pool.drawn[c.bucket] {
			return nil
		}
		group, user := a.textsOf(by, c.texts), a.plan.Shown("user", c.texts["user"])
		usage, err := found.of(append(group, user), a.buckets.Len(), func() userhours.Usage {
			return userhours.Usage{Group: group, User: user, Hours: a.empty(c.pool)}
		})
		if err != nil {
			return err
		}
		hours := c.values[0] / c.pool.slices[c.bucket] * c.pool.covered[c.bucket]
		if usage.Hours[c.bucket] += hours; c.texts[jobProject] == query.Unknown {
			unknown += hours
		}
		all += hours
		return nil
	})
	if all > 0 && slices.Contains(by, jobProject) {
		share := 100 * unknown / all
		about.Tell("GPU hours whose project is not known", "percent", share, "projects of the GPU hours: %s %% not known "+
			"from the queue files of their days", frames.Decimal(share))
	}
	return &userhours.Hours{Times: a.times(), Usages: found.all}, err
}

// backfill returns how the backfill pools are used: of each pool Σ of GPU-snapshots / snapshots, added up over pools.
func (a *asked) backfill(ctx context.Context) (*backfill.Figures, error) {
	s := summed[backfill.Sums]{asked: a, total: &backfill.Sums{}}
	w := wanted{kind: facts.KindGPUs, fields: []string{"poolAvailable", "poolUsed", "poolTaken"},
		having: []string{"poolAvailable", "poolUsed", "poolTaken", "poolOther"}}
	err := a.each(ctx, w, func(c cell) error {
		if !c.pool.drawn[c.bucket] {
			return nil
		}
		return s.add(c, func(to *backfill.Sums) {
			for i, average := range []*float64{&to.Available, &to.Used, &to.Taken} {
				*average += c.values[i] / c.pool.snapshots[c.bucket]
			}
		})
	})
	for _, g := range s.found.all {
		for b := range g.Points {
			g.Points[b].Snapshots = 1 // the added values are averages
		}
	}
	return s.figures(), err
}

// utilization returns the usage of GPUs: GPU-hours add up over hours and pools, averages are of each pool's
// covered time.
func (a *asked) utilization(ctx context.Context) (*utilization.Figures, error) {
	s := summed[utilization.Sums]{asked: a, total: &utilization.Sums{}, ofDrawn: true}
	err := a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"held", "measured", "busy", "idle", "begun"},
		having: []string{"held", "begun", "carried"}}, func(c cell) error {
		return s.add(c, func(to *utilization.Sums) {
			to.Add(utilization.Amounts{Held: c.values[0], Measured: c.values[1], Busy: c.values[2], Idle: c.values[3]})
			to.Runs += int(c.values[4])
			if covered := c.pool.covered[c.bucket]; covered > 0 {
				to.BusyGPUs += c.values[2] / covered
				to.IdleGPUs += c.values[3] / covered
			}
		})
	})
	if err == nil && slices.Contains(a.plan.Metrics, "runs") {
		err = a.each(ctx, wanted{kind: facts.KindUsers, fields: []string{"carried"}, also: a.first}, func(c cell) error {
			return s.add(c, func(to *utilization.Sums) { to.Runs += int(c.values[0]) })
		})
	}
	return s.figures(), err
}

// demand returns who waits: waits by where they began and ended, and averages of each pool's polled time, added up over
// pools; nil if no pool was polled.
func (a *asked) demand(ctx context.Context, about *frames.About) (*demand.Figures, error) {
	s := summed[demand.Sums]{asked: a, total: &demand.Sums{}}
	known := a.noticeUnpolled(about)
	w := wanted{kind: facts.KindWaits, fields: []string{"waitsBegun", "waitsStarted", "waitsLeft", "waited",
		"waitingJobHours", "waitingGpuHours"}, having: []string{"waitsBegun", "waitsCarried"}}
	err := a.each(ctx, w, func(c cell) error {
		covered := c.pool.polled[c.bucket]
		if covered == 0 {
			covered = math.Inf(1)
		}
		return s.add(c, func(to *demand.Sums) {
			to.Waits += c.values[0]
			to.Started += c.values[1]
			to.Left += c.values[2]
			to.Waited += c.values[3]
			to.Jobs += c.values[4] / covered
			to.GPUs += c.values[5] / covered
		})
	})
	if err == nil && slices.Contains(a.plan.Metrics, "waits") {
		err = a.each(ctx, wanted{kind: facts.KindWaits, fields: []string{"waitsCarried"}, also: a.first}, func(c cell) error {
			return s.add(c, func(to *demand.Sums) { to.Waits += c.values[0] })
		})
	}
	if err != nil || !known {
		return nil, err
	}
	for i := range s.found.all {
		a.hideUnpolled(&s.found.all[i])
	}
	return s.figures(), nil
}

// noticeUnpolled adds a notice if no poll of a pool's queues covers anything of the time range, and reports whether any
// pool was polled.
func (a *asked) noticeUnpolled(about *frames.About) bool {
	var unpolled []string
	known := 0
	for _, p := range a.pools {
		if !p.known {
			continue
		}
		if known++; slices.Max(p.polled) == 0 {
			unpolled = append(unpolled, p.Pool)
		}
	}
	if len(unpolled) > 0 {
		about.Warn("the queues of %d of %d pools were not polled in the time range, so that who waits there is not "+
			"known: %s. Poll them with `gpureports collect --jobs`", len(unpolled), known, strings.Join(unpolled, ", "))
	}
	return len(unpolled) < known
}

// hideUnpolled takes away the averages of a series where no poll covers anything, of the pool if it is a group.
func (a *asked) hideUnpolled(g *demand.GroupFigures) {
	of := slices.Index(a.plan.GroupBy, "pool")
	g.Drawn = nil // each bucket has a point, maybe without a value
	for b := range g.Points {
		covered, kept := false, false
		for _, p := range a.pools {
			if of < 0 || p.Pool == g.Texts[of] {
				covered = covered || p.polled[b] > 0
				kept = kept || a.keeps(p, b)
			}
		}
		if at := &g.Points[b]; !covered || !kept {
			if at.Jobs, at.GPUs = math.NaN(), math.NaN(); at.Started == 0 {
				at.Started = math.NaN()
			}
		}
	}
}
