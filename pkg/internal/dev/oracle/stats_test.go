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
			if k := strings.TrimPrefix(g+"|"+s.cause, "|"); byCause[k] == nil {
				byCause[k] = figures{}
				part(byCause[k], func(x seen) bool { return x.cause == s.cause })
				delete(byCause[k], "maxEvictionsPerJob")
			}
			if k := strings.TrimPrefix(g+"|"+s.evidence, "|"); byEvidence[k] == nil {
				byEvidence[k] = figures{}
				part(byEvidence[k], func(x seen) bool { return x.evidence == s.evidence })
				delete(byEvidence[k], "maxEvictionsPerJob")
			}
		}
	}
	return all, byCause, byEvidence
}

// stay is a GPU's state at a snapshot; who is the job (or user) that holds it; out: it is not in the pool that day.
type stay struct {
	state, who string
	out        bool
}

// states of a pool GPU at each snapshot of the view.
func (v *view) states(k string) []stay {
	if v.memory[k] == nil {
		v.memory[k] = v.findStates(k)
	}
	return v.memory[k]
}

func (v *view) findStates(k string) []stay {
	machine, id, _ := strings.Cut(k, "|")
	list := make([]stay, len(v.snaps))
	out, made := make([]bool, len(v.snaps)), make([]bool, len(v.snaps))
	for i, s := range v.snaps {
		out[i] = !v.pool[s.at/day][k]
		x := stay{state: "absent"}
		if !s.machines[machine] {
			x.state = "unknown"
		}
		best := 0
		for _, w := range s.of[k] {
			var rank int
			var state string
			switch {
			case !w.backfill && w.state == "Claimed":
				rank, state = 4, "taken"
			case !w.backfill:
				continue
			case w.state == "Claimed":
				rank, state = 3, "used"
			case w.state == "Unclaimed":
				rank, state = 2, "available"
			default:
				rank, state = 1, "blocked"
			}
			if rank < best {
				continue
			}
			best = rank
			x = stay{state: state}
			if rank >= 3 {
				if x.who = w.job + "|" + machine; w.job == "" {
					x.who = w.owner + "|" + machine + "|" + id
				}
			}
		}
		list[i] = x
	}
	for i := 1; i+1 < len(list); i++ { // one missing snapshot between equal states
		if list[i].state == "unknown" && list[i-1] == list[i+1] && !out[i-1] && !out[i+1] && !v.gap(i) && !v.gap(i+1) &&
			v.snaps[i-1].machines[machine] {
			list[i] = list[i-1]
		}
	}
	used := func(i int) bool { return !out[i] && (list[i].state == "available" || list[i].state == "used") }
	for i := 1; i+1 < len(list); i++ { // a slot that is recreated between two jobs
		if list[i].state == "absent" && !out[i] && used(i-1) && used(i+1) && !v.gap(i) && !v.gap(i+1) && !made[i-1] {
			made[i] = true
		}
	}
	for i := range list {
		if list[i].out = out[i]; made[i] {
			list[i].state = "available"
		}
	}
	return list
}

type period struct {
	machine, id                          string
	gpu                                  gpu
	start, end                           int64
	reason, job, link                    string
	censored, leftTruncated, unknownFrom bool
}

func (p period) hours() float64 { return float64(p.end-p.start) / float64(hour) }

// holder returns the run of a state.
func (v *view) holder(x stay, id string, i int) *run {
	runs := v.backfill
	if x.state == "taken" {
		runs = v.primary
	}
	for _, r := range runs {
		if !r.gpus[id] || i < r.first() || r.last() < i {
			continue
		}
		k := r.job + "|" + r.machine
		if r.job == "" {
			k = r.owner + "|" + r.machine + "|" + r.ids()[0]
		}
		if k == x.who {
			found := r
			for _, later := range runs { // parts of a split run: the one that is seen then
				if later.job == r.job && later.machine == r.machine && r.job != "" && later.gpus[id] && later.first() <= i &&
					later.first() > found.first() {
					found = later
				}
			}
			return found
		}
	}
	return nil
}

