package oracle

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
)

// cell names a point: its group, metric and bucket.
type cell struct {
	group, metric string
	at            int64
}

// availabilitySeries are the points of backfill availability in buckets of a length.
func (v *view) availabilitySeries(group grouping, c calendar) map[cell]float64 {
	snapshots, counts, ended := map[int64]float64{}, map[cell]float64{}, map[cell]float64{}
	groups := map[string]bool{}
	for _, s := range v.snaps {
		if v.from <= s.at && s.at <= v.to {
			snapshots[c.of(v.begin(s.at))]++
		}
	}
	for _, k := range v.poolGPUs() {
		for i, x := range v.states(k) {
			if at := v.snaps[i].at; v.from <= at && at <= v.to && !x.out && v.keep(k, v.attribute[at/day][k]) {
				g := group(k, v.attribute[at/day][k])
				groups[g] = true
				counts[cell{g, x.state, c.of(v.begin(at))}]++
			}
		}
	}
	buckets := map[int64]bool{}
	for b := range snapshots {
		buckets[b] = true
	}
	for _, p := range v.periods(false) {
		g := group(key(p.machine, p.id), p.gpu)
		groups[g] = true
		if !p.unknownFrom && !p.leftTruncated && !p.censored {
			b := c.of(p.end)
			ended[cell{g, "ended", b}]++
			ended[cell{g, "hours", b}] += p.hours()
			buckets[b] = true
		}
	}
	points := map[cell]float64{}
	for g := range groups {
		for b := range buckets {
			n, e := snapshots[b], ended[cell{g, "ended", b}]
			if n == 0 && e == 0 { // the bucket of another group's end
				continue
			}
			points[cell{g, "ended", b}] = e
			points[cell{g, "meanHours", b}] = ended[cell{g, "hours", b}] / e
			for _, state := range []string{"available", "used", "taken"} {
				points[cell{g, state, b}] = counts[cell{g, state, b}] / n
			}
			used, free := counts[cell{g, "used", b}], counts[cell{g, "available", b}]
			points[cell{g, "usedPercent", b}] = 100 * used / (used + free)
		}
	}
	return points
}

// evictionSeries are the points of evictions in buckets of a length.
func (v *view) evictionSeries(group grouping, c calendar) map[cell]float64 {
	buckets := map[int64]bool{}
	for _, s := range v.snaps {
		if v.from <= s.at && s.at <= v.to {
			buckets[c.of(v.begin(s.at))] = true
		}
	}
	sums := map[cell]float64{}
	groups, evicted := map[string]bool{}, map[cell]bool{}
	for _, s := range v.runs(v.from, v.to) {
		g := group(key(s.machine, s.ids()[0]), s.gpu)
		groups[g] = true
		for i, b := range c[:len(c)-1] {
			end := c[i+1]
			if s.started >= end || s.end < b {
				continue
			}
			hours := float64(max(0, min(s.end, end)-max(s.started, v.from, b))) / float64(hour) * float64(len(s.gpus))
			sums[cell{g, "runs", b}]++
			sums[cell{g, "hours", b}] += hours
			if s.outcome == "evicted" {
				sums[cell{g, "lostGpuHours", b}] += s.held(s.saved, max(v.from, b), end)
				sums[cell{g, "evictedGpuHours", b}] += hours
			}
		}
		if s.outcome == "evicted" {
			b := c.of(s.end)
			sums[cell{g, "evictions", b}]++
			evicted[cell{g, "", b}] = true
		}
		if s.outcome == "yielded" {
			sums[cell{g, "yielded", c.of(s.end)}]++
			evicted[cell{g, "", c.of(s.end)}] = true
		}
	}
	points := map[cell]float64{}
	for g := range groups {
		for _, b := range c[:len(c)-1] {
			if !buckets[b] && !evicted[cell{g, "", b}] {
				continue
			}
			for _, metric := range []string{"evictions", "lostGpuHours", "runs", "yielded", "evictedGpuHours"} {
				points[cell{g, metric, b}] = sums[cell{g, metric, b}]
			}
			points[cell{g, "ratePer100GpuHours", b}] = math.NaN()
			if hours := sums[cell{g, "hours", b}]; hours >= 1-1e-9 {
				points[cell{g, "ratePer100GpuHours", b}] = 100 * sums[cell{g, "evictions", b}] / hours
			}
		}
	}
	return points
}

