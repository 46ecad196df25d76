package oracle

import (
	"maps"
	"slices"
	"strings"
)

// fits reports whether an ad is of a run's machine and GPUs.
func (a ad) fits(r *run) bool { return a.machine() == r.machine && a.holds(r.gpus) }

// ofBackfill reports whether an ad is of a backfill slot: by the name, or by what the machine's rows say of the slot,
// or of the part of its name before the last _, on the day of the ad's start or the day before.
func (v *view) ofBackfill(a ad) bool {
	slot := a.text("StartdSlot")
	if strings.Contains(strings.ToLower(slot), "backfill") {
		return true
	}
	ahead, _ := a["ahead"].(int64)
	begun := (must(a.date("JobCurrentStartDate")) + ahead) / day
	for _, s := range v.snapshots {
		if d := s.at / day; d != begun && d != begun-1 {
			continue
		}
		for _, w := range s.rows {
			name, _, _ := strings.Cut(w.slot, "@")
			if w.machine == a.machine() && w.flagged && (name == slot || strings.LastIndex(slot, "_") == len(name) &&
				strings.HasPrefix(slot, name)) {
				return true
			}
		}
	}
	return false
}

// link joins the apparent runs of a side with the ads, and gives each its times and outcome.
func (v *view) link(apparent []*run, backfill bool) []*run {
	of := v.byJob()
	var runs []*run
	for _, r := range v.joined(apparent, backfill) {
		runs = append(runs, v.splitUp(r, of[r.job])...)
	}
	slices.SortStableFunc(runs, func(a, b *run) int { return a.first() - b.first() })
	for _, r := range runs {
		fresh := *r
		v.resolve(r, of[r.job], backfill, runs)
		r.fresh = &fresh
	}
	for v.oneRunPerAd(runs) {
		for _, r := range runs {
			fresh, not := r.fresh, r.not
			*r = *fresh
			r.fresh, r.not = fresh, not
			v.resolve(r, of[r.job], backfill, runs)
		}
	}
	for _, r := range runs { // an ad describes a part by the GPUs of the whole run
		v.shrink(r, of[r.job], backfill)
	}
	return runs
}

// oneRunPerAd takes an ad that describes two runs from the one that is first seen farther from its start.
func (v *view) oneRunPerAd(runs []*run) bool {
	for i, r := range runs {
		for _, x := range runs[:i] {
			if r.job == "" || r.job != x.job || r.machine != x.machine || r.own == "" || r.own != x.own {
				continue
			}
			away := func(r *run) int64 {
				at := v.snaps[r.first()].at - r.ownStart
				return max(at, -at)
			}
			worse := r
			if away(r) < away(x) {
				worse = x
			}
			worse.not = append(worse.not, r.ownStart)
			return true
		}
	}
	return false
}

// shrink leaves a part of a run the GPUs that it holds at its own snapshots; one without any those of the ad that
// describes it.
func (v *view) shrink(r *run, ads []ad, backfill bool) {
	if !r.part && !r.split {
		r.leader = slices.Min(slices.Collect(maps.Keys(r.opening)))
		return
	}
	gpus, opening := map[string]bool{}, map[string]bool{}
	for n, i := range r.sights {
		held, _ := v.held(v.snaps[i], backfill)
		if x := held[r.job+"|"+r.machine]; x != nil {
			for id := range x.gpus {
				gpus[id] = true
				opening[id] = opening[id] || n == 0
			}
		}
	}
	if own, _, _ := v.describes(r, ads); len(gpus) == 0 && own != nil {
		for id := range r.gpus {
			if own.holds(map[string]bool{id: true}) {
				gpus[id], opening[id] = true, true
			}
		}
	}
	if len(gpus) == 0 {
		gpus, opening = r.gpus, r.gpus
	}
	maps.DeleteFunc(opening, func(_ string, is bool) bool { return !is })
	r.gpus = gpus
	r.leader = slices.Min(slices.Collect(maps.Keys(opening)))
}

func (v *view) byJob() map[string][]ad {
	of := map[string][]ad{}
	for _, a := range v.ads {
		id := a.text("GlobalJobId")
		of[id] = append(of[id], a)
	}
	return of
}

