package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Wait is the shortest time from a job's queue date (qdate in its GlobalJobId, always UTC) to a snapshot that shows it,
// in a window: no job is seen before it was queued, and in a week some job starts soon after (htcondor.md). So it shows
// how far the collector's local time is from the setting timezone.
type Wait struct {
	Window   pool.Window
	Month    string      // names the month file; "" if the window spans several
	Jobs     int         // different ones; 0: nothing is known
	Shortest pool.Micros // negative: seen before it was queued
	At       pool.Micros // the snapshot
	Schedd   string      // the access point of that job
}

// shortestWait finds the shortest wait among the claims of a window. If none is short, only jobs that were queued after
// the window's first snapshot count: the others began before it, at a time that nothing tells.
func shortestWait(v *timeline.View, w pool.Window) Wait {
	if all := shortestSince(v, w, 0); !all.late() {
		return all
	}
	first, _ := v.Snapshots(w)
	return shortestSince(v, w, v.Times[first])
}

// shortestSince finds the shortest wait of the jobs that were queued at a time or later.
func shortestSince(v *timeline.View, w pool.Window, since pool.Micros) Wait {
	wait := Wait{Window: w}
	jobs := map[timeline.Job]struct{}{}
	var schedd timeline.Symbol
	v.Claims(w, func(t pool.Micros, job timeline.Job) {
		queued, ok := job.Queued()
		if !ok || queued < since {
			return
		}
		if len(jobs) == 0 || t-queued < wait.Shortest {
			wait.Shortest, wait.At, schedd = t-queued, t, job.Schedd
		}
		jobs[job] = struct{}{}
	})
	wait.Jobs, wait.Schedd = len(jobs), v.Names.Text(schedd)
	return wait
}

const (
	// ClockSkew is the greatest assumed difference between the clocks of access points and collector (htcondor.md).
	ClockSkew = 2 * pool.Minute
	// longestFirstWait: in a week of a pool some job starts within this time after it was queued.
	longestFirstWait = pool.Hour
	// zoneStep is the step by which time zones differ. (Those by a quarter of an hour are rare, and no first wait is
	// that exact.)
	zoneStep = 30 * pool.Minute
)

// early reports whether a job was seen before it was queued, by more than clocks differ.
func (w *Wait) early() bool { return w.Jobs > 0 && w.Shortest < -ClockSkew }

// late reports whether no job was seen soon after it was queued.
func (w *Wait) late() bool { return w.Jobs > 0 && w.Shortest > longestFirstWait }

// shift is how far the collector's local time seems to be ahead of the setting, in steps of time zones.
func (w *Wait) shift() pool.Micros {
	const fewJobs = 20 // too few to expect that one of them starts immediately
	if !w.early() && (!w.late() || w.Jobs < fewJobs) {
		return 0
	}
	steps := (w.Shortest + ClockSkew) / zoneStep
	if w.Shortest+ClockSkew < 0 && (w.Shortest+ClockSkew)%zoneStep != 0 {
		steps--
	}
	if steps == -1 { // less than half an hour early: no zone, a clock
		return 0
	}
	return steps * zoneStep
}

// examples are time zones that a collector may be in, the likely ones first.
var examples = []string{"UTC", "America/Chicago", "America/New_York", "America/Denver", "America/Los_Angeles",
	"America/Phoenix", "Europe/London", "Europe/Berlin", "Europe/Helsinki",
	"Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland"}

// likely names the time zone that fits all these waits; "" if no zone of the world does.
func likely(zone *localtime.Zone, shifted []Wait) string {
	offset := func(w *Wait) pool.Micros { return zone.Offset(w.At) + w.shift() }
	for _, name := range examples {
		location, err := localtime.Location(name)
		if err == nil && !slices.ContainsFunc(shifted, func(w Wait) bool {
			_, s := pool.Time(w.At - w.shift()).In(location).Zone()
			return pool.Micros(s)*pool.Second != offset(&w)
		}) {
			return name
		}
	}
	var offsets []string
	for i := range shifted {
		if !isOffset(offset(&shifted[i])) {
			return ""
		}
		offsets = append(offsets, offsetText(offset(&shifted[i])))
	}
	return strings.Join(slices.Compact(offsets), ", later ")
}