// weekly are the figures by weekday (0 = Monday) and hour of a zone whose offset is whole hours, by metric.
func (v *view) weekly(zone *time.Location) map[string]map[[2]int]float64 {
	at := func(t int64) [2]int {
		local := time.UnixMicro(t).In(zone)
		return [2]int{(int(local.Weekday()) + 6) % 7, local.Hour()}
	}
	sums := map[string]map[[2]int]float64{}
	for _, name := range []string{"snapshots", "used", "available", "evictions", "hours"} {
		sums[name] = map[[2]int]float64{}
	}
	seen := map[[2]int]bool{}
	for _, s := range v.snaps {
		if v.from <= s.at && s.at <= v.to {
			sums["snapshots"][at(max(v.begin(s.at), v.from))]++
			seen[at(max(v.begin(s.at), v.from))] = true
		}
	}
	for _, k := range v.poolGPUs() {
		for i, x := range v.states(k) {
			if t := v.snaps[i].at; v.from <= t && t <= v.to && !x.out && sums[x.state] != nil &&
				v.keep(k, v.attribute[t/day][k]) {
				sums[x.state][at(max(v.begin(t), v.from))]++
			}
		}
	}
	for _, s := range v.runs(v.from, v.to) {
		for b := v.from / hour * hour; b <= v.to; b += hour {
			sums["hours"][at(b)] += float64(max(0, min(s.end, b+hour)-max(s.started, v.from,
				b))) / float64(hour) * float64(len(s.gpus))
		}
		if s.outcome == "evicted" {
			sums["evictions"][at(s.end)]++
			seen[at(s.end)] = true
		}
	}
	figures := map[string]map[[2]int]float64{"available": {}, "usedPercent": {}, "evictions": {}, "ratePer100GpuHours": {}}
	for day := range 7 {
		for h := range 24 {
			c := [2]int{day, h}
			figures["available"][c] = sums["available"][c] / sums["snapshots"][c]
			figures["usedPercent"][c] = 100 * sums["used"][c] / (sums["used"][c] + sums["available"][c])
			figures["ratePer100GpuHours"][c] = 100 * sums["evictions"][c] / sums["hours"][c]
			if sums["hours"][c] < 1-1e-9 { // a sum of hours
				figures["ratePer100GpuHours"][c] = math.NaN()
			}
			figures["evictions"][c] = sums["evictions"][c]
			if !seen[c] {
				figures["evictions"][c] = math.NaN()
			}
		}
	}
	return figures
}

// competitor is an item of a curve, and whether something else than the event ended it.
type competitor struct {
	item
	other bool
}

// drawn is a curve's steps by age, over the range in which at least five are at risk; nil if there is none.
func drawn(items []competitor) (steps map[float64][2]float64, from, until float64) {
	ages := []float64{0}
	for _, it := range items {
		ages = append(ages, it.entry, it.exit)
	}
	slices.Sort(ages)
	from, until = -1, -1
	for _, x := range ages {
		risk := 0
		for _, it := range items {
			if it.entry <= x && x < it.exit {
				risk++
			}
		}
		switch {
		case from < 0 && risk >= 5:
			from = x
		case from >= 0 && until < 0 && risk < 5:
			until = x
		}
	}
	if from < 0 {
		return nil, 0, 0
	}
	steps = map[float64][2]float64{}
	free, incidence := 1.0, 0.0
	for _, x := range slices.Compact(ages) {
		if x <= from || x > until {
			continue
		}
		risk, events, others := 0.0, 0.0, 0.0
		for _, it := range items {
			if max(it.entry, from) < x && x <= it.exit {
				risk++
				if it.exit == x && it.event {
					events++
				} else if it.exit == x && it.other {
					others++
				}
			}
		}
		incidence += free * events / risk
		free *= 1 - (events+others)/risk
		if events > 0 {
			steps[x] = [2]float64{1 - incidence, risk}
		}
	}
	return steps, from, until
}

// tenureItems and runItems are what the curves are drawn of.
func (v *view) tenureItems() (items []competitor) {
	for _, it := range v.items(v.periods(true), func(p period) bool { return !p.censored }) {
		items = append(items, competitor{it, false})
	}
	return items
}

func (v *view) runItems() (items []competitor) {
	if v.tooFewLinks() {
		return nil
	}
	for _, s := range v.runs(v.from, v.to) {
		it := item{max(0, float64(v.from-s.started)/float64(hour)), s.hours(), s.outcome == "evicted"}
		if it.entry < it.exit {
			items = append(items, competitor{it, s.outcome == "completed" || s.outcome == "removed" || s.outcome == "held" ||
				s.outcome == "yielded"})
		}
	}
	return items
}

