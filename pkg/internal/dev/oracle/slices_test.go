package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// asking are a pool's records with the settings that answers depend on (methodology sections 4 to 6).
type asking struct {
	*records
	zone    *time.Location // the collector's
	minutes int            // of slices; 0: each snapshot is one
}

// sliceOf is the slice of a snapshot: its name, and its beginning.
func (a *asking) sliceOf(at int64) (name string, begin int64) {
	if a.minutes == 0 {
		return fmt.Sprint(at), at
	}
	local := time.UnixMicro(at).In(a.zone)
	past := time.Duration(local.Minute()%a.minutes)*time.Minute + time.Duration(local.Second())*time.Second +
		time.Duration(local.Nanosecond())
	return local.Add(-past).Format("2006-01-02 15:04 ") + local.Format("-07:00"), at - past.Microseconds()
}

// slot is what a GPU is on one side in a slice.
type slot struct {
	slice                        string
	begin                        int64
	machine, id, category, slots string
	gpu                          gpu
	project, prevented           string
	state                        string
	users                        []string // of a claim
	user, job                    string   // of the row that gives the state of a claim
	free, kept, busy             bool     // kept: prevented; busy: the GPU is claimed on one of the sides
}

var ranks = map[string]int{"Claimed": 4, "Unclaimed": 3, "Drained": 2}

// projectsOf is a sorted list as one value.
func projectsOf(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(words)
	return strings.Join(words, ",")
}

// slots are all GPUs of the slices with a snapshot in [from, to], and the beginnings of these.
func (a *asking) slots(from, to int64) (list []slot, begins map[string]int64) {
	begins = map[string]int64{}
	type place struct{ slice, gpu string }
	rows := map[place][]row{}
	at := map[place][]int64{}
	var order []place
	for _, s := range a.snapshots {
		if s.at < from || s.at > to {
			continue
		}
		name, begin := a.sliceOf(s.at)
		begins[name] = begin
		for _, w := range s.rows {
			p := place{name, key(w.machine, w.gpu)}
			if rows[p] == nil {
				order = append(order, p)
			}
			rows[p], at[p] = append(rows[p], w), append(at[p], s.at)
		}
	}
	for _, p := range order {
		primary, backfill := best(rows[p], false), best(rows[p], true)
		if primary >= 0 && rows[p][primary].state == "Claimed" {
			backfill = -1
		}
		holds := func(i int) bool { return i >= 0 && rows[p][i].state == "Claimed" }
		claimed := holds(primary) || holds(backfill)
		for _, i := range []int{primary, backfill} {
			if i < 0 {
				continue
			}
			w := rows[p][i]
			x := slot{slice: p.slice, begin: begins[p.slice], machine: w.machine, id: w.gpu,
				gpu: a.attribute[at[p][i]/day][p.gpu], project: projectsOf(w.projects), busy: claimed, slots: "Real",
				state: map[int]string{4: "claimed", 3: "unclaimed", 2: "drained"}[ranks[w.state]]}
			switch {
			case w.backfill:
				x.slots, x.category = "Backfill", x.gpu.category()
			case a.chtc[w.machine]:
				x.category = "Prioritized (CHTC Owned)"
			case w.projects != "":
				x.category = "Prioritized (Researcher Owned)"
			default:
				x.category = "Open Capacity"
			}
			if x.state == "claimed" {
				x.user, x.job = w.owner, w.job
				for _, other := range rows[p] {
					if other.backfill == w.backfill && other.state == "Claimed" && !slices.Contains(x.users, other.owner) {
						x.users = append(x.users, other.owner)
					}
				}
			}
			if !claimed && (i == primary || primary < 0) {
				x.kept = w.prevented != ""
				x.free = !x.kept && x.state == "unclaimed"
			}
			x.prevented = w.prevented
			list = append(list, x)
		}
	}
	return list, begins
}

// best is the row of a GPU that gives its state on a side, of equal ones the last; −1: none.
func best(rows []row, backfill bool) (found int) {
	found = -1
	for i, w := range rows {
		if w.backfill == backfill && (found < 0 || ranks[w.state] >= ranks[rows[found].state]) {
			found = i
		}
	}
	return found
}

// hoursCovered is D of [from, to].
func (a *asking) hoursCovered(from, to int64) float64 {
	type stretch struct{ from, to int64 }
	var all []stretch
	for i, s := range a.snapshots {
		last := i+1 == len(a.snapshots)
		switch {
		case a.minutes > 0:
			_, begin := a.sliceOf(s.at)
			all = append(all, stretch{begin, begin + int64(a.minutes)*minute})
		case last:
			all = append(all, stretch{s.at, s.at + a.cadence(s.at/day)})
		default:
			all = append(all, stretch{s.at, min(a.snapshots[i+1].at, s.at+a.limit(s.at))})
		}
		if !last && a.snapshots[i+1].at-s.at <= a.limit(s.at) {
			all = append(all, stretch{s.at, a.snapshots[i+1].at})
		}
	}
	slices.SortFunc(all, func(x, y stretch) int { return cmp.Compare(x.from, y.from) })
	sum, end := int64(0), from
	for _, x := range all {
		begin := max(x.from, end)
		if stop := min(x.to, to); stop > begin {
			sum += stop - begin
			end = stop
		}
	}
	return float64(sum) / float64(hour)
}

// calendar are the beginnings of the buckets that a window touches, and the end of the last one.
type calendar []int64

