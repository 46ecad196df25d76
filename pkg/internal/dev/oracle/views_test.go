package oracle

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// leaveOut adds an exclusion of users to a filter, at times: of two, or of all whose names begin alike.
func (a *asker) leaveOut(f *choice, names []string) (keeps func(string) bool) {
	var list []string
	switch a.IntN(4) {
	case 0:
		out := []string{a.one(names), a.one(names)}
		list = []string{"!" + out[0], "!" + out[1]}
		keeps = func(name string) bool { return !slices.Contains(out, name) }
	case 1:
		begin := a.one(names)[:1]
		list = []string{"!/^" + begin + "/"}
		keeps = func(name string) bool { return !strings.HasPrefix(name, begin) }
	default:
		return func(string) bool { return true }
	}
	f.json = strings.TrimSuffix(fmt.Sprintf(`{"users": %s, %s`, quoted(list), strings.TrimPrefix(f.json, "{")), ", ")
	f.json = strings.TrimSuffix(f.json, "}") + "}"
	return keeps
}

// before asks for the period before the next one instead, at times: the answer is the same, unless one of the two is
// covered by less than nine tenths of the hours of the other.
func (c *comparison) before() (list []question) {
	covered := func(json string, from, to int64) (hours float64) {
		if !strings.Contains(json, `"demand"`) {
			return c.hoursCovered(from, to)
		}
		c.queues.known(from, to, func(_ int, a, b int64) { hours += float64(b - a) })
		return hours
	}
	for _, q := range c.questions {
		if !strings.Contains(q.json, `"view": "summary"`) || c.IntN(3) > 0 {
			continue
		}
		then, now := covered(q.json, c.from, c.to), covered(q.json, c.to+1, 2*c.to+1-c.from)
		query := `{"previous": true, ` + q.json[1:]
		list = append(list, question{query, func(frames data.Frames) {
			rows := golden.Rows(frames)
			if min(then, now) == 0 || min(then, now) < 0.9*max(then, now) {
				if len(rows) > 0 {
					c.differ("%s: %d rows, where %v of %v are covered", query, len(rows), now, then)
				}
				return
			}
			n := len(c.differences)
			q.check(frames)
			for i := range c.differences[n:] {
				c.differences[n+i] = "previous: " + c.differences[n+i]
			}
		}})
	}
	return list
}

// part restricts the view to what a filter keeps, while do asks.
func (c *comparison) part(f choice, whose func(string) bool, do func()) {
	asked := c.view.manner
	c.view.keeps, c.view.whose = func(k string, g gpu) bool {
		machine, _, _ := strings.Cut(k, "|")
		return f.gpu(machine, g)
	}, whose
	do()
	c.view.manner = asked
}

// backfill compares backfill availability and evictions by several groupings, and the advice.
func (c *comparison) backfill() {
	by := c.some([]string{"device", "category", "ownership", "machineType", "machine"}, 3)
	of := func(k string, g gpu) string {
		return group(by, func(name string) string { return groupings[name](k, g) })
	}
	f := c.choose(false)
	c.part(f, nil, func() {
		c.figures("backfillAvailability", by, availabilityMetrics, f.json, c.view.availability(of))
		c.advice(f, by, of)
	})
	f = c.choose(false)
	user := c.leaveOut(&f, c.values["users"])
	c.part(f, user, func() {
		all, _, _ := c.view.evictions(of)
		c.figures("evictions", by, evictionMetrics, f.json, all)
	})
}

// jobs compares the jobs that run on backfill, and their order.
func (c *comparison) jobs() {
	f := c.choose(false)
	user := c.leaveOut(&f, c.values["users"])
	of := map[string][]seen{}
	c.part(f, user, func() {
		for _, s := range c.view.runs(c.from, c.to) {
			if s.job != "" {
				of[s.job] = append(of[s.job], s)
			}
		}
	})
	var want []string
	for job, list := range of {
		slices.SortStableFunc(list, func(a, b seen) int { return cmp.Compare(a.started, b.started) })
		name, evictions, yielded, hours, lost := "Unknown", 0.0, 0.0, 0.0, 0.0
		for _, s := range list {
			hours += s.inside
			if s.owner != "Unknown" {
				name = s.owner
			}
			switch s.outcome {
			case "evicted":
				evictions++
				lost += s.held(s.saved, c.from, c.to)
			case "yielded":
				yielded++
			}
		}
		last := list[len(list)-1]
		end := stamp(last.end)
		if last.outcome == "running" {
			end = ""
		}
		want = append(want, fmt.Sprintf("%s|%s|%d|%v|%v|%s|%s|%s|%s|%s", job, name, len(list), evictions, yielded,
			number(hours), number(lost), stamp(list[0].started), end, last.outcome))
	}
	query := text("evictions", "jobs", nil, f.json, "")
	var before map[string]any
	c.lines(query, want, func(r map[string]any) string {
		if before != nil {
			more := before["evictions"].(float64) - r["evictions"].(float64)
			lost := before["lostGpuHours"].(float64) - r["lostGpuHours"].(float64)
			if math.Abs(lost) <= 1e-9 {
				lost = 0
			}
			if more < 0 || more == 0 && (lost < 0 || lost == 0 && before["job"].(string) >= r["job"].(string)) {
				c.differ("%s: %v stands before %v", query, before, r)
			}
		}
		before = r
		return fmt.Sprintf("%s|%s|%v|%v|%v|%s|%s|%s|%s|%s", r["job"], r["user"], r["runs"], r["evictions"], r["yielded"],
			number(r["gpuHours"]), number(r["lostGpuHours"]), at(r["start"]), at(r["end"]), r["outcome"])
	})
}

