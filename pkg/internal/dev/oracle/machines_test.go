package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// shown is what each GPU is at a snapshot, by machine|GPU: on the side that holds it, or else on primary.
func (a *asking) shown(s *snapshot) map[string]slot {
	if found, known := a.seen[s.at]; known {
		return found
	}
	alone := &asking{&records{snapshots: []snapshot{*s}, chtc: a.chtc, attribute: a.attribute}, a.zone, 0}
	list, _ := alone.slots(s.at, s.at)
	found := map[string]slot{}
	a.seen[s.at] = found
	for _, x := range list { // primary before backfill
		if _, there := found[key(x.machine, x.id)]; !there || x.state == "claimed" {
			found[key(x.machine, x.id)] = x
		}
	}
	return found
}

// states are the numbers of what a GPU can be.
var states = []string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"}

func (x *slot) word() string {
	switch {
	case x.state == "claimed" && x.slots == "Backfill":
		return "Backfill"
	case x.state == "claimed":
		return "Claimed"
	case x.prevented != "":
		return "Prevented"
	}
	if word, known := map[string]string{"unclaimed": "Free", "drained": "Drained"}[x.state]; known {
		return word
	}
	return "Other"
}

// newest is the newest snapshot up to the window's end; −1: none.
func (c *comparison) newest() int {
	newest := -1
	for i, s := range c.asking.snapshots {
		if s.at <= c.to {
			newest = i
		}
	}
	return newest
}

// gapAfter reports whether a gap follows a snapshot.
func (a *asking) gapAfter(i int) bool {
	return i+1 < len(a.snapshots) && a.snapshots[i+1].at-a.snapshots[i].at > a.limit(a.snapshots[i].at)
}

// current compares what GPUs are now, and since when.
func (c *comparison) current() {
	f := c.choose(true)
	newest := c.newest()
	var want []string
	if newest >= 0 {
		now := c.asking.snapshots[newest].at
		for k, x := range c.asking.shown(&c.asking.snapshots[newest]) {
			if !f.gpu(x.machine, x.gpu) || !f.slot(x.category, x.slots, x.project) {
				continue
			}
			since := newest
			for i := newest - 1; i >= 0 && !c.asking.gapAfter(i); i-- {
				y, there := c.asking.shown(&c.asking.snapshots[i])[k]
				if !there || y.word() != x.word() || y.user != x.user || y.job != x.job {
					break
				}
				since = i
			}
			at := c.asking.snapshots[since].at
			want = append(want, fmt.Sprintf("%s|%s|%s|%s|%s|%s|%s|%s", k, x.gpu.device, x.category, x.word(), x.user, x.job,
				stamp(at), number(float64(now-at)/float64(hour))))
		}
	}
	c.lines(text("allocation", "current", nil, f.json, ""), want, func(r map[string]any) string {
		return fmt.Sprintf("%v|%v|%v|%v|%v|%v|%v|%s|%s", r["machine"], r["gpu"], r["device"], r["category"], r["state"],
			r["user"], r["job"], at(r["since"]), number(r["hours"]))
	})
}

// states compares the state timeline at each snapshot of the window, and in the gaps.
func (c *comparison) states() {
	f := c.choose(true)
	query := text("allocation", "stateTimeline", nil, f.json, "")
	c.questions = append(c.questions, question{query, func(frames data.Frames) {
		value := func(f *data.Frame, at int64) string { // in force at a time
			state := "none"
			for i := range f.Fields[0].Len() {
				if f.Fields[0].At(i).(time.Time).UnixMicro() > at {
					break
				}
				state = "none"
				if number, is := f.Fields[1].ConcreteAt(i); is {
					state = states[number.(int8)]
				}
			}
			return state
		}
		drawn := map[string]*data.Frame{}
		for _, f := range frames {
			if len(f.Fields) > 0 {
				drawn[key(f.Fields[1].Labels["machine"], f.Fields[1].Labels["gpu"])] = f
			}
		}
		for i, s := range c.asking.snapshots {
			if s.at < c.from || s.at > c.to {
				continue
			}
			said := map[string]string{}
			for k, x := range c.asking.shown(&c.asking.snapshots[i]) {
				if f.gpu(x.machine, x.gpu) && f.slot(x.category, x.slots, x.project) {
					if said[k] = x.word(); drawn[k] == nil {
						c.differ("%s: no states of %s", query, k)
					}
				}
			}
			for k, f := range drawn {
				want, is := said[k]
				if !is {
					want = "none"
				}
				if got := value(f, s.at); got != want {
					c.differ("%s: %s at %s is %s, the product says %s", query, k, stamp(s.at), want, got)
				}
				if end := s.at + c.asking.limit(s.at); c.asking.gapAfter(i) && end < c.to && value(f, end) != "none" {
					c.differ("%s: %s has a state in the gap after %s", query, k, stamp(s.at))
				}
			}
		}
	}})
}

