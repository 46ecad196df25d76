package fleet

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/frames"
)

// demanding is a question about demand under way.
type demanding struct {
	summed[demand.Sums]
	polled map[string][]float64 // hours that polls cover, by pool and bucket
}

// demand returns who waits: waits by where they began and ended, and averages of each pool's polled time, added up over
// pools; nil if no pool was polled.
func (a *asked) demand(ctx context.Context, about *frames.About) (*demand.Figures, error) {
	polled, err := a.ofHours(ctx, "polledHours")
	if err != nil {
		return nil, err
	}
	d := demanding{summed[demand.Sums]{asked: a, total: &demand.Sums{}}, polled}
	known := d.noticeUnpolled(about)
	w := wanted{kind: facts.KindWaits, fields: []string{"waitsBegun", "waitsStarted", "waitsLeft", "waited",
		"waitingJobHours", "waitingGpuHours"}, having: []string{"waitsBegun", "waitsCarried"}}
	err = a.each(ctx, w, func(c cell) error {
		covered := math.Inf(1)
		if of := polled[c.pool]; of != nil && of[c.bucket] > 0 {
			covered = of[c.bucket]
		}
		return d.add(c, func(to *demand.Sums) {
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
			return d.add(c, func(to *demand.Sums) { to.Waits += c.values[0] })
		})
	}
	if err != nil || !known {
		return nil, err
	}
	for i := range d.found.all {
		d.hideUnpolled(&d.found.all[i])
	}
	return d.figures(), nil
}

// noticeUnpolled adds a notice if no poll of a pool's queues covers anything of the time range, and reports whether any
// pool was polled.
func (d *demanding) noticeUnpolled(about *frames.About) bool {
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
	return len(unpolled) < len(d.cover)
}

// hideUnpolled takes away the averages of a series where no poll covers anything, of the pool if it is a group.
func (d *demanding) hideUnpolled(g *demand.GroupFigures) {
	of := slices.Index(d.plan.GroupBy, "pool")
	g.Drawn = nil // each bucket has a point, maybe without a value
	for b := range g.Points {
		covered, kept := false, false
		for _, p := range d.pools {
			if of < 0 || p.Pool == g.Texts[of] {
				covered = covered || d.polled[p.Pool] != nil && d.polled[p.Pool][b] > 0
				kept = kept || d.plan.Keep(d.buckets, b, facts.Micros(p.Through))
			}
		}
		if at := &g.Points[b]; !covered || !kept {
			if at.Jobs, at.GPUs = math.NaN(), math.NaN(); at.Started == 0 {
				at.Started = math.NaN()
			}
		}
	}
}
