package oracle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/jobs/sqlite"
	"github.com/chtc/gpureports/pkg/plugin"
)

const iso = "2006-01-02T15:04:05.000000Z"

func stamp(at int64) string { return time.UnixMicro(at).UTC().Format(iso) }

// jobFiles are the files of job ads by what a site collects.
var jobFiles = map[string][]string{
	"none": nil, "legacy": {"jobs_history_legacy.jsonl"}, "history": {"jobs_history_refactored.jsonl"},
	"epochs": {"jobs_epochs.jsonl"},
	"both":   {"jobs_history_refactored.jsonl", "jobs_epochs.jsonl"},
}

// product is the data source on a directory of month files.
type product struct {
	source *plugin.Datasource
	jobs   string
	ads    []ad
	asked  int // questions
}

// open opens the data source on a pool's directory with job ads of some kind; its clock is fixed at the
// newest snapshot.
func open(t testing.TB, r *records, dir, zone, jobs string, files ...string) *product {
	return openSliced(t, r, dir, zone, 15, jobs, files...)
}

// openSliced is open with slices of so many minutes.
func openSliced(t testing.TB, r *records, dir, zone string, minutes int, jobs string, files ...string) *product {
	p := &product{jobs: jobs}
	settings := map[string]any{"snapshotDir": dir, "timezone": zone, "jobs": "none", "sliceMinutes": minutes}
	if jobs != "none" {
		for _, f := range files {
			p.ads = append(p.ads, readAds(t, filepath.Join(dir, f))...)
		}
		settings["jobs"], settings["jobsPath"] = "sqlite", "jobs_"+jobs+".db"
		writeJobFile(t, filepath.Join(dir, "jobs_"+jobs+".db"), dir, files)
	}
	text, err := json.Marshal(settings)
	require.NoError(t, err)
	now := time.UnixMicro(r.snapshots[len(r.snapshots)-1].at).UTC()
	p.source = plugin.Open(backend.DataSourceInstanceSettings{Type: plugin.ID, JSONData: text},
		func() time.Time { return now })
	t.Cleanup(p.source.Dispose)
	return p
}

func writeJobFile(t testing.TB, path, dir string, files []string) {
	if _, err := os.Stat(path); err == nil {
		return // another data source's
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f))
		require.NoError(t, err)
		_, err = sqlite.Import(t.Context(), path, "auto", sqlite.Input{Name: f, Reader: bytes.NewReader(text)})
		require.NoError(t, err)
	}
}

// question is a query of the product and what to do with its answer.
type question struct {
	json  string
	check func(data.Frames)
}

func (p *product) ask(t testing.TB, from, to int64, questions []question) {
	window := backend.TimeRange{From: time.UnixMicro(from).UTC(), To: time.UnixMicro(to).UTC()}
	request := &backend.QueryDataRequest{}
	for i, q := range questions {
		var kind struct{ QueryType string }
		require.NoError(t, json.Unmarshal([]byte(q.json), &kind), q.json)
		request.Queries = append(request.Queries, backend.DataQuery{RefID: fmt.Sprint(i), QueryType: kind.QueryType,
			TimeRange: window, Interval: time.Minute, JSON: []byte(q.json)})
	}
	response, err := p.source.QueryData(context.Background(), request)
	require.NoError(t, err)
	p.asked += len(questions)
	for i, q := range questions {
		r := response.Responses[fmt.Sprint(i)]
		require.NoError(t, r.Error, q.json)
		q.check(r.Frames)
	}
}

// compare reports how the product's answers of a window differ from the oracle's.
func compare(t testing.TB, p *product, r *records, from, to int64) (differences []string) {
	return compareIn(t, p, newView(r, p.ads, p.jobs != "none", from, to))
}

