package oracle

import (
	"math"
	"slices"
)

// held is a run with what its GPUs did (methodology section 13).
type usedRun struct {
	*run
	view              *view
	gpu               gpu
	category, project string
	until             int64
	times             []int64   // sightings: the run's start, then snapshots with a usage
	busy              []float64 // busy GPU time up to each, µs
	usage             []float64
}

// usedRuns are the runs on both sides that overlap the window.
func (v *view) usedRuns(a *asking) (list []*usedRun) {
	for _, r := range slices.Concat(v.backfill, v.primary) {
		u := &usedRun{run: r, view: v, until: r.ended}
		if r.running {
			u.until = v.to
			if last := v.snaps[len(v.snaps)-1].at; v.to-last > v.limit(last) {
				u.until = last
			}
			u.until = max(u.until, r.started)
		}
		u.until = min(u.until, v.to)
		if r.started > v.to || u.until < v.from {
			continue
		}
		s := v.snaps[r.first()]
		u.gpu = v.attribute[s.at/day][key(r.machine, r.leader)]
		best := row{}
		for _, w := range s.of[key(r.machine, r.leader)] {
			if w.backfill == r.backfill && ranks[w.state] >= ranks[best.state] {
				best = w
			}
		}
		u.project = projectsOf(best.projects)
		switch {
		case r.backfill:
			u.category = u.gpu.category()
		case a.chtc[r.machine]:
			u.category = "Prioritized (CHTC Owned)"
		case u.project != "":
			u.category = "Prioritized (Researcher Owned)"
		default:
			u.category = "Open Capacity"
		}
		u.sight()
		list = append(list, u)
	}
	return list
}

// sight finds the run's sightings.
func (u *usedRun) sight() {
	u.times, u.busy, u.usage = []int64{u.started}, []float64{0}, []float64{0}
	for _, i := range u.sights {
		s, found := u.view.snaps[i], -1.0
		for _, id := range u.ids() {
			for _, w := range s.of[key(u.machine, id)] {
				if w.backfill == u.backfill && w.state == "Claimed" && w.job == u.job && (u.job != "" || w.owner == u.owner) &&
					w.usage >= 0 {
					found = w.usage
				}
			}
		}
		if found >= 0 && s.at > u.started {
			found = min(found, float64(len(u.gpus)))
			u.times, u.usage = append(u.times, s.at), append(u.usage, found)
			u.busy = append(u.busy, found*float64(s.at-u.started))
		}
	}
}

func (u *usedRun) gapBetween(a, b int64) bool {
	v := u.view
	for i := 1; i < len(v.snaps); i++ {
		if v.gap(i) && a <= v.snaps[i-1].at && v.snaps[i].at <= b {
			return true
		}
	}
	return false
}

// stretches are the idle ones, of the sightings up to a time.
func (u *usedRun) stretches(known int64) (list [][2]int64) {
	n := float64(len(u.gpus))
	for i := range u.times {
		for j := i + 1; j < len(u.times) && u.times[j] <= known; j++ {
			if u.times[j]-u.times[i] < 29*minute+30*second {
				continue
			}
			if length := float64(u.times[j] - u.times[i]); !u.gapBetween(u.times[i], u.times[j]) &&
				u.busy[j]-u.busy[i]-300e6*u.usage[j] < 0.01*n*length {
				if k := len(list) - 1; k >= 0 && u.times[i] <= list[k][1] {
					list[k][1] = max(list[k][1], u.times[j])
				} else {
					list = append(list, [2]int64{u.times[i], u.times[j]})
				}
			}
			break
		}
	}
	return list
}

// amounts are GPU hours.
type amounts struct{ held, measured, busy, idle float64 }

func (a *amounts) add(b amounts) {
	a.held, a.measured, a.busy, a.idle = a.held+b.held, a.measured+b.measured, a.busy+b.busy, a.idle+b.idle
}

func (a amounts) percent(of float64) float64 {
	if a.measured < 1-1e-9 {
		return math.NaN()
	}
	return 100 * of / a.measured
}