// questionsOfTime ask for series, heat maps and curves.
func (v *view) questionsOfTime(differ func(string, ...any)) (list []question) {
	for _, kind := range []struct {
		name   string
		points func(grouping, calendar) map[cell]float64
	}{{"backfillAvailability", v.availabilitySeries}, {"evictions", v.evictionSeries}} {
		for _, by := range []string{"", "machine"} {
			for _, bucket := range v.buckets {
				if v.to-v.from < 4*hour && bucket == "1d" || v.to-v.from > 4*day && bucket == "1h" {
					continue
				}
				groupBy, _ := json.Marshal(keysOf(by))
				list = append(list, question{`{"queryType": "` + kind.name + `", "view": "timeseries", "timezone": "` + v.drawn.String() + `", "bucket": "` + bucket + `", "metrics": [` + map[string]string{
					"backfillAvailability": `"available", "used", "taken", "usedPercent", "ended", "meanHours"`,
					"evictions":            `"evictions", "ratePer100GpuHours", "lostGpuHours", "runs", "yielded", "evictedGpuHours"`}[kind.name] +
					`], "groupBy": ` + strings.Replace(string(groupBy), "null", "[]", 1) + `}`,
					func(frames data.Frames) {
						want := kind.points(groupings[by], bucketsOf(bucket, v.drawn, v.from, v.to))
						for name, points := range golden.Series(frames, append(keysOf(by), "metric")...) {
							group, metric, cut := strings.Cut(name, "|")
							if !cut {
								group, metric = "", name
							}
							for _, p := range points {
								c := cell{group, metric, p.Time.UnixMicro()}
								w, ok := want[c]
								if !(ok && golden.Same(w, p.Value) || !ok && p.Value == 0) {
									differ("%s series by %s %s: %v, the product says %v", kind.name, by, bucket, w, p)
								}
								delete(want, c)
							}
						}
						for c, w := range want {
							if !math.IsNaN(w) && !math.IsInf(w, 0) && w != 0 {
								differ("%s series by %s %s: no point %v = %v", kind.name, by, bucket, c, w)
							}
						}
					}})
			}
		}
	}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err)
	}
	for kind, metrics := range map[string][]string{"backfillAvailability": {"available", "usedPercent"},
		"evictions": {"evictions", "ratePer100GpuHours"}} {
		for _, metric := range metrics {
			list = append(list, question{`{"queryType": "` + kind + `", "view": "hourOfWeek", "timezone": "America/New_York", "metrics": ["` + metric + `"]}`,
				func(frames data.Frames) {
					rows := golden.Rows(frames)
					want := v.weekly(zone)[metric]
					for _, x := range rows {
						c := [2]int{int(x["y"].(float64)), int(x["x"].(float64))}
						got, ok := x["value"].(float64)
						if !ok || math.IsNaN(got) {
							got = math.NaN()
						}
						if w := want[c]; math.IsNaN(w) != math.IsNaN(got) || !math.IsNaN(w) && !golden.Same(w, got) {
							differ("%s hour of week %s %v: %v, the product says %v", kind, metric, c, w, got)
						}
					}
					for c, w := range want {
						if len(rows) == 0 && w > 0 {
							differ("%s hour of week %s %v: %v, the product says nothing", kind, metric, c, w)
						}
					}
				}})
		}
	}
	for kind, items := range map[string]func() []competitor{`"backfillAvailability", "duration": "tenure"`: v.tenureItems,
		`"evictions"`: v.runItems} {
		list = append(list, question{`{"queryType": ` + kind + `, "view": "survival", "groupBy": [], "metrics": ["survival", "atRisk"]}`,
			func(frames data.Frames) {
				rows := golden.Rows(frames)
				want, from, until := drawn(items())
				if len(rows) == 0 && want != nil || len(rows) > 0 &&
					(want == nil || !golden.Same(from, rows[0]["hours"]) || !golden.Same(until, rows[len(rows)-1]["hours"])) {
					differ("curve of %s from %v to %v, the product draws %d points", kind, from, until, len(rows))
					return
				}
				found := 0
				for _, x := range rows {
					for age, w := range want {
						if golden.Same(age, x["hours"]) {
							found++
							if !golden.Same(w[0], x["survival"]) || !golden.Same(w[1], x["atRisk"]) {
								differ("curve of %s at %v: %v, the product says %v", kind, age, w, x)
							}
						}
					}
				}
				if found != len(want) {
					differ("curve of %s: %d steps, the product has %d of them", kind, len(want), found)
				}
			}})
	}
	return list
}