// advice compares the sentences about how long a job can be (methodology section 15).
func (c *comparison) advice(f choice, by []string, of grouping) {
	v, tenures := c.view, c.view.uncut(true)
	holding := func(r *run, at int64) (found *period) {
		for i := range tenures {
			if p := &tenures[i]; p.machine == r.machine && p.id == r.leader && p.start <= at && at <= p.end &&
				(found == nil || p.start >= found.start) {
				found = p
			}
		}
		return found
	}
	items, saves := map[string][]item{}, map[string][]float64{}
	for _, r := range slices.Concat(v.backfill, v.unseen) {
		if !r.backfill {
			continue
		}
		g, at, known := r.place, r.started, true
		if r.hidden {
			r.leader = r.ids()[0]
		} else {
			first := r.first()
			g = v.attribute[v.snaps[first].at/day][key(r.machine, r.leader)]
			known = r.startTold || r.part || first > 0 && !v.gap(first) && v.snaps[first-1].machines[r.machine]
			if len(r.sights) > 0 {
				at = v.snaps[first].at
			}
		}
		if !f.gpu(r.machine, g) {
			continue
		}
		name := of(key(r.machine, r.leader), g)
		if r.outcome == "evicted" && r.saved > r.started && c.from <= r.ended && r.ended <= c.to {
			saves[name] = append(saves[name], float64(r.ended-r.saved)/float64(hour))
		}
		p := cmp.Or(holding(r, at), holding(r, r.started))
		if !known || p == nil || r.started > c.to || p.end < c.from {
			continue
		}
		items[name] = append(items[name], item{float64(max(0, c.from-r.started)) / float64(hour),
			float64(min(p.end, c.to)-r.started) / float64(hour), p.end <= c.to && p.reason != "gap" && p.reason != "window"})
	}
	var want []string
	for g, list := range items {
		want = append(want, fmt.Sprintf("%s|%s|%d", g, advise(list, saves[g]), len(list)))
	}
	c.lines(text("backfillAvailability", "advice", by, f.json, ""), want, func(r map[string]any) string {
		g := group(by, func(name string) string { return r[name].(string) })
		advice, _, _ := strings.Cut(r["advice"].(string), "; most would have fitted") // the memory of GPUs
		return fmt.Sprintf("%s|%v|%v", g, advice, r["runs"])
	})
}

// advise says how long a job can be.
func advise(items []item, saves []float64) string {
	risk := func(x float64) (n int) {
		for _, it := range items {
			if it.entry < x && x <= it.exit {
				n++
			}
		}
		return n
	}
	length := func(hours float64) string {
		switch minutes := math.Round(hours * 60); {
		case minutes < 1:
			return "< 1 min"
		case minutes < 60:
			return fmt.Sprintf("%v min", minutes)
		}
		return strconv.FormatFloat(math.Round(hours*10)/10, 'f', -1, 64) + " h"
	}
	steps := kaplanMeier(items)
	least := ""
	longest, falls := firstAtMost(steps, 90, true).(float64)
	if !falls {
		least = "At least "
		for _, it := range items {
			if it.exit > longest && risk(it.exit) >= 5 {
				longest = it.exit
			}
		}
	}
	if longest == 0 || risk(longest) < 5 {
		return fmt.Sprintf("Too few runs to tell: %d", len(items))
	}
	said := least + "90% of jobs up to " + length(longest) + " finish"
	best, cost := 0.0, math.Inf(1)
	for _, every := range []float64{0.25, 0.5, 1, 2, 3, 4, 6, 12} {
		until := float64(int64(every*float64(hour))+5*minute) / float64(hour)
		area, x, s := 0.0, 0.0, 1.0
		for _, p := range steps {
			if p.x <= until {
				area += (p.x - x) * s
				x = p.x
				s, _ = p.s.Float64()
			}
		}
		if area += (until - x) * s; risk(until) >= 5 && s > 0 {
			if is := math.Ceil(12/every) * area / s; is < cost*(1-1e-12) {
				best, cost = every, is
			}
		}
	}
	switch {
	case best == 0 || longest >= 12:
		return said
	case best < 12:
		said += "; jobs of 12 h should checkpoint every " + length(best)
	default:
		said += "; checkpoints do not pay for jobs of 12 h"
	}
	if len(saves) >= 5 {
		sum := 0.0
		for _, hours := range saves {
			sum += hours
		}
		said += " (those that do: every " + length(2*sum/float64(len(saves))) + ")"
	}
	return said
}

// edit changes the month files of a pool by SQL.
func edit(t *testing.T, dir string, statements ...string) {
	eachFile(t, dir, snapshotFiles, func(db *sql.DB) {
		for _, s := range statements {
			_, err := db.Exec(s)
			require.NoError(t, err, s)
		}
	})
}
