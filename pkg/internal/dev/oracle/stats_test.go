package oracle

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// grouping names the group of a GPU (machine|id) that is g.
type grouping func(k string, g gpu) string

var groupings = map[string]grouping{
	"":            func(string, gpu) string { return "" },
	"device":      func(_ string, g gpu) string { return g.device },
	"category":    func(_ string, g gpu) string { return g.category() },
	"ownership":   func(_ string, g gpu) string { return g.ownership },
	"machineType": func(_ string, g gpu) string { return g.machineType() },
	"machine":     func(k string, _ gpu) string { machine, _, _ := strings.Cut(k, "|"); return machine },
}

// figures of a group by metric; null is nil.
type figures map[string]any

// item is a duration that counts from entry on.
type item struct {
	entry, exit float64
	event       bool
}

// step is a curve's value from age x on.
type step struct {
	x float64
	s *big.Rat
}

// kaplanMeier returns S after each event.
func kaplanMeier(items []item) (steps []step) {
	var ages []float64
	for _, it := range items {
		if it.event {
			ages = append(ages, it.exit)
		}
	}
	slices.Sort(ages)
	s := big.NewRat(1, 1) // exact: S ≤ 0.5 must not hang on the last bit
	for _, x := range slices.Compact(ages) {
		risk, events := int64(0), int64(0)
		for _, it := range items {
			if it.entry < x && x <= it.exit {
				risk++
				if it.event && it.exit == x {
					events++
				}
			}
		}
		if events > 0 {
			s.Mul(s, big.NewRat(risk-events, risk))
			steps = append(steps, step{x, new(big.Rat).Set(s)})
		}
	}
	return steps
}

// firstAtMost is the first age with S ≤ share, or S < share.
func firstAtMost(steps []step, percent int64, below bool) any {
	for _, p := range steps {
		if c := p.s.Cmp(big.NewRat(percent, 100)); c < 0 || c == 0 && !below {
			return p.x
		}
	}
	return nil
}

func (v *view) items(list []period, event func(p period) bool) (items []item) {
	for _, p := range list {
		if !p.leftTruncated && !p.unknownFrom && p.end > max(v.from, p.start) { // zero-length items leave the risk set
			items = append(items, item{max(0, float64(v.from-p.start)/float64(hour)), p.hours(), event(p)})
		}
	}
	return items
}