// within is what the run's GPUs did in [from, to].
func (u *usedRun) within(from, to int64) (a amounts) {
	n := float64(len(u.gpus))
	part := func(x, y int64) float64 {
		return max(0, float64(min(y, u.until, to)-max(x, u.started, from)))
	}
	a.held = n * part(u.started, u.until)
	for i := 1; i < len(u.times); i++ {
		if u.gapBetween(u.times[i-1], u.times[i]) {
			continue
		}
		length, inside := float64(u.times[i]-u.times[i-1]), part(u.times[i-1], u.times[i])
		a.measured += n * inside
		a.busy += max(0, min(n*length, u.busy[i]-u.busy[i-1])) * inside / length
	}
	for _, s := range u.stretches(math.MaxInt64) {
		a.idle += n * part(s[0], s[1])
	}
	for _, x := range []*float64{&a.held, &a.measured, &a.busy, &a.idle} {
		*x /= float64(hour)
	}
	return a
}

// idleSince is since when the run is idle at the window's newest snapshot; 0: it is not.
func (u *usedRun) idleSince() int64 {
	now := -1
	for i, s := range u.view.snaps {
		if s.at <= u.view.to && s.at >= u.view.from {
			now = i
		}
	}
	if now < 0 || u.first() > now || u.last() < now {
		return 0
	}
	at := u.view.snaps[now].at
	last := u.started
	for _, t := range u.times {
		if t <= at {
			last = t
		}
	}
	list := u.stretches(at)
	if len(list) == 0 {
		return 0
	}
	s := list[len(list)-1]
	if s[1] != last || at-last > 30*minute || s[1]-s[0] < 2*hour {
		return 0
	}
	return s[0]
}

func (u *usedRun) by(grouping string) string {
	return map[string]string{"category": u.category, "device": u.gpu.device, "memory": memoryClass(u.gpu.memory),
		"machine": u.machine, "ownership": u.gpu.ownership, "project": u.project, "user": u.owner}[grouping]
}

// usageFigures are the figures of utilization in the window.
func usageFigures(list []*usedRun, by []string, from, to int64) map[cell]float64 {
	sums, counts, groups := map[string]*amounts{}, map[cell]float64{}, map[string]bool{}
	measured := false
	for _, u := range list {
		g := group(by, u.by)
		if groups[g] = true; sums[g] == nil {
			sums[g] = &amounts{}
		}
		a := u.within(from, to)
		sums[g].add(a)
		measured = measured || a.measured > 0
		counts[cell{g, "runs", 0}]++
		if a.idle > 0 {
			counts[cell{g, "idleRuns", 0}]++
		}
		if u.idleSince() != 0 {
			counts[cell{g, "idleNow", 0}] += float64(len(u.gpus))
		}
	}
	points := map[cell]float64{}
	for g := range groups {
		a := sums[g]
		points[cell{g, "heldGpuHours", 0}] = a.held
		points[cell{g, "measuredPercent", 0}] = 100 * a.measured / a.held
		points[cell{g, "utilizationPercent", 0}] = a.percent(a.busy)
		points[cell{g, "idlePercent", 0}] = a.percent(a.idle)
		points[cell{g, "busyGpuHours", 0}], points[cell{g, "idleGpuHours", 0}] = a.busy, a.idle
		for _, name := range []string{"runs", "idleRuns", "idleNow"} {
			points[cell{g, name, 0}] = counts[cell{g, name, 0}]
		}
		if !measured {
			for _, name := range []string{"busyGpuHours", "idleGpuHours", "idleRuns", "idleNow"} {
				points[cell{g, name, 0}] = math.NaN()
			}
		}
	}
	return points
}

// usageSeries are the figures by bucket, of buckets with a slice of whose covered time at least half lies before the
// newest snapshot: behind it nothing is measured yet.
func (a *asking) usageSeries(list []*usedRun, by []string, c calendar, from, to int64) map[cell]float64 {
	points, sums := map[cell]float64{}, map[cell]*amounts{}
	_, begins := a.slots(from, to)
	there := map[int64]bool{}
	for _, begin := range begins {
		there[c.of(begin)] = true
	}
	newest := a.snapshots[len(a.snapshots)-1].at
	c.each(from, to, func(start, x, y int64) {
		hours := a.hoursCovered(x, y)
		if !there[start] || 2*a.hoursCovered(x, min(y, newest)) < hours {
			return
		}
		for _, u := range list {
			k := cell{group(by, u.by), "", start}
			if sums[k] == nil {
				sums[k] = &amounts{}
			}
			sums[k].add(u.within(x, y))
		}
		for k, s := range sums {
			if k.at == start {
				points[cell{k.group, "busy", start}], points[cell{k.group, "idle", start}] = s.busy/hours, s.idle/hours
				points[cell{k.group, "utilizationPercent", start}] = s.percent(s.busy)
			}
		}
	})
	return points
}
