package oracle

import (
	"cmp"
	"slices"
)

// findUnseen makes runs of epoch ads between two snapshots that no run takes (methodology section 8).
func (v *view) findUnseen() (list []*run) {
	taken := map[string]bool{}
	for _, r := range slices.Concat(v.backfill, v.primary) {
		taken[r.own] = true
	}
	of := v.byJob()
	for _, a := range v.ads {
		start, begun := a.date("JobCurrentStartDate")
		end, ended := a.end()
		if !begun || !ended || end < start || taken[a.name()] || a.neverBegan() || v.better(a, start, taken) {
			continue
		}
		r := &run{job: a.text("GlobalJobId"), owner: cmp.Or(a.text("User"), a.text("Owner"), "Unknown"),
			machine: a.machine(), gpus: map[string]bool{}, backfill: v.ofBackfill(a), hidden: true, started: start, ended: end,
			link: "ad only", end: -1}
		for _, id := range v.idsOf(r.machine) {
			if a.holds(map[string]bool{id: true}) {
				r.gpus[id] = true
			}
		}
		if len(r.gpus) == 0 || !v.hasBackfill(r.machine, start/day) || v.within(r) {
			continue
		}
		r.place = v.placeOn(key(r.machine, r.ids()[0]), start/day)
		r.outcome, r.cause = a.outcome()
		if r.outcome == "" {
			for _, h := range of[r.job] {
				apart := must(h.date("JobCurrentStartDate")) - start
				if !h.epoch() && h.machine() == r.machine && max(apart, -apart) <= skew {
					r.outcome, r.cause = h.outcome()
					break
				}
			}
		}
		switch r.evidence = "job ad"; {
		case r.outcome == "" || r.outcome == "ambiguous":
			r.outcome, r.evidence = "ambiguous", "none"
		case r.outcome == "evicted" && r.cause == "":
			r.cause = "unknown"
		}
		r.saves(a)
		list = append(list, r)
	}
	return list
}

// placeOn is what a GPU is on a UTC day, on the last one before it, or else on the first one that shows it.
func (v *view) placeOn(k string, date int64) gpu {
	first, last := v.snaps[0].at/day, v.snaps[len(v.snaps)-1].at/day
	for d := date; d >= first; d-- {
		if g, known := v.attribute[d][k]; known {
			return g
		}
	}
	for d := first; d <= last; d++ {
		if g, known := v.attribute[d][k]; known {
			return g
		}
	}
	return gpu{}
}

// better reports whether another ad describes an ad's run better, or shows that it describes no run at all: of epoch
// ads the one of the start that was written last counts, and a history ad only if epoch ads exist, but none of its run.
func (v *view) better(a ad, start int64, taken map[string]bool) bool {
	some := false
	for _, b := range v.ads {
		at := must(b.date("JobCurrentStartDate"))
		same := b.text("GlobalJobId") == a.text("GlobalJobId")
		if some = some || b.epoch(); !b.epoch() || !same {
			continue
		}
		if a.epoch() && b.machine() == a.machine() && at == start && (taken[b.name()] ||
			must(b.date("RecordTime")) > must(a.date("RecordTime"))) || !a.epoch() && max(at-start, start-at) <= skew {
			return true
		}
	}
	return !a.epoch() && (!some || !v.ofBackfill(a) || !a.tellsEnd())
}

// within reports whether a snapshot inside a run should show it: unless it is near an end of the run, or the owner has
// one of its GPUs already.
func (v *view) within(r *run) bool {
	return slices.ContainsFunc(v.snaps, func(s snapshot) bool {
		owned := r.backfill && slices.ContainsFunc(s.rows, func(w row) bool {
			return !w.backfill && w.state == "Claimed" && w.machine == r.machine && r.gpus[w.gpu]
		})
		return r.started+skew < s.at && s.at < r.ended-skew && !owned
	})
}

func (a ad) neverBegan() bool {
	code, ok := a.number("VacateReasonCode")
	return ok && (code == 1003 || code == 1006 || code >= 1026 && code <= 1036)
}

// idsOf are the GPUs that a machine shows.
func (v *view) idsOf(machine string) []string {
	ids := map[string]bool{}
	for _, s := range v.snaps {
		for _, w := range s.rows {
			if w.machine == machine {
				ids[w.gpu] = true
			}
		}
	}
	return (&run{gpus: ids}).ids()
}

// hasBackfill reports whether a machine has backfill rows on a UTC day or on the day before.
func (v *view) hasBackfill(machine string, date int64) bool {
	return slices.ContainsFunc(v.snaps, func(s snapshot) bool {
		return (s.at/day == date || s.at/day == date-1) &&
			slices.ContainsFunc(s.rows, func(w row) bool { return w.machine == machine && w.backfill })
	})
}

// parts is what unseen runs leave of a period (methodology section 7).
func (v *view) parts(p period, tenure bool) (list []period) {
	for _, r := range v.ofGPU(p.machine, p.id) {
		if r.started >= p.end || r.ended <= p.start {
			continue
		}
		taken := r.backfill && r.outcome == "evicted" && r.cause == "owner preemption" && v.takenAfter(p, r.ended)
		if tenure && r.backfill {
			if taken && r.ended < p.end {
				p.end, p.reason = r.ended, "reclaimed"
				break
			}
			continue
		}
		if r.started > p.start {
			before := p
			before.end, before.job, before.link, before.reason = r.started, r.job, r.link, "reclaimed"
			if r.backfill {
				before.reason = "claimed"
			}
			list = append(list, before)
		}
		if r.ended >= p.end || taken {
			return list
		}
		p.start, p.unknownFrom, p.leftTruncated = r.ended, false, false
	}
	return append(list, p)
}

// takenAfter reports whether an owner has the GPU of a period at the first snapshot after a time.
func (v *view) takenAfter(p period, at int64) bool {
	for i, s := range v.snaps {
		if s.at > at {
			return v.states(key(p.machine, p.id))[i].state == "taken"
		}
	}
	return false
}

// ofGPU are the unseen runs on a GPU by their start.
func (v *view) ofGPU(machine, id string) (list []*run) {
	for _, r := range v.unseen {
		if r.machine == machine && r.gpus[id] {
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b *run) int { return int(a.started - b.started) })
	return list
}