func median(x []float64) any {
	if len(x) == 0 {
		return nil
	}
	x = slices.Sorted(slices.Values(x))
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// availability is the summary of backfill availability.
func (v *view) availability(group grouping) map[string]figures {
	vacancies, tenures := map[string][]period{}, map[string][]period{}
	counts := map[string]map[string]float64{}
	for _, p := range v.periods(false) {
		g := group(key(p.machine, p.id), p.gpu)
		vacancies[g] = append(vacancies[g], p)
	}
	for _, p := range v.periods(true) {
		g := group(key(p.machine, p.id), p.gpu)
		tenures[g] = append(tenures[g], p)
	}
	n := 0.0
	for _, s := range v.snaps {
		if v.from <= s.at && s.at <= v.to {
			n++
		}
	}
	for _, k := range v.poolGPUs() {
		for i, x := range v.states(k) {
			if at := v.snaps[i].at; at < v.from || at > v.to || x.out || !v.keep(k, v.attribute[at/day][k]) {
				continue
			}
			g := group(k, v.attribute[v.snaps[i].at/day][k])
			if counts[g] == nil {
				counts[g] = map[string]float64{}
			}
			counts[g][x.state]++
		}
	}
	all := map[string]figures{}
	groups := map[string]bool{}
	for g := range counts {
		groups[g] = true
	}
	for g := range vacancies {
		groups[g] = true
	}
	for g := range tenures {
		groups[g] = true
	}
	for g := range groups {
		f := figures{}
		var hours []float64
		censored, unknown := 0.0, 0.0
		for _, p := range vacancies[g] {
			switch {
			case p.leftTruncated:
			case p.unknownFrom:
				unknown++
			case p.censored:
				censored++
			default:
				hours = append(hours, p.hours())
			}
		}
		f["count"], f["censored"], f["unknownStart"] = float64(len(hours)), censored, unknown
		sum := 0.0
		for _, h := range hours {
			sum += h
		}
		f["gpuHours"] = sum
		f["meanHours"], f["medianHours"], f["minHours"], f["maxHours"], f["sdHours"] = nil, median(hours), nil, nil, nil
		if len(hours) > 0 {
			mean := sum / float64(len(hours))
			f["meanHours"], f["minHours"], f["maxHours"] = mean, slices.Min(hours), slices.Max(hours)
			if len(hours) > 1 {
				square := 0.0
				for _, h := range hours {
					square += (h - mean) * (h - mean)
				}
				f["sdHours"] = math.Sqrt(square / float64(len(hours)-1))
			}
		}
		items := v.items(vacancies[g], func(p period) bool { return !p.censored })
		steps := kaplanMeier(items)
		f["kmMedianHours"] = firstAtMost(steps, 50, false)
		f["restrictedMeanHours"] = nil
		if len(items) > 0 {
			horizon, area, x, s := 0.0, 0.0, 0.0, 1.0
			for _, it := range items {
				horizon = max(horizon, it.exit)
			}
			for _, p := range steps {
				area += (p.x - x) * s
				x = p.x
				s, _ = p.s.Float64()
			}
			f["restrictedMeanHours"] = area + (horizon-x)*s
		}
		steps = kaplanMeier(v.items(tenures[g], func(p period) bool { return !p.censored }))
		f["hours90"] = firstAtMost(steps, 90, true)
		f["hours75"] = firstAtMost(steps, 75, true)
		f["hours50"] = firstAtMost(steps, 50, true)
		c := counts[g]
		f["available"], f["used"], f["taken"], f["usedPercent"] = c["available"]/n, c["used"]/n, c["taken"]/n, nil
		if n == 0 {
			f["available"], f["used"], f["taken"] = nil, nil, nil
		}
		if c["used"]+c["available"] > 0 {
			f["usedPercent"] = 100 * c["used"] / (c["used"] + c["available"])
		}
		all[g] = f
	}
	return all
}

// seen is a run as a window shows it.
type seen struct {
	*run
	gpu                      gpu
	end                      int64
	outcome, evidence, cause string
	inside                   float64 // GPU-hours in the window
}

// held are the GPU-hours of the run from a time onward, as far as they lie in [from, to].
func (s seen) held(since, from, to int64) float64 {
	return float64(max(0, min(s.end, to)-max(since, from))) / float64(hour) * float64(len(s.gpus))
}

func (s seen) hours() float64 { return max(0, float64(s.end-s.started)/float64(hour)) } // clocks differ

// runs that overlap [from, to]; hours inside are those in it.
func (v *view) runs(from, to int64) (list []seen) {
	for _, r := range slices.Concat(v.backfill, v.unseen) {
		if !r.backfill {
			continue
		}
		s := seen{run: r, end: r.ended, outcome: r.outcome, evidence: r.evidence, cause: r.cause, gpu: r.place}
		if !r.hidden {
			s.gpu = v.attribute[v.snaps[r.first()].at/day][key(r.machine, r.leader)]
		}
		if r.running || r.ended > to {
			s.end, s.outcome, s.evidence, s.cause = to, "running", "none", ""
			if last := v.snaps[len(v.snaps)-1].at; r.running && to-last > v.limit(last) {
				s.end = last // nothing is known of the time after the data
			}
		}
		if s.end < from || s.started > to || !v.keep(key(s.machine, s.ids()[0]), s.gpu) ||
			v.whose != nil && !v.whose(s.owner) {
			continue
		}
		s.inside = s.held(s.started, from, to)
		list = append(list, s)
	}
	return list
}

// tooFewLinks reports whether completions cannot be seen.
func (v *view) tooFewLinks() bool {
	ended, known := 0, 0
	asked := v.manner
	defer func() { v.manner = asked }()
	v.keeps, v.whose = nil, nil // of all runs
	for _, s := range v.runs(v.from, v.to) {
		if !s.hidden && !s.running && s.ended < v.now-30*minute {
			ended++
			if linked(s.run) {
				known++
			}
		}
	}
	return !v.jobs || ended >= 20 && 2*known < ended
}

// evictions is the summary of evictions by a group, and by cause and evidence ("group|cause").
func (v *view) evictions(group grouping) (all, byCause, byEvidence map[string]figures) {
	all, byCause, byEvidence = map[string]figures{}, map[string]figures{}, map[string]figures{}
	lists := map[string][]seen{}
	for _, s := range v.runs(v.from, v.to) {
		g := group(key(s.machine, s.ids()[0]), s.gpu)
		lists[g] = append(lists[g], s)
	}
	blind := v.tooFewLinks()
	for g, list := range lists {
		f := figures{"runs": float64(len(list)), "unseen": 0.0}
		total := 0.0
		for _, o := range []string{"evicted", "yielded", "completed", "removed", "held", "running", "lost", "ambiguous"} {
			f[o] = 0.0
		}
		for _, s := range list {
			if total += s.inside; s.hidden {
				f["unseen"] = f["unseen"].(float64) + 1
			}
			f[s.outcome] = f[s.outcome].(float64) + 1
		}
		part := func(f figures, which func(s seen) bool) {
			d, lost, held, saved, hours, jobs := 0.0, 0.0, 0.0, 0.0, []float64(nil), map[string]float64{}
			for _, s := range list {
				if s.outcome == "evicted" && which(s) {
					d++
					lost += s.held(s.saved, v.from, v.to)
					held += s.inside
					if s.saved > s.started {
						saved++
					}
					if s.job != "" {
						jobs[s.job]++
					}
					hours = append(hours, s.hours())
				}
			}
			f["evictions"], f["lostGpuHours"], f["medianHoursToEviction"] = d, lost, median(hours)
			if blind {
				f["medianHoursToEviction"] = nil
			}
			most := 0.0
			for _, n := range jobs {
				most = max(most, n)
			}
			f["evictedGpuHours"], f["maxEvictionsPerJob"], f["checkpointedPercent"] = held, most, nil
			if d > 0 {
				f["checkpointedPercent"] = 100 * saved / d
			}
			f["ratePer100GpuHours"], f["rateLow"], f["rateHigh"], f["lostPercent"] = nil, nil, nil, nil
			if total >= 1-1e-9 {
				f["ratePer100GpuHours"] = 100 * d / total
				f["rateLow"] = 0.0
				if d > 0 {
					f["rateLow"] = 100 * distuv.ChiSquared{K: 2 * d}.Quantile(0.025) / 2 / total
				}
				f["rateHigh"] = 100 * distuv.ChiSquared{K: 2*d + 2}.Quantile(0.975) / 2 / total
			}
			if total > 0 {
				f["lostPercent"] = 100 * lost / total
			}
		}
		part(f, func(seen) bool { return true })
		f["gpuHours"], f["evictedPercent"] = total, nil
		sum := f["evicted"].(float64) + f["yielded"].(float64) + f["completed"].(float64) +
			f["removed"].(float64) + f["held"].(float64)
		if sum > 0 && !blind {
			f["evictedPercent"] = 100 * f["evicted"].(float64) / sum
		}
		delete(f, "evicted")
		all[g] = f
		for _, s := range list {
			if s.outcome != "evicted" {
				continue
			}
			if k := g + "|" + s.cause; byCause[k] == nil {
				byCause[k] = figures{}
				part(byCause[k], func(x seen) bool { return x.cause == s.cause })
				delete(byCause[k], "maxEvictionsPerJob")
			}
			if k := g + "|" + s.evidence; byEvidence[k] == nil {
				byEvidence[k] = figures{}
				part(byEvidence[k], func(x seen) bool { return x.evidence == s.evidence })
				delete(byEvidence[k], "maxEvictionsPerJob")
			}
		}
	}
	return all, byCause, byEvidence
}
