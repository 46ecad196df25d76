package check

import (
	"fmt"
	"slices"
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
