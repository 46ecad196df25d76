package oracle

import (
	"slices"
	"strings"
)

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
		k := r.job + "|" + r.machine
		if r.job == "" {
			k = r.owner + "|" + r.machine + "|" + r.ids()[0]
		}
		if k == x.who && r.gpus[id] && r.first() <= i && i <= r.last() {
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