// bucketsOf finds the buckets of a window minute by minute: one begins where the wall clock shows its beginning, or
// jumps over it (methodology section 5).
func bucketsOf(name string, zone *time.Location, from, to int64) (c calendar) {
	if name == "window" {
		return calendar{from, to + 1}
	}
	minutes := map[string]int{"5m": 5, "10m": 10, "15m": 15, "30m": 30, "1h": 60}[name]
	label := func(at int64) string {
		w := time.UnixMicro(at).In(zone)
		switch name {
		case "3h", "6h", "12h":
			hours := map[string]int{"3h": 3, "6h": 6, "12h": 12}[name]
			return w.Format("2006-01-02 ") + string(rune('A'+w.Hour()/hours))
		case "1d":
			return w.Format(time.DateOnly)
		case "1w":
			return w.AddDate(0, 0, -(int(w.Weekday())+6)%7).Format(time.DateOnly)
		}
		return ""
	}
	wall := func(at int64) int {
		w := time.UnixMicro(at).In(zone)
		return (w.YearDay()*24+w.Hour())*60 + w.Minute()
	}
	begun := map[string]bool{}
	back := map[string]int64{"1w": 8 * day, "1d": 27 * hour, "12h": 15 * hour, "6h": 9 * hour, "3h": 6 * hour}[name]
	if back == 0 {
		back = 3 * hour
	}
	start := (from/minute)*minute - back
	begun[label(start)] = true
	for at := start + minute; ; at += minute {
		begins := false
		if minutes > 0 {
			now, before := wall(at), wall(at-minute)
			begins = now%minutes == 0 || now > before+1 && now/minutes > before/minutes
		} else if l := label(at); !begun[l] { // else the clock was set back over the boundary
			begins, begun[l] = true, true
		}
		if begins {
			if at <= from {
				c = c[:0]
			}
			c = append(c, at)
			if at > to {
				return c
			}
		}
	}
}

// of is the beginning of the bucket that holds t; of the first one where that lies before.
func (c calendar) of(t int64) int64 {
	for i := len(c) - 2; i > 0; i-- {
		if c[i] <= t {
			return c[i]
		}
	}
	return c[0]
}

// each calls do with each bucket, as far as it lies in [from, to].
func (c calendar) each(from, to int64, do func(start, a, b int64)) {
	for i := range len(c) - 1 {
		do(c[i], max(c[i], from), min(c[i+1], to))
	}
}

// memoryClass is a GPU's memory in the words of groups.
func memoryClass(mib float64) string {
	switch gib := mib / 1024; {
	case mib < 0:
		return "Unknown"
	case gib < 44:
		return "<48GB"
	case gib <= 50:
		return "48GB"
	case gib >= 75 && gib <= 85:
		return "80GB"
	case gib > 85:
		return ">80GB"
	}
	return "Other"
}

// by is a slot's value of a grouping.
func (x *slot) by(grouping string) string {
	return map[string]string{"category": x.category, "slots": x.slots, "device": x.gpu.device,
		"memory": memoryClass(x.gpu.memory), "machine": x.machine, "ownership": x.gpu.ownership,
		"project": x.project}[grouping]
}

func group(by []string, of func(string) string) string {
	var parts []string
	for _, g := range by {
		parts = append(parts, of(g))
	}
	return strings.Join(parts, "|")
}

// allocationFigures are the figures of allocation by bucket.
func (a *asking) allocationFigures(by []string, keeps func(*slot) bool, c calendar, from, to int64) map[cell]float64 {
	list, begins := a.slots(from, to)
	n := map[int64]float64{}
	for _, begin := range begins {
		n[c.of(begin)]++
	}
	sums, groups := map[cell]float64{}, map[string]bool{}
	for i := range list {
		x := &list[i]
		if !keeps(x) {
			continue
		}
		g, b := group(by, x.by), c.of(x.begin)
		groups[g] = true
		sums[cell{g, x.state, b}]++
		if x.free {
			sums[cell{g, "free", b}]++
		}
		if x.kept {
			sums[cell{g, "prevented", b}]++
		}
	}
	points := map[cell]float64{}
	for g := range groups {
		for b, n := range n {
			sum := func(name string) float64 { return sums[cell{g, name, b}] }
			available := sum("claimed") + sum("unclaimed")
			points[cell{g, "allocated", b}], points[cell{g, "available", b}] = sum("claimed")/n, available/n
			for _, name := range []string{"unclaimed", "drained", "free", "prevented"} {
				points[cell{g, name, b}] = sum(name) / n
			}
			points[cell{g, "allocatedPercent", b}] = 100 * sum("claimed") / available
		}
	}
	return points
}

// userFigures are the GPU hours of users by bucket.
func (a *asking) userFigures(by []string, keeps func(*slot) bool, user func(string) bool, c calendar, from,
	to int64) map[cell]float64 {
	list, begins := a.slots(from, to)
	n, hours, points := map[int64]float64{}, map[int64]float64{}, map[cell]float64{}
	for _, begin := range begins {
		n[c.of(begin)]++
	}
	c.each(from, to, func(start, x, y int64) { hours[start] = a.hoursCovered(x, y) })
	for i := range list {
		x := &list[i]
		if !keeps(x) {
			continue
		}
		for _, u := range x.users {
			if user(u) {
				g := group(by, func(name string) string {
					if name == "user" {
						return u
					}
					return x.by(name)
				})
				b := c.of(x.begin)
				points[cell{g, "gpuHours", b}] += hours[b] / n[b] / float64(len(x.users))
			}
		}
	}
	return points
}

// nan reports whether a figure is none.
func nan(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }

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
