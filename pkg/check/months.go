package check

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline"
)

// month is the content of one month file.
type month struct {
	snapshots.Part
	times          []pool.Micros
	cadences       []pool.Micros  // by UTC day
	gaps           []timeline.Gap // that end in it
	oddities       snapshots.Oddities
	rowsWithoutGPU int
	usages         usages
}

// week is how much of a file one statement about the time zone covers: long enough that some job starts immediately.
const week = 7 * pool.Day

// readMonths reads all snapshots, a file at a time. A file of which that fails is a finding; those that cannot even be
// opened are the health check's.
func (c *checking) readMonths(ctx context.Context) error {
	// List the months.
	state, err := c.Timeline.Source.Look(ctx)
	if err != nil {
		return ctx.Err()
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		return err
	}
	// Read each month that can be read; those that cannot become findings.
	for _, part := range parts {
		if part.Err != nil {
			continue
		}
		m := month{Part: part}
		switch {
		case !part.Dated && part.Rows > 0:
			c.Add(part.Name, Warning, nil, "%s: %d rows, none with a timestamp that can be read, such as %q. %s", part.Name,
				part.Rows, part.Sample, formOfTimestamps)
			continue
		case !part.Dated:
			c.Add(part.Name, Note, nil, "%s: no rows", part.Name)
			continue
		}
		v, err := c.Timeline.Load(ctx, m.Window.From, m.Window.To)
		if err == nil {
			c.read(v, &m)
			err = timeline.Retry(ctx, func(ctx context.Context) error { return c.readUsages(ctx, &m) })
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.Add(part.Name, Warning, nil, "%v", err)
		}
		if len(m.times) > 0 {
			c.months = append(c.months, m)
		}
	}
	return nil
}

// read reads the content of a month, and adds it to that of the months before.
func (c *checking) read(v *timeline.View, m *month) {
	first, end := v.Snapshots(m.Window)
	if m.times = v.Times[first:end]; first == end {
		return
	}
	left, waiting := v.Incomplete(m.Window)
	c.left, c.waiting = append(c.left, left...), append(c.waiting, waiting...)
	// Add up the month's days: what they show, and what is odd about them.
	for i := v.DayAt(first); i <= v.DayAt(end-1); i++ {
		d := v.Days[i]
		m.cadences = append(m.cadences, v.Cadence(d.Date))
		for _, machine := range d.Machines {
			c.machines[v.Names.Text(machine.Name)] = true
		}
		for _, row := range d.Rows {
			for _, project := range pool.Projects(v.Names.Text(row.Project)) {
				c.priority[project] = true
			}
		}
		for _, model := range d.Models {
			if model.Device != 0 {
				c.devices[v.Names.Text(model.Device)] = true
			}
		}
		if d.Date < c.next {
			continue // the file before has rows of this day too
		}
		c.next = d.Date + 1
		c.vanished = append(c.vanished, vanishingsOf(v, i)...)
		odd := d.Oddities
		m.oddities.Back += odd.Back
		m.oddities.Missing += odd.Missing
		m.oddities.Unreadable += odd.Unreadable
		m.oddities.Sample = cmp.Or(m.oddities.Sample, odd.Sample)
		m.oddities.Twice += odd.Twice
		d.AddOdd(pool.Window{From: pool.Micros(d.Date) * pool.Day, To: pool.Micros(d.Date+1) * pool.Day}, &c.odd)
		for _, rows := range d.RowsWithoutGPU {
			m.rowsWithoutGPU += int(rows)
		}
	}
	// Find the gaps, and how soon jobs are seen in each week, which tells the time zone.
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
		wait := shortestWait(v, pool.Window{From: from, To: to})
		wait.Month = m.Month
		c.waits = append(c.waits, wait)
		from = to + 1
	}
}

// formOfTimestamps is the remedy for those that cannot be read.
const formOfTimestamps = "Let the collector write YYYY-MM-DD HH:MM:SS, with or without an offset from UTC"