// compareIn is compare in the manner of a view.
func compareIn(t testing.TB, p *product, v *view) []string {
	c := &comparison{asking: v.asking, view: v, from: v.from, to: v.to}
	c.lists()
	for name, of := range groupings {
		var by []string
		if name != "" {
			by = []string{name}
		}
		c.figures("backfillAvailability", by, availabilityMetrics, v.filter, v.availability(of))
		all, causes, evidences := v.evictions(of)
		c.figures("evictions", by, evictionMetrics, v.filter, all)
		if name == "" || name == "device" {
			metrics := []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "medianHoursToEviction"}
			c.figures("evictions", append(by, "cause"), metrics, v.filter, causes)
			c.figures("evictions", append(by, "evidence"), metrics, v.filter, evidences)
		}
		var want []string
		for k, n := range v.transitions(of) {
			want = append(want, fmt.Sprintf("%s|%s|%s|%v", k[0], k[1], k[2], n))
		}
		c.lines(text("backfillAvailability", "transitions", by, v.filter, `, "totals": false`), want,
			func(x map[string]any) string {
				if x["count"] == 0.0 {
					return ""
				}
				return fmt.Sprintf("%s|%s|%s|%v", word(x[name]), x["from"], x["to"], x["count"])
			})
	}
	c.overTime()
	p.ask(t, v.from, v.to, c.questions)
	return c.differences
}

var (
	availabilityMetrics = []string{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours",
		"censored", "unknownStart", "kmMedianHours", "restrictedMeanHours", "hours90", "hours75", "hours50", "available",
		"used", "taken", "usedPercent"}
	evictionMetrics = []string{"runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost",
		"ambiguous", "unseen", "gpuHours", "lostGpuHours", "evictedGpuHours", "checkpointedPercent", "maxEvictionsPerJob",
		"ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostPercent"}
)

// word is a text of an answer.
func word(x any) string {
	s, _ := x.(string)
	return s
}

// orNone is a text that can be empty.
func orNone(x any) string { return cmp.Or(word(x), "none") }

// lists compares availability periods, runs and evictions one by one.
func (c *comparison) lists() {
	v := c.view
	flags := func(censored, truncated, unknown any) string {
		return fmt.Sprintf("censored=%v truncated=%v unknown=%v", censored, truncated, unknown)
	}
	for duration, tenure := range map[string]bool{"vacancy": false, "tenure": true} {
		var want []string
		for _, p := range v.periods(tenure) {
			want = append(want, strings.Join([]string{p.machine, p.id, p.gpu.device, p.gpu.category(), stamp(p.start),
				stamp(p.end), p.reason, flags(p.censored, p.leftTruncated, p.unknownFrom), p.job, orNone(p.link)}, "|"))
		}
		query := text("backfillAvailability", "periods", nil, v.filter, fmt.Sprintf(`, "duration": %q`, duration))
		c.lines(query, want, func(x map[string]any) string {
			if end, ended := x["end"].(time.Time); ended && !golden.Same(end.Sub(x["start"].(time.Time)).Hours(), x["hours"]) {
				c.differ("%s: hours of %v", query, x)
			}
			return strings.Join([]string{word(x["machine"]), word(x["gpu"]), word(x["device"]), word(x["category"]),
				at(x["start"]), at(x["end"]), word(x["endReason"]), flags(x["censored"], x["leftTruncated"], x["unknownStart"]),
				word(x["job"]), orNone(x["link"])}, "|")
		})
	}
	var runs, events []string
	for _, s := range v.runs(v.from, v.to) {
		of := strings.Join([]string{s.machine, strings.Join(s.ids(), ","), s.gpu.category(), s.owner, s.job}, "|")
		runs = append(runs, strings.Join([]string{of, s.gpu.device, stamp(s.started), stamp(s.end), s.outcome,
			orNone(s.evidence), orNone(s.cause), s.link}, "|"))
		if s.outcome == "evicted" {
			events = append(events, strings.Join([]string{of, stamp(s.end), fmt.Sprintf("%.6f %.6f", s.hours(),
				s.hours()*float64(len(s.gpus))), s.cause, s.evidence, s.takenOverBy}, "|"))
		}
	}
	of := func(x map[string]any) string {
		return strings.Join([]string{word(x["machine"]), sortedIDs(x["gpuIds"]), word(x["category"]), word(x["user"]),
			word(x["job"])}, "|")
	}
	c.lines(text("evictions", "runs", nil, v.filter, ""), runs, func(x map[string]any) string {
		return strings.Join([]string{of(x), word(x["device"]), at(x["start"]), at(x["end"]), word(x["outcome"]),
			orNone(x["evidence"]), orNone(x["cause"]), orNone(x["link"])}, "|")
	})
	c.lines(text("evictions", "events", nil, v.filter, ""), events, func(x map[string]any) string {
		return strings.Join([]string{of(x), at(x["time"]), fmt.Sprintf("%.6f %.6f", x["ranHours"], x["gpuHours"]),
			word(x["cause"]), word(x["evidence"]), word(x["takenOverBy"])}, "|")
	})
}

