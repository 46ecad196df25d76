package oracle

import (
	"fmt"
	"maps"
	"slices"
)

// bounds of a clock's error: more than low, at most high.
type bounds struct{ low, high int64 }

func (b bounds) hold(at int64) bool { return b.low < at && at <= b.high }

// correct shifts the ads' dates by the errors of their access points' clocks (methodology section 9).
func (v *view) correct() {
	found := map[string]map[int64][]bounds{} // access point → UTC day
	of := v.byJob()
	for _, backfill := range []bool{true, false} {
		for _, r := range v.joined(v.shown[backfill], backfill) {
			if r.job != "" {
				v.constrain(r, of[r.job], found)
			}
		}
	}
	v.clocks = map[string]int64{}
	corrected := make([]ad, len(v.ads))
	for i, a := range v.ads {
		k := fmt.Sprint(a.accessPoint(), "|", a.clockDay())
		if _, known := v.clocks[k]; !known {
			v.clocks[k] = clockError(found[a.accessPoint()], a.clockDay())
		}
		corrected[i] = maps.Clone(a)
		corrected[i]["ahead"] = v.clocks[k]
	}
	v.ads = corrected
}

// constrain adds what a run says of the clock of its ad.
func (v *view) constrain(r *run, ads []ad, found map[string]map[int64][]bounds) {
	v.bracket(r)
	var own ad
	distance := func(a ad) int64 {
		d := must(a.date("JobCurrentStartDate")) - r.seen
		return max(d, -d)
	}
	for _, a := range ads {
		_, begun := a.date("JobCurrentStartDate")
		end, ended := a.end()
		if !begun || !ended || !a.fits(r) || distance(a) >= 30*minute || max(end-r.lastSeen, r.lastSeen-end) >= hour {
			continue
		}
		if own == nil || distance(a) < distance(own) {
			own = a
		}
	}
	if own == nil {
		return
	}
	point := found[own.accessPoint()]
	if point == nil {
		point = map[int64][]bounds{}
		found[own.accessPoint()] = point
	}
	add := func(at, from, to int64) {
		point[own.clockDay()] = append(point[own.clockDay()], bounds{at - to, at - from})
	}
	if r.first() > 0 && !v.gap(r.first()) && v.snaps[r.first()-1].machines[r.machine] {
		add(must(own.date("JobCurrentStartDate")), r.previous, r.seen)
	}
	if r.end >= 0 && !own.lost() { // it is written later
		add(must(own.end()), r.lastSeen, r.absent)
	}
}

// clockError is how far an access point's clock is ahead on a day.
func clockError(days map[int64][]bounds, date int64) int64 {
	list := slices.Clone(days[date])
	for d := int64(1); d <= 3 && len(list) < 20; d++ {
		list = append(append(list, days[date-d]...), days[date+d]...)
	}
	if len(list) < 20 {
		return 0
	}
	count := func(at int64) (n int) {
		for _, b := range list {
			if b.hold(at) {
				n++
			}
		}
		return n
	}
	var edges []int64
	for _, b := range list {
		edges = append(edges, b.low, b.high)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	best, most := bounds{}, 0
	away := func(b bounds) int64 { return max(b.low, -b.high, 0) }
	for i := 1; i < len(edges); i++ {
		b := bounds{edges[i-1], edges[i]}
		if n := count(b.high); n > most || n == most && away(b) < away(best) {
			best, most = b, n
		}
	}
	if best.hold(0) || float64(most) <= float64(count(0))*1.02+2+1e-9 {
		return 0
	}
	return (best.low + best.high) >> 1 // rounded down
}