// isOffset reports whether a place of the world has an offset from UTC, in steps of half hours.
func isOffset(d pool.Micros) bool {
	halves := d / zoneStep
	return halves >= -24 && halves <= 28 && (halves%2 == 0 || slices.Contains([]pool.Micros{-19, -7, -5, 7, 9, 11, 13, 19,
		21}, halves))
}

func offsetText(d pool.Micros) string {
	sign := "+"
	if d < 0 {
		sign, d = "−", -d
	}
	return fmt.Sprintf("UTC%s%02d:%02d", sign, d/pool.Hour, d%pool.Hour/pool.Minute)
}

// zoneFinding compares the snapshots of consecutive windows with the queue dates of their jobs. of says where the
// windows lie.
func zoneFinding(waits []Wait, zone *localtime.Zone, of string) Finding {
	// Sort the windows by what they show.
	var shifted, fitting []Wait
	var ahead *Wait // a clock, not a zone
	var few *Wait   // all jobs are late, but they are too few to tell a zone
	var weeks []Details
	for i := range waits {
		w := &waits[i]
		if w.Jobs == 0 {
			continue
		}
		week := Details{"month": w.Month, "from": pool.Time(w.Window.From), "to": pool.Time(w.Window.To),
			"shortestWaitSeconds": seconds(w.Shortest), "jobs": w.Jobs}
		switch shift := w.shift(); {
		case shift != 0:
			shifted = append(shifted, *w)
			week["shiftSeconds"] = seconds(shift)
		case w.early():
			if ahead == nil || w.Shortest < ahead.Shortest {
				ahead = w
			}
		case w.late():
			few = w
		default:
			fitting = append(fitting, *w)
		}
		weeks = append(weeks, week)
	}
	// Report the worst: a wrong zone, a wrong clock, too few jobs, none.
	found := Finding{Store: "timezone", Severity: OK, Details: Details{"timezone": zone.Key(), "weeks": weeks}}
	switch {
	case len(shifted) > 0:
		found.Add(Warning, "%s", shiftText(zone, shifted, fitting, of))
	case ahead != nil:
		found.Add(Warning, "time zone: %s fits, but a job of %s is seen %s before it was queued (%s UTC): that "+
			"access point's clock is ahead, or the collector's behind. Keep both with NTP", shown(zone), ahead.Schedd,
			length(-ahead.Shortest), minute(ahead.At))
	case len(fitting) == 0 && few != nil:
		found.Add(Warning, "time zone: with %s no job of %s is seen sooner than %s after it was queued, but only %s can "+
			"tell: look whether snapshots have the right time", shown(zone), of, length(few.Shortest), count(few.Jobs, "job"))
	case len(fitting) == 0:
		found.Add(Note, "time zone: in %s no job was queued and began while snapshots show it, so nothing tells whether %s "+
			"is right yet", of, shown(zone))
	default:
		found.Text = fmt.Sprintf("time zone: %s fits the jobs' queue dates in %s", shown(zone), of)
	}
	return found
}

// shiftText says where the time zone is wrong, and which one fits.
func shiftText(zone *localtime.Zone, shifted, fitting []Wait, of string) string {
	partly := len(fitting) > 0
	worst := shifted[0]
	name := likely(zone, shifted)
	// Say where the zone does not fit, and how that is seen.
	where := "in " + of
	if partly {
		where = fmt.Sprintf("from %s to %s UTC", minute(shifted[0].Window.From), minute(shifted[len(shifted)-1].Window.To))
		var months []string
		for _, w := range shifted {
			months = append(months, w.Month)
		}
		if months = slices.Compact(months); months[0] != "" {
			where += fmt.Sprintf(" (month file %s)", some(months))
		}
	}
	text := fmt.Sprintf("time zone: %s does not fit %s: ", shown(zone), where)
	if worst.early() {
		text += fmt.Sprintf("a job is seen %s before it was queued", length(-worst.Shortest))
	} else {
		text += fmt.Sprintf("no job is seen sooner than %s after it was queued", length(worst.Shortest))
	}
	// Say which zone the clock seems to show, and what to set.
	if name == "" {
		return text + fmt.Sprintf(". All times seem to be off by %s, which no time zone explains: compare the collector's "+
			"clock, and the timestamps that it writes, with a clock that is right",
			length(max(worst.shift(), -worst.shift())))
	}
	text += fmt.Sprintf(". The collector's clock seems to show %s: all times are off by %s", name,
		length(max(worst.shift(), -worst.shift())))
	from, before, after := shifted[0].Window.From, zone.Key(), name
	switch {
	case isList(zone):
		return text + ". Correct the list that timezone is"
	case !partly:
		return text + ". Set timezone to it"
	case fitting[0].Window.From > from:
		from, before, after = fitting[0].Window.From, name, zone.Key()
	}
	return text + fmt.Sprintf(`. Give timezone as a list: [{"until": "%s", "zone": "%s"}, {"zone": "%s"}], with the time `+
		"of the change", pool.Time(zone.Local(from)).Format(time.DateTime), before, after)
}

