package check

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline"
)

// month is the content of one month file.
type month struct {
	snapshots.Part
	times          []pool.Micros
	cadences       []pool.Micros  // of its UTC days
	gaps           []timeline.Gap // that end in it
	oddities       snapshots.Oddities
	rowsWithoutGPU int
	waits          []Wait // of its pieces of a week each
	usages         usages
	vanished       []vanishing
}

// months are all month files that can be read and hold a snapshot, ascending.
type months struct {
	months   []month
	machines []string // all that have a row, ascending
}

// week is how much of a file one statement about the time zone covers: long enough that some job starts immediately.
const week = 7 * pool.Day

// readMonths reads all snapshots, a file at a time. A file of which that fails is a finding; those that cannot even be
// opened are the health check's.
func readMonths(ctx context.Context, in Installation) (all months, unread []Finding, err error) {
	state, err := in.Timeline.Source().Look(ctx)
	if err != nil {
		return all, nil, ctx.Err()
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		return all, nil, err
	}
	machines := map[timeline.Symbol]bool{}
	counted := int32(-1 << 31) // the last UTC day whose oddities are
	for _, part := range parts {
		if part.Err != nil {
			continue
		}
		m := month{Part: part}
		if !part.Dated {
			found := Finding{Store: part.Name, Severity: Note, Text: part.Name + ": no rows"}
			if part.Rows > 0 {
				found.Severity = Warning
				found.Text = fmt.Sprintf("%s: %d rows, none with a timestamp that can be read, such as %q. %s", part.Name,
					part.Rows, part.Sample, formOfTimestamps)
			}
			unread = append(unread, found)
			continue
		}
		v, err := in.Timeline.Load(ctx, m.Window.From, m.Window.To)
		if err == nil {
			m.read(v, &counted, machines)
			err = readUsages(ctx, state, &m)
		}
		if ctx.Err() != nil {
			return all, nil, ctx.Err()
		}
		if err != nil {
			unread = append(unread, Finding{Store: part.Name, Severity: Warning, Text: err.Error()})
		}
		if len(m.times) > 0 {
			all.months = append(all.months, m)
			all.machines = names(v.Names, machines)
		}
	}
	slices.SortFunc(all.months, func(a, b month) int { return strings.Compare(a.Month, b.Month) })
	return all, unread, nil
}

func names(texts *timeline.Names, symbols map[timeline.Symbol]bool) []string {
	all := make([]string, 0, len(symbols))
	for s := range symbols {
		all = append(all, texts.Text(s))
	}
	slices.Sort(all)
	return all
}

func (m *month) read(v *timeline.View, counted *int32, machines map[timeline.Symbol]bool) {
	first, end := v.Snapshots(m.Window)
	m.times = v.Times[first:end]
	if first == end {
		return
	}
	for i := v.DayAt(first); i <= v.DayAt(end-1); i++ {
		d := v.Days[i]
		m.cadences = append(m.cadences, v.Cadence(d.Date))
		for _, machine := range d.Machines() {
			machines[machine.Name] = true
		}
		if d.Date <= *counted {
			continue // the file before has rows of this day too
		}
		*counted = d.Date
		m.vanished = append(m.vanished, vanishings(v, i)...)
		odd := d.Oddities()
		m.oddities.Back += odd.Back
		m.oddities.Missing += odd.Missing
		m.oddities.Unreadable += odd.Unreadable
		m.oddities.Sample = cmp.Or(m.oddities.Sample, odd.Sample)
		m.oddities.Twice += odd.Twice
		for _, rows := range d.RowsWithoutGPU {
			m.rowsWithoutGPU += int(rows)
		}
	}
	for _, gap := range v.Gaps(pool.Window{From: m.Window.From - 1, To: m.Window.To}) { // the one before the file too
		if m.Window.Contains(gap.To) {
			m.gaps = append(m.gaps, gap)
		}
	}
	for from := m.Window.From; from <= m.Window.To; {
		to := from + week - 1
		if m.Window.To-to < week/2 { // the rest is too short to judge
			to = m.Window.To
		}
		m.waits = append(m.waits, shortestWait(v, pool.Window{From: from, To: to}))
		from = to + 1
	}
}

// cadence is the median of the days' cadences, to the second.
func (m *month) cadence() pool.Micros {
	return (pool.Median(slices.Clone(m.cadences)) + pool.Second/2) / pool.Second * pool.Second
}

// gapTime is the time that gaps of the month take.
func (m *month) gapTime() (all pool.Micros) {
	for _, gap := range m.gaps {
		all += gap.To - gap.From
	}
	return all
}

// formOfTimestamps is the remedy for those that cannot be read.
const formOfTimestamps = "Let the collector write YYYY-MM-DD HH:MM:SS, with or without an offset from UTC"