// machines compares the figures of machines in the window.
func (c *comparison) machines() {
	type of struct {
		gpus, devices                           map[string]bool
		allocated, available, backfill, drained float64
		seen                                    int64
		reasons                                 map[string]int64 // the last snapshot with each
	}
	machines := map[string]*of{}
	here := func(name string) *of {
		if machines[name] == nil {
			machines[name] = &of{gpus: map[string]bool{}, devices: map[string]bool{}, reasons: map[string]int64{}}
		}
		return machines[name]
	}
	for _, s := range c.asking.snapshots {
		if s.at < c.from || s.at > c.to {
			continue
		}
		for k, rows := range s.of {
			name, _, _ := strings.Cut(k, "|")
			m := here(name)
			m.gpus[k], m.devices[c.asking.attribute[s.at/day][k].device] = true, true
			for _, side := range []bool{false, true} {
				if i := best(rows, side); i >= 0 && rows[i].prevented != "" {
					m.reasons[rows[i].prevented] = s.at
				}
			}
		}
		for name := range s.machines {
			if m := machines[name]; m != nil {
				m.seen = s.at
			}
		}
	}
	list, begins := c.slots(c.from, c.to)
	for _, x := range list {
		m := here(x.machine)
		switch {
		case x.slots == "Backfill":
			if x.state == "claimed" {
				m.backfill++
			}
		case x.state == "claimed":
			m.allocated++
			m.available++
		case x.state == "unclaimed":
			m.available++
		case x.state == "drained":
			m.drained++
		}
	}
	n, hours := float64(len(begins)), c.hoursCovered(c.from, c.to)
	var want []string
	for name, m := range machines {
		percent := any(nil)
		if m.available > 0 {
			percent = 100 * m.allocated / m.available
		}
		want = append(want, fmt.Sprintf("%s|%d|%s|%s|%s|%s|%s|%s|%s|%s", name, len(m.gpus), number(m.allocated/n),
			number(m.backfill/n), number(m.drained/n), number(percent), number(m.drained/n*hours), stamp(m.seen),
			strings.Join(slices.Sorted(maps.Keys(m.devices)), ", "), reasonsOf(m.reasons, m.seen)))
	}
	c.lines(text("allocation", "machines", nil, "", ""), want, func(r map[string]any) string {
		if r["excludedReason"] != "" {
			return ""
		}
		return fmt.Sprintf("%v|%v|%s|%s|%s|%s|%s|%s|%v|%v %v %v", r["machine"], r["gpus"], number(r["allocated"]),
			number(r["backfillAllocated"]), number(r["drained"]), number(r["allocatedPercent"]), number(r["drainedGpuHours"]),
			at(r["lastSeen"]), r["devices"], r["preventState"], at(r["preventLastSeen"]), r["preventReasons"])
	})
	q := &c.questions[len(c.questions)-1]
	check := q.check
	q.check = func(frames data.Frames) { // excluded machines have no figures
		for _, r := range golden.Rows(frames) {
			if (r["excludedReason"] != "") != (r["gpus"] == nil) {
				c.differ("%s: %v", q.json, r)
			}
		}
		check(frames)
	}
}

// reasonsOf are the reasons that a machine's GPUs gave: whether one is in force, when one was last, and those in force
// before the lifted ones, of which the latest comes first.
func reasonsOf(last map[string]int64, seen int64) string {
	state, newest := "", int64(0)
	var active, lifted []string
	for reason, at := range last {
		if newest = max(newest, at); at == seen {
			active = append(active, reason)
		} else {
			lifted = append(lifted, reason)
		}
	}
	slices.Sort(active)
	slices.SortFunc(lifted, func(a, b string) int {
		if last[a] != last[b] {
			return int(last[b] - last[a])
		}
		return strings.Compare(a, b)
	})
	switch {
	case len(active) > 0:
		state = "active"
		for i := range lifted {
			lifted[i] += " (lifted)"
		}
	case len(lifted) > 0:
		state = "lifted"
	}
	at := ""
	if newest > 0 {
		at = stamp(newest)
	}
	return state + " " + at + " " + strings.Join(append(active, lifted...), "; ")
}

