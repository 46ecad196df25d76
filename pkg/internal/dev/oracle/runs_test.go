package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// view is what a window's answer is computed from: the snapshots up to 7 days around it.
type view struct {
	*records
	from, to int64
	snaps    []snapshot
	earlier  bool // there are snapshots before snaps
	ads      []ad
	jobs     bool // there is a job source
	now      int64
	memory   map[string][]stay // the states of a GPU
	ever     map[string]bool   // GPUs that are in the pool on a day of the snapshots
	backfill []*run
	primary  []*run
	shown    map[bool][]*run  // what the snapshots show on backfill and on primary
	unseen   []*run           // on both sides
	clocks   map[string]int64 // access point|UTC day → how far its clock is ahead
	manner
}

// manner is how a window is asked about.
type manner struct {
	asking  *asking
	drawn   *time.Location // the zone of buckets
	buckets []string
	filter  string                 // JSON; empty: none
	keeps   func(string, gpu) bool // the filter, by machine|GPU; nil: all
	whose   func(string) bool      // the filter of the users of runs; nil: all
}

// plainly asks about everything.
func plainly(r *records) manner {
	return manner{asking: &asking{r, time.UTC, 15}, drawn: time.UTC, buckets: []string{"1h", "1d"}}
}

// begin is the beginning of a snapshot's slice.
func (m *manner) begin(at int64) int64 {
	_, begin := m.asking.sliceOf(at)
	return begin
}

func (m *manner) keep(k string, g gpu) bool { return m.keeps == nil || m.keeps(k, g) }

func newView(r *records, ads []ad, jobs bool, from, to int64) *view {
	v := &view{records: r, from: from, to: to, ads: ads, jobs: jobs, memory: map[string][]stay{}, ever: map[string]bool{},
		now: r.snapshots[len(r.snapshots)-1].at, manner: plainly(r)}
	for _, s := range r.snapshots {
		switch {
		case s.at < from-7*day:
			v.earlier = true
		case s.at <= to+7*day:
			v.snaps = append(v.snaps, s)
		}
	}
	for _, k := range v.poolGPUs() {
		v.ever[k] = true
	}
	v.shown = map[bool][]*run{true: v.apparent(true), false: v.apparent(false)}
	v.correct()
	v.backfill = v.link(v.shown[true], true)
	v.primary = v.link(v.shown[false], false)
	v.unseen = v.findUnseen()
	return v
}

// gap reports whether there is a gap before snapshot i.
func (v *view) gap(i int) bool { return v.snaps[i].at-v.snaps[i-1].at > v.limit(v.snaps[i-1].at) }

// run is a job's stay on a machine.
type run struct {
	job, owner, machine string
	gpus                map[string]bool
	opening             map[string]bool // those of its first snapshot
	leader              string          // the first GPU of its first snapshot
	own                 string          // the ad that describes it
	ownStart            int64
	not                 []int64 // starts of ads that describe other runs
	fresh               *run    // before ads tell of it
	saved               int64   // until when the job has saved its work
	backfill, hidden    bool    // hidden: no snapshot shows it
	place               gpu     // of a hidden run
	sights              []int   // snapshots at which it is seen
	begun, lasted       int     // first and last snapshot of the run that this is a part of
	next                int     // the snapshot after a part that no snapshot shows
	end                 int     // the first snapshot at which it is over, -1: lost or running
	lost                bool
	stale               bool

	previous, seen, lastSeen, absent int64 // brackets of start and end; previous and absent 0: none
	gone                             int64 // until when an ad can tell of the end
	split                            bool  // it ends at a split: a later part of the run continues
	part                             bool  // it begins at a split
	started, ended                   int64
	startTold, endTold               bool // by an ad
	running                          bool // at the end of the data
	outcome, evidence, cause, link   string
	takeover                         bool
	takenOverBy                      string
}

// first and last are the snapshots that show the run. A part between two starts that no snapshot shows lies between
// them: its first is then later than its last.
func (r *run) first() int {
	if len(r.sights) == 0 {
		return r.next
	}
	return r.sights[0]
}

func (r *run) last() int {
	if len(r.sights) == 0 {
		return r.next - 1
	}
	return r.sights[len(r.sights)-1]
}

