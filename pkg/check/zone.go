package check

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Wait is the shortest time from a job's queue date (qdate in its GlobalJobId, always UTC) to a snapshot that shows it,
// in a window: no job is seen before it was queued, and in a week some job starts soon after (htcondor.md). So it shows
// how far the collector's local time is from the setting timezone.
type Wait struct {
	Window   pool.Window
	Jobs     int         // different ones; 0: nothing is known
	Shortest pool.Micros // negative: seen before it was queued
	At       pool.Micros // the snapshot
	Schedd   string      // the access point of that job
}

// shortestWait finds the shortest wait among the claims of a window.
func shortestWait(v *timeline.View, w pool.Window) Wait {
	wait := Wait{Window: w}
	jobs := map[timeline.Job]struct{}{}
	var schedd timeline.Symbol
	v.Claims(w, func(t pool.Micros, job timeline.Job) {
		queued, ok := job.Queued()
		if !ok {
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

// fewJobs are too few to expect that one of them starts immediately.
const fewJobs = 20

// shift is how far the collector's local time seems to be ahead of the setting, in steps of time zones.
func (w *Wait) shift() pool.Micros {
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

// likely names the time zone that fits all these waits.
func likely(zone *localtime.Zone, shifted []Wait) string {
	offset := func(w *Wait) pool.Micros { return zone.Offset(w.At) + w.shift() }
	for _, name := range examples {
		location, err := localtime.Location(name)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(shifted, func(w Wait) bool {
			_, s := pool.Time(w.At - w.shift()).In(location).Zone()
			return pool.Micros(s)*pool.Second != offset(&w)
		}) {
			return name
		}
	}
	var offsets []string
	for i := range shifted {
		offsets = append(offsets, offsetText(offset(&shifted[i])))
	}
	return strings.Join(slices.Compact(offsets), ", later ")
}

func offsetText(d pool.Micros) string {
	sign := "+"
	if d < 0 {
		sign, d = "−", -d
	}
	return fmt.Sprintf("UTC%s%02d:%02d", sign, d/pool.Hour, d%pool.Hour/pool.Minute)
}

// zoneFinding compares the snapshots of each file with the queue dates of their jobs.
func zoneFinding(all []month, zone *localtime.Zone) Finding {
	found := Finding{Store: "timezone", Severity: OK}
	var shifted, fitting []Wait
	var ahead *Wait // a clock, not a zone
	var details []map[string]any
	var affected []string
	told := 0
	for i := range all {
		m := &all[i]
		for k := range m.waits {
			w := &m.waits[k]
			if w.Jobs == 0 {
				continue
			}
			told++
			entry := map[string]any{"month": m.Month, "from": pool.Time(w.Window.From), "to": pool.Time(w.Window.To),
				"shortestWaitSeconds": seconds(w.Shortest), "jobs": w.Jobs}
			switch shift := w.shift(); {
			case shift != 0:
				shifted = append(shifted, *w)
				entry["shiftSeconds"] = seconds(shift)
				affected = append(affected, m.Month)
			case w.early():
				if ahead == nil || w.Shortest < ahead.Shortest {
					ahead = w
				}
			default:
				fitting = append(fitting, *w)
			}
			details = append(details, entry)
		}
	}
	found.Details = map[string]any{"timezone": zone.Key(), "weeks": details}
	switch {
	case told == 0:
		found.Add(Note, "time zone: no job of any month file shows whether %s is right", shown(zone))
		return found
	case len(shifted) > 0:
		found.Add(Warning, "%s", shiftText(zone, shifted, fitting, slices.Compact(affected)))
	case ahead != nil:
		found.Add(Warning, "time zone: %s fits, but a job of %s is seen %s before it was queued (%s UTC): that "+
			"access point's clock is ahead, or the collector's behind. Keep both with NTP", shown(zone), ahead.Schedd,
			length(-ahead.Shortest), minute(ahead.At))
	default:
		found.Text = fmt.Sprintf("time zone: %s fits the jobs' queue dates in %s", shown(zone), count(len(all), "month file"))
	}
	return found
}

// shiftText says where the time zone is wrong, and which one fits.
func shiftText(zone *localtime.Zone, shifted, fitting []Wait, affected []string) string {
	partly := len(fitting) > 0
	worst := shifted[0]
	name := likely(zone, shifted)
	where := "in all month files"
	if partly {
		where = fmt.Sprintf("from %s to %s UTC (month file %s)", minute(shifted[0].Window.From),
			minute(shifted[len(shifted)-1].Window.To), some(affected))
	}
	text := fmt.Sprintf("time zone: %s does not fit %s: ", shown(zone), where)
	if worst.early() {
		text += fmt.Sprintf("a job is seen %s before it was queued", length(-worst.Shortest))
	} else {
		text += fmt.Sprintf("no job is seen sooner than %s after it was queued", length(worst.Shortest))
	}
	text += fmt.Sprintf(". The collector's clock seems to show %s: all times are off by %s", name,
		length(max(worst.shift(), -worst.shift())))
	if !partly {
		return text + ". Set timezone to it"
	}
	if isList(zone) {
		return text + ". Correct the list that timezone is"
	}
	text += ". Give timezone as a list: "
	const change = ", with the time of the change"
	if first := shifted[0].Window.From; fitting[0].Window.From < first {
		return text + zoneList(zone.Text(first), zone.Key(), name) + change
	}
	return text + zoneList(zone.Text(fitting[0].Window.From), name, zone.Key()) + change
}

// zoneList is the setting of two zones, the first one until a local time.
func zoneList(until, before, after string) string {
	return fmt.Sprintf(`[{"until": "%s", "zone": "%s"}, {"zone": "%s"}]`, until, before, after)
}

// isList reports whether the setting names several zones.
func isList(zone *localtime.Zone) bool { return strings.Contains(zone.Key(), ";") }

// shown is the time zone as the setting has it.
func shown(zone *localtime.Zone) string {
	if isList(zone) {
		return "the list of zones"
	}
	return zone.Key()
}

// NewestZoneFinding compares the snapshots of the newest week, of which the view is, with the times at which their jobs
// were queued.
func NewestZoneFinding(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone, view *timeline.View,
	w pool.Window) Finding {
	found := Finding{Store: "timezone", Severity: OK, Details: map[string]any{"timezone": zone.Key()}}
	wait := shortestWait(view, w)
	if wait.Jobs == 0 {
		found.Text = fmt.Sprintf("time zone: %s; no job in the newest 7 days of snapshots shows whether it is right",
			zone.Key())
		return found
	}
	found.Details["shortestWaitSeconds"] = seconds(wait.Shortest)
	var remedy string // unless there is a better one
	switch {
	case wait.early():
		found.Text = fmt.Sprintf("time zone: with %s a job of %s is seen %s before it was queued: the collector's clock is "+
			"behind the setting timezone. ", zone.Key(), wait.Schedd, WholeLength(-wait.Shortest))
		remedy = "It is too little for another zone: keep the collector's clock and that access point's with NTP"
	case wait.late():
		found.Text = fmt.Sprintf("time zone: with %s no job is seen sooner than %s after it was queued: the collector's "+
			"clock is ahead of the setting timezone, for example because it writes "+
			"UTC. ", zone.Key(), WholeLength(wait.Shortest))
		remedy = fmt.Sprintf("Only %d jobs tell: look whether snapshots have the right time", wait.Jobs)
	default:
		found.Text = fmt.Sprintf("time zone: %s fits the jobs' queue dates", zone.Key())
		return found
	}
	found.Severity = Warning
	advice, err := zoneAdvice(ctx, t, zone, wait)
	switch {
	case err != nil:
		remedy = "Older data do not show since when: " + err.Error()
	case advice != "":
		remedy = advice
	}
	found.Text += remedy
	return found
}

// zoneAdvice proposes a value for timezone if the newest data do not fit the current one: another zone, or, if older
// data fit, the list form with the time at which the collector's clock changed. "" if the time zone is not the fault.
// wait is the wait of the newest week.
func zoneAdvice(ctx context.Context, t *timeline.Timeline, zone *localtime.Zone, wait Wait) (string, error) {
	if wait.shift() == 0 {
		return "", nil
	}
	name := likely(zone, []Wait{wait})
	if isList(zone) {
		return "Let the last zone of the list be " + name, nil
	}
	change, err := zoneChange(ctx, t, wait.Window.To)
	if err != nil || change == 0 {
		return "Set timezone to " + name, err
	}
	return "The older data fit: set timezone to " + zoneList(zone.Text(change), zone.Key(), name), nil
}

// zoneChange returns the first snapshot from which on the time zone does not fit, if it has changed once before the
// newest snapshot; 0 if no older data fit.
func zoneChange(ctx context.Context, t *timeline.Timeline, newest pool.Micros) (at pool.Micros, err error) {
	first, _, ok, err := t.Range(ctx)
	if err != nil || !ok {
		return 0, err
	}
	before := func(n int) pool.Window { // the n-th week before the newest one
		to := newest - pool.Micros(n)*week
		return pool.Window{From: to - week + 1, To: to}
	}
	weeks := int((newest - first) / week)
	fitting := 1 + sort.Search(weeks, func(n int) bool {
		if err != nil {
			return false
		}
		var wait Wait
		_, wait, err = waitIn(ctx, t, before(n+1))
		return wait.Jobs > 0 && wait.shift() == 0
	})
	if err != nil || fitting > weeks {
		return 0, err
	}
	return zoneChangeIn(ctx, t, pool.Window{From: before(fitting).From, To: before(fitting - 1).To})
}

// waitIn returns the view of a window and its shortest wait.
func waitIn(ctx context.Context, t *timeline.Timeline, w pool.Window) (*timeline.View, Wait, error) {
	v, err := t.Load(ctx, w.From, w.To)
	if err != nil {
		return nil, Wait{}, err
	}
	return v, shortestWait(v, w), nil
}

// zoneChangeIn finds the change in a window: where the collector switched to another format, otherwise at the first
// snapshot of the first day that does not fit.
func zoneChangeIn(ctx context.Context, t *timeline.Timeline, w pool.Window) (at pool.Micros, err error) {
	state, err := t.Source().Look(ctx)
	if err != nil {
		return 0, err
	}
	parts, err := state.Parts(ctx)
	if err != nil {
		return 0, err
	}
	format := ""
	for _, part := range parts {
		if part.Err != nil || !part.Dated {
			continue
		}
		is := path.Ext(part.Name)
		if format != "" && is != format && w.From < part.Window.From && part.Window.From <= w.To {
			return part.Window.From, nil
		}
		format = is
	}
	for date := pool.DayOf(w.From); date <= pool.DayOf(w.To); date++ {
		begin := pool.Micros(date) * pool.Day
		day := pool.Window{From: begin, To: begin + pool.Day - 1}
		v, wait, err := waitIn(ctx, t, day)
		if err != nil {
			return 0, err
		}
		if first, end := v.Snapshots(day); first < end && wait.shift() != 0 {
			return v.Times[first], nil
		}
	}
	return 0, nil
}