// joined makes one run of pieces on both sides of a gap, or of the machine's absence.
func (v *view) joined(apparent []*run, backfill bool) (whole []*run) {
	of := v.byJob()
	for _, piece := range apparent {
		r := *piece
		r.gpus, r.sights = maps.Clone(r.gpus), slices.Clone(r.sights)
		v.bracket(&r)
		joined := false
		for i := len(whole) - 1; i >= 0; i-- {
			before := whole[i]
			if before.job != r.job || before.machine != r.machine || r.job == "" &&
				(before.owner != r.owner || !common(before.gpus, r.gpus)) {
				continue
			}
			if joined = before.lost && v.oneRun(before, &r, of[r.job], backfill); joined {
				before.sights = append(before.sights, r.sights...)
				maps.Copy(before.gpus, r.gpus)
				before.lost, before.end, before.running, before.takeover, before.takenOverBy = r.lost, r.end, r.running,
					r.takeover, r.takenOverBy
			}
			break
		}
		if !joined {
			whole = append(whole, &r)
		}
	}
	return whole
}

// oneRun reports whether a lost piece and the next one are one run.
func (v *view) oneRun(before, after *run, ads []ad, backfill bool) bool {
	covering, starting := ads, ads
	if after.job == "" {
		v.bracket(before)
		covering, starting = []ad{v.byTime(before, backfill)}, []ad{v.byTime(after, backfill)}
	}
	lastSeen, seen := v.snaps[before.last()].at, v.snaps[after.first()].at
	for _, a := range covering {
		start, ok1 := a.date("JobCurrentStartDate")
		end, ok2 := a.end()
		if ok1 && ok2 && a.fits(before) && a.fits(after) && start <= v.soonAfter(before.last()) && end >= seen-skew {
			return true
		}
	}
	next := before.last() + 1
	for !v.snaps[next].machines[before.machine] {
		next++
	}
	if next != after.first() || !common(after.opening, before.gpus) {
		return false
	}
	for _, a := range starting {
		for _, name := range []string{"JobCurrentStartDate", "JobLastStartDate", "JobStartDate"} {
			if at, ok := a.date(name); ok && at > lastSeen && at > v.soonAfter(before.first()) &&
				at <= v.soonAfter(after.first()) {
				return false
			}
		}
	}
	return true
}

// soonAfter is 120 s after the last row of a snapshot.
func (v *view) soonAfter(snapshot int) int64 { return v.snaps[snapshot].end + skew }

// bracket sets between which times a run began and ended.
func (v *view) bracket(r *run) {
	r.seen, r.lastSeen, r.previous, r.absent = v.snaps[r.first()].at, v.snaps[r.last()].at, 0, 0
	if r.first() > 0 {
		r.previous = v.snaps[r.first()-1].at
	}
	switch {
	case r.end >= 0:
		r.absent, r.gone = v.snaps[r.end].at, v.soonAfter(r.end)
	case r.lost:
		r.absent, r.gone = v.snaps[r.last()+1].at, v.soonAfter(r.last()+1)
	}
}