func linked(r *run) bool { return r != nil && r.link != "none" && r.link != "job only" }

func (v *view) poolGPUs() []string {
	all := map[string]bool{}
	for _, s := range v.snaps {
		for k := range v.pool[s.at/day] {
			all[k] = true
		}
	}
	var keys []string
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// periods returns vacancies, or tenures, that overlap the window, cut to it.
func (v *view) periods(tenure bool) (list []period) {
	for _, p := range v.uncut(tenure) {
		if p.end > v.to {
			p.end, p.reason, p.job, p.link = v.to, "window", "", ""
		}
		p.censored = p.reason == "gap" || p.reason == "window"
		if p.end >= v.from && p.start <= v.to && v.keep(key(p.machine, p.id), p.gpu) {
			list = append(list, p)
		}
	}
	return list
}

// uncut returns all vacancies, or tenures.
func (v *view) uncut(tenure bool) (list []period) {
	inside := func(x stay) bool { return !x.out && (x.state == "available" || tenure && x.state == "used") }
	for _, k := range v.poolGPUs() {
		states := v.states(k)
		machine, id, _ := strings.Cut(k, "|")
		for i := 0; i < len(states); i++ {
			if !inside(states[i]) || i > 0 && !v.gap(i) && inside(states[i-1]) {
				continue
			}
			p := period{machine: machine, id: id, gpu: v.attribute[v.snaps[i].at/day][k], start: v.snaps[i].at}
			switch {
			case i == 0 && v.earlier:
				p.leftTruncated = true
			case i == 0 || v.gap(i) || states[i-1].state == "unknown" && !states[i-1].out:
				p.unknownFrom = true
			case states[i-1].state == "used" || states[i-1].state == "taken":
				if r := v.holder(states[i-1], id, i-1); linked(r) && r.ended > v.snaps[i-1].at && r.ended <= v.snaps[i].at {
					p.start = r.ended
				}
			}
			j := i
			for j+1 < len(states) && !v.gap(j+1) && inside(states[j+1]) {
				j++
			}
			switch {
			case j+1 == len(states):
				p.end, p.reason = v.snaps[j].at, "gap"
				if v.to-v.snaps[j].at <= v.limit(v.snaps[j].at) {
					p.end, p.reason = max(v.to, v.snaps[j].at), "window"
				}
			case v.gap(j+1) || states[j+1].state == "unknown":
				p.end, p.reason = v.snaps[j].at, "gap"
			default:
				p.end = v.snaps[j+1].at
				next := states[j+1]
				p.reason = map[string]string{"used": "claimed", "taken": "reclaimed", "blocked": "blocked"}[next.state]
				if p.reason == "" {
					p.reason = "left"
				}
				if next.state == "used" || next.state == "taken" {
					r := v.holder(next, id, j+1)
					if linked(r) && r.started > v.snaps[j].at && r.started <= v.snaps[j+1].at {
						p.end = r.started
					}
					if r != nil {
						p.job, p.link = r.job, r.link
					}
				}
			}
			list = append(list, v.parts(p, tenure)...)
		}
	}
	return list
}

// transitions by (group, from, to).
func (v *view) transitions(group func(k string, g gpu) string) map[[3]string]float64 {
	count := map[[3]string]float64{}
	for _, k := range v.poolGPUs() {
		states := v.states(k)
		for i := 1; i < len(states); i++ {
			a, b := states[i-1], states[i]
			if at := v.snaps[i].at; at < v.from || at > v.to || v.gap(i) || a.state == "unknown" || b.state == "unknown" ||
				a.out || b.out {
				continue
			}
			if (a.state != b.state || a.state == "used" && a.who != b.who) && v.keep(k, v.attribute[v.snaps[i].at/day][k]) {
				count[[3]string{group(k, v.attribute[v.snaps[i].at/day][k]), a.state, b.state}]++
			}
		}
	}
	return count
}