// health compares coverage, the GPUs that are there and those that are not, and the gaps.
func (c *comparison) health() {
	newest := c.newest()
	if newest < 0 || c.to == c.from {
		return
	}
	lost := map[string]bool{}
	for i, s := range c.asking.snapshots[:newest] {
		for k := range c.asking.snapshots[i].of {
			if _, there := c.asking.snapshots[newest].of[k]; !there && s.at >= c.asking.snapshots[newest].at-day {
				lost[k] = true
			}
		}
	}
	line := func(coverage, seen, lost any) string {
		return number(coverage) + "|" + number(seen) + "|" + number(lost)
	}
	coverage := 100 * c.hoursCovered(c.from, c.to) / (float64(c.to-c.from) / float64(hour))
	want := []string{line(coverage, float64(len(c.asking.snapshots[newest].of)), float64(len(lost)))}
	c.lines(text("allocation", "health", nil, "", ""), want, func(r map[string]any) string {
		return line(r["coveragePercent"], r["gpusSeen"], r["gpusLost"])
	})
	var gaps []string
	for i := range c.asking.snapshots {
		if s := c.asking.snapshots[i].at; c.asking.gapAfter(i) && c.asking.snapshots[i+1].at > c.from && s < c.to {
			gaps = append(gaps, stamp(s)+" "+stamp(c.asking.snapshots[i+1].at))
		}
	}
	c.lines(text("allocation", "annotations", nil, "", ""), gaps, func(r map[string]any) string {
		return at(r["time"]) + " " + at(r["timeEnd"])
	})
}

// changes compares the GPUs that the newest snapshot shows with those of the day before the window, the drains, and the
// users with those of the week before (methodology section 5).
func (c *comparison) changes() {
	f := c.choose(false)
	type sight struct {
		first, last, turned int64
		drained             bool
	}
	look := func(from, to int64) (gpus map[string]sight, machines map[string]bool, newest *snapshot) {
		gpus, machines = map[string]sight{}, map[string]bool{}
		for i := range c.asking.snapshots {
			s := &c.asking.snapshots[i]
			if s.at < from || s.at > to {
				continue
			}
			newest = s
			for k, x := range c.asking.shown(s) {
				g, known := gpus[k]
				if !known {
					g.first = s.at
				}
				if is := x.word() == "Drained"; !known || is != g.drained {
					g.drained, g.turned = is, s.at
				}
				g.last = s.at
				gpus[k] = g
			}
			maps.Copy(machines, s.machines)
		}
		return gpus, machines, newest
	}
	holders := func(from, to int64) (first map[string]int64, gpus map[string]map[string]bool) {
		first, gpus = map[string]int64{}, map[string]map[string]bool{}
		for i := range c.asking.snapshots {
			s := &c.asking.snapshots[i]
			if s.at < from || s.at > to {
				continue
			}
			for k, x := range c.asking.shown(s) {
				if x.user == "" || x.user == "Unknown" || !f.gpu(x.machine, x.gpu) {
					continue
				}
				if gpus[x.user] == nil {
					first[x.user], gpus[x.user] = s.at, map[string]bool{}
				}
				gpus[x.user][k] = true
			}
		}
		return first, gpus
	}
	type row struct{ machine, device, user, change string }
	count, since := map[row]int{}, map[row]int64{}
	add := func(k, change, whole string, is bool, at, on int64) {
		machine, _, _ := strings.Cut(k, "|")
		g := c.asking.attribute[on/day][k]
		if !f.gpu(machine, g) {
			return
		}
		if is {
			change = whole
		}
		r := row{machine: machine, device: g.device, change: change}
		count[r]++
		since[r] = max(since[r], at)
	}
	earlier, machines, _ := look(c.from-day, c.from-1)
	later, _, now := look(c.from, c.to)
	if now != nil && len(machines) > 0 {
		for k, g := range later {
			machine, _, _ := strings.Cut(k, "|")
			before, known := earlier[k]
			switch {
			case g.last != now.at:
			case !known:
				add(k, "New GPUs", "New machine", !machines[machine], g.first, now.at)
			case g.drained && !before.drained:
				add(k, "Drain began", "", false, g.turned, now.at)
			case !g.drained && before.drained:
				add(k, "Drain ended", "", false, g.turned, now.at)
			}
		}
		for k, g := range earlier {
			if again, there := later[k]; there {
				g = again
			}
			if machine, _, _ := strings.Cut(k, "|"); g.last != now.at {
				add(k, "GPUs gone", "Machine gone", !now.machines[machine], g.last, g.last)
			}
		}
		before, _ := holders(c.from-7*day, c.from-1)
		first, gpus := holders(c.from, c.to)
		for user, at := range first {
			if _, known := before[user]; !known {
				r := row{user: user, change: "New user"}
				count[r], since[r] = len(gpus[user]), at
			}
		}
	}
	var want []string
	for r, n := range count {
		want = append(want, fmt.Sprintf("%s|%s|%s|%s|%d|%s", r.machine, r.device, r.user, r.change, n, stamp(since[r])))
	}
	c.lines(text("allocation", "changes", nil, f.json, ""), want, func(r map[string]any) string {
		return fmt.Sprintf("%v|%v|%v|%v|%v|%s", r["machine"], r["device"], r["user"], r["change"], r["gpus"], at(r["since"]))
	})
}