// monthFinding says what one file holds.
func monthFinding(m *month) Finding {
	found := Finding{Store: m.Name, Severity: OK, Details: map[string]any{
		"month": m.Month, "rows": m.Rows, "snapshots": len(m.times), "first": pool.Time(m.Window.From),
		"last": pool.Time(m.Window.To), "cadenceSeconds": seconds(m.cadence()),
		"gaps": len(m.gaps), "gapSeconds": seconds(m.gapTime()), "outOfOrder": int(m.oddities.Back),
		"missingLocalTimes":    int(m.oddities.Missing),
		"unreadableTimestamps": int(m.oddities.Unreadable), "repeatedTexts": int(m.oddities.Twice),
		"rowsWithoutGPU": m.rowsWithoutGPU,
	}}
	found.Text = fmt.Sprintf("%s: %s from %s to %s UTC, every %s", m.Month, count(len(m.times), "snapshot"),
		minute(m.Window.From), minute(m.Window.To), shortLength(m.cadence()))
	if low, high := slices.Min(m.cadences), slices.Max(m.cadences); 2*low < high {
		found.Text += fmt.Sprintf(" (days from %s to %s)", shortLength(low), shortLength(high))
	}
	switch len(m.gaps) {
	case 0:
	case 1:
		found.Add(Note, "; a gap of %s from %s to %s", length(m.gapTime()), minute(m.gaps[0].From),
			minute(m.gaps[0].To))
	default:
		longest := slices.MaxFunc(m.gaps, func(a, b timeline.Gap) int { return int(a.To - a.From - (b.To - b.From)) })
		found.Add(Note, "; %s, %s in all, the longest from %s to %s", count(len(m.gaps), "gap"),
			length(m.gapTime()), minute(longest.From), minute(longest.To))
	}
	note := func(format string, args ...any) {
		found.Add(Note, ". "+format, args...)
	}
	if m.Unordered {
		note("Its rows are not in chronological order: answers are right, but the whole file is read each time. Rewrite " +
			"it, ordered by timestamp")
	}
	if n := int(m.oddities.Back); n > 0 {
		note("%s out of order, as when the clock was put back: sorted by time. Keep the collector's clock with NTP",
			count(n, "snapshot"))
	}
	if n := int(m.oddities.Missing); n > 0 {
		note("%s with a local time that does not exist: the collector's time zone differs from the setting timezone",
			count(n, "snapshot"))
		found.Severity = Warning
	}
	if n := int(m.oddities.Twice); n > 0 {
		note("%s of the repeated hour may be two with the same text, counted as one. Let the collector write UTC",
			count(n, "snapshot"))
	}
	if n := int(m.oddities.Unreadable); n > 0 {
		note("%s without a readable timestamp, such as %q, left out. %s", count(n, "row"), m.oddities.Sample,
			formOfTimestamps)
		found.Severity = Warning
	}
	return found
}

// shortLength writes a cadence to the minute, if it has one.
func shortLength(d pool.Micros) string {
	if d >= pool.Minute {
		d = (d + pool.Minute/2) / pool.Minute * pool.Minute
	}
	return length(d)
}

// entries lists the snapshot directory, ascending; nil when it may not be listed.
func entries(dir *snapshots.Dir) (names []string) {
	list, err := fs.ReadDir(dir.Root().FS(), ".")
	if err != nil {
		return nil
	}
	for _, entry := range list {
		if entry.Type()&fs.ModeDir == 0 {
			names = append(names, entry.Name())
		}
	}
	return names
}

var (
	nearlyMonth = regexp.MustCompile(`(?i)gpu_state.*\.db`)
	monthFile   = regexp.MustCompile(`^gpu_state_\d{4}-\d{2}\.db(-wal|-shm|-journal|\.new)?$`)
)

// filesFindings reports months without a file, and files that are not read for their names.
func filesFindings(all []month, entries []string) (findings []Finding) {
	has := func(name string) bool {
		return slices.ContainsFunc(all, func(m month) bool { return m.Month == name }) ||
			slices.ContainsFunc(entries, func(entry string) bool {
				month, _, ok := snapshots.ParseMonthFile(entry)
				return ok && month == name
			})
	}
	var lacking []string
	last, err := time.Parse("2006-01", all[len(all)-1].Month)
	for t, err2 := time.Parse("2006-01", all[0].Month); err == nil && err2 == nil &&
		t.Before(last); t = t.AddDate(0, 1, 0) {
		if name := t.Format("2006-01"); !has(name) {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		findings = append(findings, Finding{Store: "files", Severity: Note, Details: map[string]any{"missingMonths": lacking},
			Text: fmt.Sprintf("files: no month file for %s between %s and %s, so nothing is known of that time. Copy the "+
				"files into the snapshot directory if they are elsewhere", some(lacking), all[0].Month, all[len(all)-1].Month)})
	}
	strays := slices.DeleteFunc(slices.Clone(entries),
		func(n string) bool { return !nearlyMonth.MatchString(n) || monthFile.MatchString(n) })
	if len(strays) > 0 {
		findings = append(findings, Finding{Store: "other files", Severity: Note, Details: map[string]any{"files": strays},
			Text: fmt.Sprintf("files: %s not read, because month files are named exactly gpu_state_YYYY-MM.db. Rename those "+
				"that hold data", are(strays))})
	}
	return findings
}

func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return some(names) + " are"
}