// figures compares a summary with figures by group.
func (c *comparison) figures(kind string, by, metrics []string, filter string, of map[string]figures) {
	want := map[cell]float64{}
	for g, f := range of {
		for name, x := range f {
			if want[cell{g, name, 0}] = math.NaN(); x != nil {
				want[cell{g, name, 0}] = x.(float64)
			}
		}
	}
	c.rows(text(kind, "summary", by, filter, `, "totals": false, "metrics": `+quoted(metrics)), by, metrics, want)
}

// without returns the lines of a that are not in b, both sorted.
func without(a, b []string) (only []string) {
	for i, j := 0, 0; i < len(a); {
		switch {
		case j == len(b) || a[i] < b[j]:
			only = append(only, a[i])
			i++
		case a[i] == b[j]:
			i++
			j++
		default:
			j++
		}
	}
	return only
}

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

// overTime compares series, heat maps and curves.
func (c *comparison) overTime() {
	v := c.view
	for _, kind := range []struct {
		name    string
		metrics []string
		points  func(grouping, calendar) map[cell]float64
	}{
		{"backfillAvailability", []string{"available", "used", "taken", "usedPercent", "ended", "meanHours"},
			v.availabilitySeries},
		{"evictions", []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "runs", "yielded", "evictedGpuHours"},
			v.evictionSeries},
	} {
		for _, by := range [][]string{nil, {"machine"}} {
			for _, bucket := range v.buckets {
				if v.to-v.from < 4*hour && bucket == "1d" || v.to-v.from > 4*day && bucket == "1h" {
					continue
				}
				c.series(text(kind.name, "timeseries", by, v.filter, fmt.Sprintf(`, "timezone": %q, "bucket": %q, "metrics": %s`,
					v.drawn, bucket, quoted(kind.metrics))), by, "",
					kind.points(groupings[strings.Join(by, "")], bucketsOf(bucket, v.drawn, v.from, v.to)))
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
			c.questions = append(c.questions, question{text(kind, "hourOfWeek", nil, v.filter,
				fmt.Sprintf(`, "timezone": %q, "metrics": [%q]`, zone, metric)),
				func(frames data.Frames) {
					rows := golden.Rows(frames)
					want := v.weekly(zone)[metric]
					for _, x := range rows {
						h := [2]int{int(x["y"].(float64)), int(x["x"].(float64))}
						got, ok := x["value"].(float64)
						if !ok || math.IsNaN(got) {
							got = math.NaN()
						}
						if w := want[h]; math.IsNaN(w) != math.IsNaN(got) || !math.IsNaN(w) && !golden.Same(w, got) {
							c.differ("%s hour of week %s %v: %v, the product says %v", kind, metric, h, w, got)
						}
					}
					for h, w := range want {
						if len(rows) == 0 && w > 0 {
							c.differ("%s hour of week %s %v: %v, the product says nothing", kind, metric, h, w)
						}
					}
				}})
		}
	}
	for kind, items := range map[string]func() []competitor{"backfillAvailability": v.tenureItems,
		"evictions": v.runItems} {
		more := `, "metrics": ["survival", "atRisk"]`
		if kind == "backfillAvailability" {
			more += `, "duration": "tenure"`
		}
		c.questions = append(c.questions, question{text(kind, "survival", nil, v.filter, more),
			func(frames data.Frames) {
				rows := golden.Rows(frames)
				want, from, until := drawn(items())
				if len(rows) == 0 && want != nil || len(rows) > 0 &&
					(want == nil || !golden.Same(from, rows[0]["hours"]) || !golden.Same(until, rows[len(rows)-1]["hours"])) {
					c.differ("curve of %s from %v to %v, the product draws %d points", kind, from, until, len(rows))
					return
				}
				found := 0
				for _, x := range rows {
					for age, w := range want {
						if golden.Same(age, x["hours"]) {
							found++
							if !golden.Same(w[0], x["survival"]) || !golden.Same(w[1], x["atRisk"]) {
								c.differ("curve of %s at %v: %v, the product says %v", kind, age, w, x)
							}
						}
					}
				}
				if found != len(want) {
					c.differ("curve of %s: %d steps, the product has %d of them", kind, len(want), found)
				}
			}})
	}
}