// splitUp splits a run at the job's starts inside it.
func (v *view) splitUp(r *run, ads []ad) []*run {
	v.bracket(r)
	r.begun, r.lasted = r.first(), r.last()
	var starts []int64
	for _, a := range ads {
		if start, ok := a.date("JobCurrentStartDate"); ok && r.job != "" && a.fits(r) && start > v.soonAfter(r.first()) &&
			start <= r.lastSeen && !a.neverBegan() {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	parts, sights := []*run{r}, r.sights
	if len(starts) == 0 {
		return parts
	}
	for _, start := range starts {
		before := parts[len(parts)-1]
		after := *before
		next := 0
		for v.snaps[next].at < start || !slices.Contains(sights, next) {
			next++
		}
		before.sights, after.sights = nil, nil
		parts = append(parts, &after)
		before.end, before.lost, before.running, before.split, before.takeover, before.takenOverBy = -1, false, false, true,
			false, ""
		before.absent, after.started, after.part, after.next = start, start, true, next
	}
	for k, p := range parts { // each sight belongs to the part that had begun
		for _, i := range sights {
			if (k == 0 || v.snaps[i].at >= p.started) && (k+1 == len(parts) || v.snaps[i].at < p.absent) {
				p.sights = append(p.sights, i)
			}
		}
		p.seen, p.lastSeen = v.snaps[p.first()].at, v.snaps[p.last()].at
		if p.first() > 0 {
			p.previous = v.snaps[p.first()-1].at
		}
	}
	return parts
}

func (v *view) resolve(r *run, ads []ad, backfill bool, all []*run) {
	if r.started == 0 {
		r.started = r.seen
	}
	r.ended = r.absent
	if r.lost || r.running {
		r.ended = r.lastSeen
	}
	r.link = "none"
	inStart := func(at int64, ok bool) bool {
		return ok && at <= v.soonAfter(r.first()) && (r.previous == 0 || at > r.previous-skew)
	}
	inEnd := func(at int64, ok bool) bool {
		return ok && at >= r.lastSeen-skew && (r.absent == 0 || at <= r.absent || at <= r.gone && !r.split)
	}
	if r.job == "" {
		ads = nil
		if a := v.byTime(r, backfill); a != nil {
			ads = []ad{a}
		}
	}
	own, link, later := v.describes(r, ads)
	if r.job == "" {
		later = nil
		if link, own = "none", nil; ads != nil {
			link, own, ads = "machine and time", ads[0], v.ads
		}
	}
	if r.link = link; own != nil {
		r.own, r.ownStart = own.name(), must(own.date("JobCurrentStartDate"))
	}
	newest := v.newest(ads)
	begun := r.part
	if own != nil && !begun {
		at, ok := own.date("JobCurrentStartDate")
		begun = inStart(at, ok)
	}
	if at, ok := newest.date("JobStartDate"); r.job != "" && (own != nil || later != nil) && !begun && inStart(at, ok) &&
		!v.otherBegan(r, at, ads) {
		r.started, r.startTold = at, true
	}
	stated, cause, ended := "", "", false
	if own != nil {
		if at, ok := own.date("JobCurrentStartDate"); !r.part && inStart(at, ok) {
			r.started, r.startTold = at, true
		}
		if at, ok := own.end(); inEnd(at, ok) {
			r.ended, ended = at, true
		}
		stated, cause = own.outcome()
		if stated == "" && own.epoch() { // its times only: the history ad of the same run
			for _, a := range ads {
				apart := must(a.date("JobCurrentStartDate")) - must(own.date("JobCurrentStartDate"))
				if !a.epoch() && max(apart, -apart) <= skew && a.machine() == own.machine() &&
					a.text("GlobalJobId") == own.text("GlobalJobId") {
					stated, cause = a.outcome()
					break
				}
			}
		}
		if _, coded := own.number("VacateReasonCode"); stated == "evicted" && (cause == "" || cause == "unknown" && !coded) {
			cause = "unknown"
			if r.takeover {
				cause = "owner preemption"
			}
		}
	}
	if later != nil { // a later run began: this one did not complete
		if at, ok := later.date("JobLastStartDate"); !begun && inStart(at, ok) {
			r.started, r.startTold = at, true
		}
		vacated, ok := later.date("LastVacateTime")
		if ok = inEnd(vacated, ok) && vacated >= r.started; ok && !ended {
			r.ended, ended = vacated, true
		}
		holds, _ := later.number("NumHolds")
		said, why := later.earlierRuns()
		switch {
		case stated != "":
		case said != "":
			stated, cause = said, why
		case holds == 0:
			stated, cause = "evicted", "unknown"
			if r.takeover {
				cause = "owner preemption"
			}
		default:
			stated = "weaker"
		}
	}
	r.running, r.endTold = r.running && !ended, ended
	again := false // a later run of the job on backfill
	for _, x := range all {
		if backfill && x.job == r.job && r.job != "" && x.first() > r.last() {
			again = true
		}
	}
	if !r.running {
		r.ended = max(r.ended, r.started)
	}
	r.saves(own)
	r.evidence = "none"
	switch {
	case r.running:
		r.outcome = "running"
	case stated == "ambiguous":
		r.outcome = "ambiguous"
	case stated != "" && stated != "weaker":
		r.outcome, r.evidence, r.cause = stated, "job ad", cause
	case r.takeover:
		r.outcome, r.evidence, r.cause = "evicted", "takeover", "owner preemption"
	case stated != "weaker" && again:
		r.outcome, r.evidence, r.cause = "evicted", "reappeared", "unknown"
	case r.lost:
		r.outcome = "lost"
	default:
		r.outcome = "ambiguous"
	}
}

// saves sets until when the job has saved its work in the run.
func (r *run) saves(own ad) {
	r.saved = r.started
	if own != nil {
		if at, ok := own.date("JobLastCheckpointTime"); ok {
			r.saved = max(r.started, min(at, r.ended))
		}
	}
}

// newest is the ad of the last run of a job that is known.
func (v *view) newest(ads []ad) (last ad) {
	start := func(a ad) int64 { return must(a.date("JobCurrentStartDate")) }
	for _, a := range ads {
		if written := must(a.date("RecordTime")); start(a) != 0 && (last == nil || start(a) > start(last) ||
			start(a) == start(last) && (!a.epoch() && last.epoch() || a.epoch() == last.epoch() &&
				written > must(last.date("RecordTime")))) {
			last = a
		}
	}
	return last
}

// describes finds the ad whose dates describe a run, in the order of htcondor.md, and otherwise the ad of a later run
// of its job. Of several with one start the one written last counts.
func (v *view) describes(r *run, ads []ad) (own ad, link string, later ad) {
	start := func(a ad) int64 { return must(a.date("JobCurrentStartDate")) }
	overlaps := func(a ad) bool { return start(a) <= r.lastSeen && a.written() >= r.seen }
	var epoch, history ad
	last := v.newest(ads)
	for _, a := range ads {
		if start(a) == 0 || slices.Contains(r.not, start(a)) {
			continue
		}
		if !a.fits(r) || r.split && start(a) >= r.absent || r.part && start(a) < r.started {
			continue
		}
		switch {
		case a.epoch():
			if start(a) <= v.soonAfter(r.first()) && a.written() >= r.lastSeen-skew &&
				(epoch == nil || overlaps(a) && !overlaps(epoch) || overlaps(a) == overlaps(epoch) && start(a) >= start(epoch)) {
				epoch = a
			}
		case start(a) <= max(v.soonAfter(r.last()), r.started+skew):
			if history == nil || start(a) >= start(history) {
				history = a
			}
		}
	}
	if own, link = epoch, "epoch"; own == nil {
		own, link = history, "last run"
	}
	if last != nil && start(last) > r.lastSeen && (own == nil || start(last) != start(own)) {
		later = last
	}
	switch {
	case own != nil:
		return own, link, later
	case later != nil:
		return nil, "earlier run", later
	case len(ads) > 0:
		return nil, "job only", nil
	}
	return nil, "none", nil
}

// otherBegan reports whether another run of the job began at the start of its first run.
func (v *view) otherBegan(r *run, at int64, ads []ad) bool {
	for _, a := range ads {
		if start, ok := a.date("JobCurrentStartDate"); ok && max(start-at, at-start) <= skew && a.name() != r.own {
			return true
		}
	}
	for _, backfill := range []bool{true, false} {
		for _, shown := range v.shown[backfill] {
			x := new(run)
			*x = *shown
			v.bracket(x)
			same := x.machine == r.machine && backfill == r.backfill && x.first() >= r.begun && x.first() <= r.lasted
			if x.job == r.job && !same && x.first() <= r.first() && at <= v.soonAfter(x.first()) &&
				(x.previous == 0 || at > x.previous-skew) {
				return true
			}
		}
	}
	return false
}

func must(at int64, _ bool) int64 { return at }

// byTime finds the ad of a run without GlobalJobId.
func (v *view) byTime(r *run, backfill bool) (best ad) {
	if r.previous == 0 {
		return nil
	}
	distance := func(a ad) int64 {
		d := must(a.date("JobCurrentStartDate")) - r.seen
		return max(d, -d)
	}
	for _, a := range v.ads {
		start, ok := a.date("JobCurrentStartDate")
		if !ok || !a.fits(r) || v.ofBackfill(a) != backfill || start <= r.previous-skew || start > v.soonAfter(r.first()) {
			continue
		}
		if best == nil || distance(a) < distance(best) || distance(a) == distance(best) && a.epoch() && !best.epoch() {
			best = a
		}
	}
	return best
}