func (m *month) finding() Finding {
	// the median of the days' cadences, to the second
	cadence := (pool.Median(slices.Clone(m.cadences)) + pool.Second/2) / pool.Second * pool.Second
	// Add the gaps up.
	var missing pool.Micros
	var longest timeline.Gap
	for _, gap := range m.gaps {
		missing += gap.To - gap.From
		if gap.To-gap.From > longest.To-longest.From {
			longest = gap
		}
	}
	found := Finding{Store: m.Name, Severity: OK, Details: Details{
		"month": m.Month, "rows": m.Rows, "snapshots": len(m.times), "first": pool.Time(m.Window.From),
		"last": pool.Time(m.Window.To), "cadenceSeconds": seconds(cadence),
		"gaps": len(m.gaps), "gapSeconds": seconds(missing), "outOfOrder": int(m.oddities.Back),
		"missingLocalTimes":    int(m.oddities.Missing),
		"unreadableTimestamps": int(m.oddities.Unreadable), "repeatedTexts": int(m.oddities.Twice),
		"rowsWithoutGPU": m.rowsWithoutGPU,
	}}
	found.Text = fmt.Sprintf("%s: %s from %s to %s UTC, every %s", m.Month, count(len(m.times), "snapshot"),
		minute(m.Window.From), minute(m.Window.To), ShortLength(cadence))
	if low, high := slices.Min(m.cadences), slices.Max(m.cadences); 2*low < high {
		found.Text += fmt.Sprintf(" (days from %s to %s)", ShortLength(low), ShortLength(high))
	}
	switch n := len(m.gaps); {
	case n == 1:
		found.Add(Note, "; a gap of %s from %s to %s", length(missing), minute(longest.From), minute(longest.To))
	case n > 1:
		found.Add(Note, "; %s, %s in all, the longest from %s to %s", count(n, "gap"), length(missing),
			minute(longest.From), minute(longest.To))
	}
	// Append what is odd about the rows, with the remedy.
	if m.Unordered {
		found.Add(Note, ". Its rows are not in chronological order: answers are right, but the whole file is read each "+
			"time. Rewrite it, ordered by timestamp")
	}
	for _, odd := range []struct {
		n              uint32
		severity, text string
	}{
		{m.oddities.Back, Note, "out of order, as when the clock was put back: sorted by time. Keep the collector's clock " +
			"with NTP"},
		{m.oddities.Missing, Warning, "with a local time that does not exist: the collector's time zone differs from the " +
			"setting timezone"},
		{m.oddities.Twice, Note, "of the repeated hour may be two whose texts are equal or less than a minute apart, " +
			"counted as one. Let the collector write UTC"},
	} {
		if odd.n > 0 {
			found.Add(odd.severity, ". %s %s", count(int(odd.n), "snapshot"), odd.text)
		}
	}
	if n := int(m.oddities.Unreadable); n > 0 {
		found.Add(Warning, ". %s without a readable timestamp, such as %q, left out. %s", count(n, "row"), m.oddities.Sample,
			formOfTimestamps)
	}
	return found
}

var (
	nearlyMonth = regexp.MustCompile(`(?i)gpu_state.*\.db`)
	monthFile   = regexp.MustCompile(`^gpu_state_\d{4}-\d{2}\.db(-wal|-shm|-journal|\.new)?$`)
)

// files reports months without a file, and files that are not read for their names.
func (c *checking) files() {
	entries, _ := c.Dir.Names() // empty if it may not be listed
	entries = slices.DeleteFunc(entries, func(name string) bool {
		info, err := c.Dir.Root().Lstat(name)
		return err == nil && info.IsDir()
	})
	there := map[string]bool{}
	for _, m := range c.months {
		there[m.Month] = true
	}
	for _, entry := range entries {
		month, _, _ := snapshots.ParseMonthFile(entry)
		there[month] = true
	}
	var lacking []string
	first, newest := c.months[0].Month, c.months[len(c.months)-1].Month
	for name := first; name < newest; {
		t, err := time.Parse("2006-01", name)
		if err != nil {
			break
		}
		if name = t.AddDate(0, 1, 0).Format("2006-01"); !there[name] {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		c.Add("files", Note, Details{"missingMonths": lacking}, "files: no month file for %s between %s and %s, so nothing "+
			"is known of that time. Copy the files into the snapshot directory if they are elsewhere", some(lacking), first,
			newest)
	}
	strays := slices.DeleteFunc(entries,
		func(n string) bool { return !nearlyMonth.MatchString(n) || monthFile.MatchString(n) })
	if len(strays) > 0 {
		c.Add("other files", Note, Details{"files": strays}, "files: %s not read, because month files are named exactly "+
			"gpu_state_YYYY-MM.db. Rename those that hold data", are(strays))
	}
}

func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return some(names) + " are"
}
