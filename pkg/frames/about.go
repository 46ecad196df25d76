// Package frames builds the data frames of answers: shapes, units, display names, limits, notices and statistics, so
// that every kind of question looks alike to panels and alert rules.
package frames

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// About has the parts of an answer besides its figures: notices, statistics and the query as it was understood.
type About struct {
	plan    *query.Plan
	notices []data.Notice
	stats   []data.QueryStat
}

// Plain begins with nothing, for answers that are not made from snapshots themselves.
func Plain(p *query.Plan) *About { return &About{plan: p} }

// NewAbout begins with the notices and figures of the coverage: excluded hosts, rows without a GPU, gaps, missing data
// (methodology section 10).
func NewAbout(p *query.Plan, v *timeline.View, c timeline.Coverage) *About {
	a := &About{plan: p}
	a.Notices(v.Notices)
	for _, text := range p.Env.Lists.Notices {
		a.Warn("%s", text)
	}
	for _, e := range c.Excluded {
		a.Count(fmt.Sprintf("Machines excluded by %q (%s)", e.Pattern, e.Reason), len(e.Machines),
			"%s excluded by %q: %s", some(e.Machines, "machine"), e.Pattern, e.Reason)
	}
	if c.RowsWithoutGPU > 0 {
		a.Count("Rows without a GPU id or machine, skipped", c.RowsWithoutGPU, "%s without a GPU id or machine skipped",
			Count(c.RowsWithoutGPU, "row"))
	}
	if n := len(v.Times); n > 0 && v.Times[n-1] > p.Now {
		a.Warn("the newest snapshot (%s UTC) is ahead of this server's clock by %s h. Check the collector's clock, this "+
			"server's, and the setting timezone", Stamp(v.Times[n-1]), Decimal(pool.Hours(v.Times[n-1]-p.Now)))
	}
	a.Stat("Snapshots", "locale", float64(c.Snapshots))
	a.Stat("Slices (N)", "locale", float64(c.Slices))
	a.Stat("Covered hours (D)", "h", pool.Hours(c.Covered))
	a.covered(c)
	a.Stat("Days in memory", "locale", float64(v.Work.Kept))
	a.Stat("Days from the cache directory", "locale", float64(v.Work.OnDisk))
	a.Stat("Days from the bucket", "locale", float64(v.Work.Shared))
	a.Stat("Days read from month files", "locale", float64(v.Work.Read))
	a.Stat("Rows read", "locale", float64(v.Work.Rows))
	return a
}

// mostGaps is the share of the time with data that gaps may hide without a warning.
const mostGaps = 0.05

// covered adds how much of the window the snapshots cover. A window without one warns, and so do long gaps; that
// data begin or end within the window is usual.
func (a *About) covered(c timeline.Coverage) {
	coverage, gaps, hours := "", "", 0.0 // the sentences, if there is something to explain, and the hours of the gaps
	if window := c.Window.To - c.Window.From; c.Snapshots > 0 && window > 0 && c.Covered < window {
		coverage = fmt.Sprintf("coverage %s %%: %s of %s h, %s, %s", Decimal(100*float64(c.Covered)/float64(window)),
			Decimal(pool.Hours(c.Covered)), Decimal(c.Window.Hours()), Count(c.Snapshots, "snapshot"), Count(c.Slices, "slice"))
	}
	if len(c.Gaps) > 0 {
		for _, g := range c.Gaps {
			hours += pool.Hours(min(g.To, c.Window.To) - max(g.From, c.Window.From))
		}
		gaps = fmt.Sprintf("%s between snapshots, %s h in all, the first from %s to %s UTC", Count(len(c.Gaps), "gap"),
			Decimal(hours), Stamp(c.Gaps[0].From), Stamp(c.Gaps[0].To))
	}
	switch {
	case c.Snapshots == 0:
		a.Warn("no snapshot in the time range")
	case hours > mostGaps*(pool.Hours(c.Covered)+hours):
		a.Warn("%s", gaps)
		gaps = ""
	}
	// no coverage of an empty window
	a.Tell("Coverage", "percent", 100*float64(c.Covered)/float64(c.Window.To-c.Window.From), "%s", coverage)
	a.Count("Gaps", len(c.Gaps), "%s", gaps)
}