func (r *run) ids() []string {
	var ids []string
	for id := range r.gpus {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// held returns the GPUs that each job holds at a snapshot on one side. A backfill row of a GPU that is claimed on
// primary holds nothing; of a job with such a row the others are stale as well: they begin no run.
func (v *view) held(s snapshot, backfill bool) (map[string]*run, []string) {
	taken := map[string]bool{}
	for _, w := range s.rows {
		if !w.backfill && w.state == "Claimed" {
			taken[key(w.machine, w.gpu)] = true
		}
	}
	jobs, order := map[string]*run{}, []string(nil)
	for _, w := range s.rows {
		if w.backfill != backfill || w.state != "Claimed" {
			continue
		}
		k := w.job + "|" + w.machine
		if w.job == "" {
			k = w.owner + "|" + w.machine + "|" + w.gpu
		}
		if jobs[k] == nil {
			jobs[k] = &run{job: w.job, owner: w.owner, machine: w.machine, backfill: backfill, gpus: map[string]bool{}}
			order = append(order, k)
		}
		if backfill && taken[key(w.machine, w.gpu)] {
			jobs[k].stale = true
			continue
		}
		jobs[k].gpus[w.gpu] = true
	}
	return jobs, order
}

func common(a, b map[string]bool) bool {
	for id := range a {
		if b[id] {
			return true
		}
	}
	return false
}

// apparent returns the runs that the snapshots show.
func (v *view) apparent(backfill bool) (runs []*run) {
	open := map[string]*run{}
	var openKeys []string // in order of sight
	for i, s := range v.snaps {
		now, order := v.held(s, backfill)
		claimed := map[string]string{} // GPU → its primary user
		for _, w := range s.rows {
			if !w.backfill && w.state == "Claimed" {
				claimed[key(w.machine, w.gpu)] = w.owner
			}
		}
		for _, k := range slices.Clone(openKeys) {
			r := open[k]
			finish := func(lost bool) {
				if r.lost = lost; !lost {
					r.end = i
				}
				runs = append(runs, r)
				delete(open, k)
				openKeys = slices.DeleteFunc(openKeys, func(x string) bool { return x == k })
			}
			switch {
			case v.gap(i):
				finish(true)
			case !s.machines[r.machine]:
				bridged := false
				if s := i - 1; i+1 < len(v.snaps) && v.snaps[s].machines[r.machine] && v.snaps[i+1].machines[r.machine] &&
					!v.gap(i+1) {
					after, _ := v.held(v.snaps[i+1], backfill)
					bridged = after[k] != nil && common(after[k].gpus, r.gpus)
				}
				if !bridged {
					finish(true)
				}
			default:
				var taker string
				taken := false
				if backfill {
					for _, id := range r.ids() {
						if user, ok := claimed[key(r.machine, id)]; ok {
							if !taken {
								taker = user
							}
							taken = true
						}
					}
				}
				if taken || now[k] == nil || !common(now[k].gpus, r.gpus) {
					r.takeover, r.takenOverBy = taken, taker
					finish(false)
					break
				}
				maps.Copy(r.gpus, now[k].gpus)
				r.sights = append(r.sights, i)
			}
		}
		for _, k := range order {
			r := now[k]
			if open[k] == nil && !(r.stale && r.job != "") && len(r.gpus) > 0 {
				r.sights, r.end, r.opening = []int{i}, -1, maps.Clone(r.gpus)
				open[k] = r
				openKeys = append(openKeys, k)
			}
		}
	}
	for _, k := range openKeys {
		open[k].running = true
		runs = append(runs, open[k])
	}
	slices.SortStableFunc(runs, func(a, b *run) int { return a.first() - b.first() })
	return runs
}

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

// findUnseen makes runs of epoch ads between two snapshots that no run takes (methodology section 8).
func (v *view) findUnseen() (list []*run) {
	taken := map[string]bool{}
	for _, r := range slices.Concat(v.backfill, v.primary) {
		taken[r.own] = true
	}
	of, epochs := v.byJob(), slices.ContainsFunc(v.ads, ad.epoch)
	for _, a := range v.ads {
		start, begun := a.date("JobCurrentStartDate")
		end, ended := a.end()
		if !begun || !ended || end < start || taken[a.name()] || a.neverBegan() ||
			v.better(a, start, taken, of[a.text("GlobalJobId")], epochs) {
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

// better reports whether another ad of a job describes an ad's run better, or shows that it describes no run at all: of
// epoch ads the one of the start that was written last counts, and a history ad only if there are epoch ads, but none
// of its run.
func (v *view) better(a ad, start int64, taken map[string]bool, ofJob []ad, epochs bool) bool {
	for _, b := range ofJob {
		if !b.epoch() {
			continue
		}
		at := must(b.date("JobCurrentStartDate"))
		if a.epoch() && b.machine() == a.machine() && at == start && (taken[b.name()] ||
			must(b.date("RecordTime")) > must(a.date("RecordTime"))) || !a.epoch() && max(at-start, start-at) <= skew {
			return true
		}
	}
	return !a.epoch() && (!epochs || !v.ofBackfill(a) || !a.tellsEnd())
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
