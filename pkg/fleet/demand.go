package fleet

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
)

// demanding is a question about demand under way.
type demanding struct {
	*asked
	polled  map[string][]float64 // hours that polls cover, by pool and bucket
	unknown bool                 // no pool was polled
	total   demand.Sums
	found   groups[demand.GroupFigures]
}

// demand returns who waits: waits by where they began and ended, and averages of each pool's polled time, added up over
// pools.
func (a *asked) demand(ctx context.Context, about *frames.About) (*demanding, error) {
	polled, err := a.ofHours(ctx, "polledHours")
	if err != nil {
		return nil, err
	}
	d := &demanding{asked: a, polled: polled}
	d.noticeUnpolled(about)
	w := wanted{kind: facts.KindWaits, fields: []string{"waitsBegun", "waitsStarted", "waitsLeft", "waited",
		"waitingJobHours", "waitingGpuHours"}, having: []string{"waitsBegun", "waitsCarried"}}
	err = a.each(ctx, w, func(c cell) error {
		return d.add(c, demand.Sums{Waits: c.values[0], Started: c.values[1], Left: c.values[2], Waited: c.values[3],
			Jobs: c.values[4], GPUs: c.values[5]})
	})
	if err == nil && slices.Contains(a.plan.Metrics, "waits") {
		err = a.each(ctx, wanted{kind: facts.KindWaits, fields: []string{"waitsCarried"}, also: a.first}, func(c cell) error {
			return d.add(c, demand.Sums{Waits: c.values[0]})
		})
	}
	return d, err
}

// noticeUnpolled adds a notice if no poll of a pool's queues covers anything of the time range.
func (d *demanding) noticeUnpolled(about *frames.About) {
	var unpolled []string
	for _, name := range slices.Sorted(maps.Keys(d.cover)) {
		if !slices.ContainsFunc(d.polled[name], func(hours float64) bool { return hours > 0 }) {
			unpolled = append(unpolled, name)
		}
	}
	if len(unpolled) > 0 {
		about.Warn("the queues of %d of %d pools were not polled in the time range, so that who waits there is not "+
			"known: %s. Poll them with `gpureports collect --jobs`", len(unpolled), len(d.cover), strings.Join(unpolled, ", "))
	}
	d.unknown = len(unpolled) == len(d.cover)
}

// frames returns the answer: no data if no pool was polled.
func (d *demanding) frames(about *frames.About) data.Frames {
	if d.unknown {
		return about.Finish(nil)
	}
	f := demand.Figures{Groups: d.found.all, Total: d.total, Times: d.times()}
	return demand.Frames(&f, d.plan, about)
}

// add adds sums, whose averages are hours yet.
func (d *demanding) add(c cell, s demand.Sums) error {
	covered := 0.0
	if of := d.polled[c.pool]; of != nil {
		covered = of[c.bucket]
	}
	if s.Jobs, s.GPUs = s.Jobs/covered, s.GPUs/covered; covered == 0 {
		s.Jobs, s.GPUs = 0, 0
	}
	texts := d.textsOf(d.plan.GroupBy, c.texts)
	group, err := d.found.of(texts, d.buckets.Len(), func() demand.GroupFigures {
		return demand.GroupFigures{Texts: texts, Points: d.empty(c.pool)}
	})
	if err != nil {
		return err
	}
	if group.Points != nil {
		if at := &group.Points[c.bucket]; s.Started > 0 && math.IsNaN(at.Started) {
			at.Started = 0
		}
		into(&group.Points[c.bucket], s)
		return nil
	}
	into(&group.Sums, s)
	into(&d.total, s)
	return nil
}

func into(of *demand.Sums, s demand.Sums) {
	of.Waits += s.Waits
	of.Started += s.Started
	of.Left += s.Left
	of.Waited += s.Waited
	of.Jobs += s.Jobs
	of.GPUs += s.GPUs
}

// empty returns the points of a series: none where no poll covers anything, of the pool if it is a group.
func (d *demanding) empty(of string) []demand.Sums {
	if d.plan.Frame != query.FrameSeries {
		return nil
	}
	points := make([]demand.Sums, d.buckets.Len())
	for b := range points {
		covered, kept := false, false
		for _, p := range d.pools {
			if p.Pool == of || !slices.Contains(d.plan.GroupBy, "pool") {
				covered = covered || d.polled[p.Pool] != nil && d.polled[p.Pool][b] > 0
				kept = kept || d.plan.Keep(d.buckets, b, facts.Micros(p.Through))
			}
		}
		if !covered || !kept {
			points[b] = demand.Sums{Started: math.NaN(), Jobs: math.NaN(), GPUs: math.NaN()}
		}
	}
	return points
}