// Cadence adds a notice if the shortest cadence of the days is so short for the slices that averages come out too high
// (methodology section 4).
func (a *About) Cadence(s *timeline.Slices) {
	length := pool.Micros(a.plan.Env.SliceMinutes) * pool.Minute
	shortest := length
	for i := range s.Days {
		shortest = min(shortest, s.View.Cadence(s.Days[i].Date))
	}
	if 3*shortest < 2*length {
		a.Info("the collector runs every %s min, slices last %d min: a GPU counts as claimed for a whole slice once any "+
			"of its snapshots says so, so averages and GPU hours are too high (5%% at 15 min, 15%% at 60 min, measured at "+
			"5 min). Set sliceMinutes to 0 to avoid this bias", Decimal(float64(shortest)/float64(pool.Minute)),
			a.plan.Env.SliceMinutes)
	}
}

// Info adds a notice of something that the answer lacks, or that users can improve. Use [About.Tell] for facts about a
// healthy pool, because Grafana shows an icon on each panel with a notice.
func (a *About) Info(format string, args ...any) { a.add(false, fmt.Sprintf(format, args...)) }

// Warn adds a notice that the answer may be misleading.
func (a *About) Warn(format string, args ...any) { a.add(true, fmt.Sprintf(format, args...)) }

// Notices adds notices about faults of the data that an answer is based on, and figures about healthy data.
func (a *About) Notices(all []timeline.Notice) {
	for _, n := range all {
		if n.Stat != "" {
			a.Count(n.Stat, n.Count, "%s", n.Text)
			continue
		}
		a.add(n.Warning, n.Text)
	}
}

func (a *About) add(warning bool, text string) {
	severity := data.NoticeSeverityInfo
	if warning {
		severity = data.NoticeSeverityWarning
	}
	a.notices = append(a.notices, data.Notice{Severity: severity, Text: text})
}

// Stat adds a figure about the answer's making. One that is not finite is left out.
func (a *About) Stat(name, unit string, value float64) { a.Tell(name, unit, value, "") }

// Count is [About.Tell] with a number of things.
func (a *About) Count(name string, n int, format string, args ...any) {
	a.Tell(name, "locale", float64(n), format, args...)
}

// Tell adds a figure with the sentence that explains it, which reports and the command line show. One that is not
// finite is left out.
func (a *About) Tell(name, unit string, value float64, format string, args ...any) {
	if finite(value) {
		a.stats = append(a.stats, data.QueryStat{FieldConfig: data.FieldConfig{DisplayName: name, Unit: unit,
			Description: fmt.Sprintf(format, args...)}, Value: value})
	}
}

// leftOut counts the GPUs on the window's days that includeOldDevices: false leaves out, by device.
func (a *About) leftOut(s *timeline.Slices) {
	chosen := &a.plan.Select
	if chosen.OldDevices {
		return
	}
	gpus := map[string]map[timeline.GPU]bool{}
	for i := range s.Days {
		d := &s.Days[i]
		old := map[timeline.Symbol]string{} // names of devices that are left out
		for _, m := range d.Models {
			if device := s.View.Names.Text(m.Device); pool.IsOldDevice(device) && chosen.Texts(query.ByDevice).Match(device) {
				old[m.Device] = device
				if gpus[device] == nil {
					gpus[device] = map[timeline.GPU]bool{}
				}
			}
		}
		for i := range d.GPUs() {
			if device := old[d.Model(i).Device]; device != "" {
				gpus[device][d.GPU(i)] = true
			}
		}
	}
	all, texts := 0, []string{}
	for _, device := range slices.Sorted(maps.Keys(gpus)) {
		all += len(gpus[device])
		texts = append(texts, fmt.Sprintf("%s %s", Thousands(len(gpus[device])), device))
	}
	if all > 0 {
		a.Count("GPUs of old devices, left out", all, "old devices are left out: %s (%s)", Count(all, "GPU"),
			some(texts, "device"))
	}
}