// isList reports whether the setting names several zones.
func isList(zone *localtime.Zone) bool { return strings.Contains(zone.Key(), ";") }

func shown(zone *localtime.Zone) string {
	if isList(zone) {
		return "the list of zones"
	}
	return zone.Key()
}

// zoneData says which release of the time zone database is in use.
func zoneData(zone *localtime.Zone) Finding {
	data, origin := zone.Database(), "embedded in the plugin"
	if data.Machine != "" {
		origin = "of this machine (" + data.Machine + "), which is newer than the plugin's " + localtime.Embedded().Release
	}
	return Finding{Store: "time zone data", Severity: OK,
		Details: Details{"release": data.Release, "machine": data.Machine},
		Text:    fmt.Sprintf("time zone data: release %s, %s", data.Release, origin)}
}

// NewestZone compares the snapshots of the newest week with the times at which their jobs were queued. If they do not
// fit, older weeks show since when.
func (f *Findings) NewestZone(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone) {
	waits, err := newestWaits(ctx, t)
	if len(waits) == 0 {
		f.Add("timezone", Warning, nil, "%v", err)
		return
	}
	found := zoneFinding(waits, zone, "the newest 7 days of snapshots")
	if err != nil {
		found.Add(found.Severity, ". Older data do not show since when: %v", err)
	}
	*f = append(*f, found)
}

// newestWaits returns the wait of the newest week. If it does not fit the time zone, but older data do, it returns the
// wait of the last week that fits and that of the time since the collector's clock changed. If older data cannot be
// read, it returns the newest week with the error.
func newestWaits(ctx context.Context, t *timeline.Timeline) ([]Wait, error) {
	first, newest, _, err := t.Range(ctx)
	before := func(n int) (wait Wait) { // reads the n-th week before the newest one
		if to := newest - pool.Micros(n)*week; err == nil {
			wait, err = waitIn(ctx, t, pool.Window{From: to - week + 1, To: to})
		}
		return wait
	}
	last := before(0)
	if err != nil {
		return nil, err
	}
	if last.shift() == 0 {
		return []Wait{last}, nil
	}
	weeks := int((newest - first) / week)
	fits := 1 + sort.Search(weeks, func(n int) bool {
		wait := before(n + 1)
		return wait.Jobs > 0 && wait.shift() == 0
	})
	if fits > weeks {
		return []Wait{last}, err
	}
	fitting, changed := before(fits), pool.Micros(0)
	if err == nil {
		changed, err = zoneChange(ctx, t, fitting.Window)
	}
	if err != nil {
		return []Wait{last}, err
	}
	last.Window.From = changed
	return []Wait{fitting, last}, nil
}

func waitIn(ctx context.Context, t *timeline.Timeline, w pool.Window) (Wait, error) {
	v, err := t.Load(ctx, w.From, w.To)
	if err != nil {
		return Wait{}, err
	}
	return shortestWait(v, w), nil
}

// zoneChange finds the time of a change in a week that fits or the one after it: where the collector switched to
// another format, otherwise the beginning of the first day that does not fit.
func zoneChange(ctx context.Context, t *timeline.Timeline, fitting pool.Window) (at pool.Micros, err error) {
	state, err := t.Source.Look(ctx)
	if err != nil {
		return 0, err
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		return 0, err
	}
	format, end := "", fitting.To+week
	for _, part := range parts {
		if part.Err != nil || !part.Dated {
			continue
		}
		is := path.Ext(part.Name)
		if format != "" && is != format && fitting.From < part.Window.From && part.Window.From <= end {
			return part.Window.From, nil
		}
		format = is
	}
	for at = fitting.From / pool.Day * pool.Day; at <= end; at += pool.Day {
		if wait, err := waitIn(ctx, t, pool.Window{From: at, To: at + pool.Day - 1}); err != nil || wait.shift() != 0 {
			return at, err
		}
	}
	return fitting.To + 1, nil
}