// Unmatched counts old devices that are left out, and adds a notice of each filter with values that match nothing on
// the window's days, but for users of a window that is a moment.
func (a *About) Unmatched(s *timeline.Slices) {
	a.leftOut(s)
	chosen := &a.plan.Select
	check := func(by query.Grouping, find func(*timeline.DaySlices, func(timeline.Symbol)), texts func(string) []string) {
		t := chosen.Texts(by)
		if t.All() {
			return
		}
		found := map[timeline.Symbol]bool{}
		for i := range s.Days {
			find(&s.Days[i], func(value timeline.Symbol) { found[value] = true })
		}
		var all []string
		for value := range found {
			all = append(all, texts(s.View.Names.Text(value))...)
		}
		missing := slices.DeleteFunc(t.Unmatched(all), func(value string) bool { return value == query.Unknown })
		if len(missing) > 0 { // that nothing is Unknown is as it should be
			a.Warn("filter.%s: no value in the time range matches %s", query.Groupings[by].Filter.Name, some(missing, "value"))
		}
	}
	// Check each list of the filter against what the days have.
	check(query.ByDevice, func(d *timeline.DaySlices, found func(timeline.Symbol)) {
		for _, m := range d.Models {
			found(m.Device)
		}
	}, func(device string) []string { return []string{a.plan.Shown("device", device)} })
	check(query.ByMachine, func(d *timeline.DaySlices, found func(timeline.Symbol)) {
		for _, m := range d.Machines {
			found(m.Name)
		}
	}, func(machine string) []string { return []string{machine} })
	check(query.ByProject, func(d *timeline.DaySlices, found func(timeline.Symbol)) {
		for _, r := range d.Rows {
			found(r.Project)
		}
	}, func(list string) []string { return append(pool.Projects(list), list) })
	if s.Window.From == s.Window.To {
		return // a user may hold nothing at a moment
	}
	check(query.ByUser, func(d *timeline.DaySlices, found func(timeline.Symbol)) {
		for _, r := range d.Rows {
			if r.State == pool.Claimed {
				found(r.User)
			}
		}
	}, chosen.NamesOfUser)
}

// Shown returns how many rows of a list the limit shows, and says so if it cuts the list. Long lists build
// columns of those only.
func (a *About) Shown(rows int) int { return a.cut(a.plan, rows, mostRows, "rows") }

// mostRows is how many rows a table has, unless the query has a limit.
const mostRows = 5000

// cut returns how many of all things a plan's limit shows. If they are not all, it says so: a warning, unless the query
// itself asks for no more.
func (a *About) cut(p *query.Plan, all, most int, what string) int {
	shown := min(all, p.Max(most))
	text := fmt.Sprintf("limit: showing %s of %s %s", Thousands(shown), Thousands(all), what)
	switch shown {
	case all:
	case p.Limit:
		a.Count("Left out by the limit: "+what, all-shown, "%s", text)
	default:
		a.Warn("%s", text)
	}
	return shown
}

// fit returns how many of the first n things an answer can hold, at least one, and adds the notice when it is not all
// of them.
func (a *About) fit(n int, what string, cells func(i int) int) int {
	all := 0
	for i := range n {
		if all += cells(i); all > query.MaxCells && i > 0 {
			a.Warn("limit: showing the first %s %s: more would be more than %s points", Thousands(i), what,
				Thousands(query.MaxCells))
			return i
		}
	}
	return n
}

// Finish puts everything on the first of the frames, and the query on all. Without data, that is one frame with type
// and version and no fields.
func (a *About) Finish(frames data.Frames) data.Frames {
	if len(frames) == 0 {
		none := data.NewFrame("")
		none.Meta = meta(frameType(a.plan))
		if a.plan.Frame == query.FrameHeatMap { // Grafana's panel cannot draw cells that have no fields
			none.Meta = meta(data.FrameTypeTable)
		}
		frames = data.Frames{none}
	}
	frames[0].Meta.Notices = append(frames[0].Meta.Notices, a.notices...)
	frames[0].Meta.Stats = append(frames[0].Meta.Stats, a.stats...)
	executed := a.plan.Executed()
	for _, f := range frames {
		f.Meta.ExecutedQueryString = executed
	}
	return frames
}

// frameType is the dataplane type of an answer's frames.
func frameType(p *query.Plan) data.FrameType {
	switch {
	case p.Numeric:
		return data.FrameTypeNumericLong
	case p.Frame == query.FrameSeries, p.Frame == query.FrameStateTimeline:
		return data.FrameTypeTimeSeriesMulti
	case p.Frame == query.FrameHeatMap:
		return "heatmap-cells"
	}
	return data.FrameTypeTable
}

func meta(t data.FrameType) *data.FrameMeta {
	return &data.FrameMeta{Type: t, TypeVersion: data.FrameTypeVersion{0, 1}}
}

// some lists the first of many.
func some(names []string, what string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %s", Count(more, "more "+what))
	}
	return text
}

// Count writes a number with the counted noun, whose plural ends in s: 1 run, 62,113 runs.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return Thousands(n) + " " + what
}

// Thousands writes a number, or its text, as 62,113 or 62,113.5.
func Thousands[N int | string](number N) string {
	text := fmt.Sprint(number)
	for i := strings.IndexByte(text+".", '.') - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Decimal writes a number with at most two decimals.
func Decimal(x float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", x), "0"), ".")
}

// Stamp writes a time to the second, in UTC.
func Stamp(t pool.Micros) string { return pool.Time(t).Format(time.DateTime) }
