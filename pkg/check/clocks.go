package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// clock is what the runs of an access point's jobs tell of its clock.
type clock struct {
	schedd string
	runs   int
	off    int         // runs that start by their ad after a snapshot shows them, or end before the last one that does
	shift  pool.Micros // how far the clock is ahead of the collector's, as fits the most runs
	within pool.Micros // that estimate's half width
}

const (
	// exact is what a run's ad and its snapshots may contradict each other by.
	exact = 5 * pool.Second
	// tolerated share of runs that do.
	tolerated = 0.05
	// enough runs to judge a clock by.
	enough = 20
	// near is how far an ad's times may be from a run's and still be taken for its.
	near = pool.Hour
)

func (c *clock) wrong() bool { return c.runs >= enough && float64(c.off) > tolerated*float64(c.runs) }

// interval says between which errors of the clock the ad agrees with the snapshots.
type interval struct{ low, high pool.Micros }

// match is a run with the one ad that can only be its.
type match struct {
	schedd     timeline.Symbol
	job        timeline.Job
	adStart    pool.Micros
	begin, end interval // by the start and by the end; {−∞, ∞} where nothing is told
	off        bool
}

var nothing = interval{math.MinInt64, math.MaxInt64}

// clocks measures the clock of each access point by the runs that one ad describes without a doubt: the only one of
// their job on that machine and GPU around that time, which describes no other run. Clocks that are off by more than
// two minutes are beyond what linking tolerates, so the links of pkg/runs would not do.
func (o *observed) clocks() []clock {
	var matches []match
	type ad struct {
		job   timeline.Job
		start pool.Micros
	}
	uses := map[ad]int{}
	o.each(func(machine *runs.Machine, m, r int) {
		if found, ok := o.match(machine, &machine.Runs[r], o.ads.Of(o.Observed, m, r)); ok {
			matches = append(matches, found)
			uses[ad{found.job, found.adStart}]++
		}
	})
	bySchedd := map[timeline.Symbol][]match{}
	for _, found := range matches {
		if uses[ad{found.job, found.adStart}] == 1 {
			bySchedd[found.schedd] = append(bySchedd[found.schedd], found)
		}
	}
	all := make([]clock, 0, len(bySchedd))
	for schedd, found := range bySchedd {
		c := clock{schedd: o.View.Names.Text(schedd), runs: len(found)}
		var told []interval
		for _, f := range found {
			if f.off {
				c.off++
			}
			told = append(told, f.begin, f.end)
		}
		c.shift, c.within = fit(told)
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b clock) int { return cmp.Compare(a.schedd, b.schedd) })
	return all
}

// match compares a run with its ad.
func (o *observed) match(machine *runs.Machine, run *runs.Run, ads []jobs.Ad) (match, bool) {
	times := o.View.Times
	first, last := times[run.First], times[run.Last]
	var own *jobs.Ad
	var start, end pool.Micros
	for i := range ads {
		ad := &ads[i]
		s, e := adTimes(ad)
		if s == 0 || !o.on(ad, machine, run) || s > last+near || e != 0 && e < first-near {
			continue
		}
		switch {
		case own == nil, s == start && ad.Kind == jobs.Epoch:
			own, start, end = ad, s, e
		case s != start:
			return match{}, false
		}
	}
	if own == nil || start > first+near || end != 0 && end < last-near {
		return match{}, false
	}
	found := match{schedd: run.Job.Schedd, job: run.Job, adStart: start, begin: nothing, end: nothing}
	found.begin.low = start - first
	if int(run.First) > o.First && !o.GapAfter(run.First-1) {
		found.begin.high = start - times[run.First-1]
	}
	found.off = start > first+exact
	if end != 0 {
		found.end.high = end - last
		if run.Ending == runs.Vanished {
			found.end.low = end - times[run.Gone]
		}
		found.off = found.off || end < last-exact
	}
	return found, true
}

// adTimes are the start and the end of the run that an ad describes, 0 where it does not say.
func adTimes(ad *jobs.Ad) (start, end pool.Micros) {
	if ad.JobCurrentStartDate.IsZero() {
		return 0, 0
	}
	start = ad.JobCurrentStartDate.UnixMicro()
	switch {
	case !ad.EpochWriteDate.IsZero():
		end = ad.EpochWriteDate.UnixMicro()
	case !ad.CompletionDate.IsZero():
		end = ad.CompletionDate.UnixMicro()
	case ad.LastRemoteWallClockTime > 0:
		end = start + pool.Micros(ad.LastRemoteWallClockTime*float64(pool.Second))
	}
	return start, end
}

// on tells whether an ad's run was where the run was.
func (o *observed) on(ad *jobs.Ad, machine *runs.Machine, run *runs.Run) bool {
	if ad.Machine != o.View.Names.Text(machine.Name) || ad.OnBackfill() != (run.Side == pool.Backfill) {
		return false
	}
	return len(ad.GPUs) == 0 || slices.ContainsFunc(run.GPUs, func(g int32) bool {
		return slices.Contains(ad.GPUs, o.View.Names.Text(machine.GPUs[g].ID))
	})
}

// fit finds the value that lies in the most intervals: the middle of the widest range of such values, and its half
// width.
func fit(intervals []interval) (value, within pool.Micros) {
	type edge struct {
		at    pool.Micros
		delta int
	}
	var edges []edge
	for _, i := range intervals {
		edges = append(edges, edge{i.low, 1}, edge{i.high, -1})
	}
	// closed
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.delta, a.delta)) })
	depth, best := 0, 0
	var widest interval
	for k, e := range edges {
		depth += e.delta
		if k+1 == len(edges) || depth < best {
			continue
		}
		next := interval{max(e.at, -pool.Day), min(edges[k+1].at, pool.Day)}
		if depth > best || next.high-next.low > widest.high-widest.low {
			best, widest = depth, next
		}
	}
	return (widest.low + widest.high) / 2, (widest.high - widest.low) / 2
}

// clockFindings names the access points whose clock is off.
func clockFindings(all []clock) (findings []Finding) {
	var details []map[string]any
	var wrong []clock
	judged, right := 0, 0
	for _, c := range all {
		details = append(details, map[string]any{"accessPoint": c.schedd, "runs": c.runs, "contradictions": c.off,
			"aheadSeconds": seconds(c.shift), "withinSeconds": seconds(c.within)})
		switch {
		case c.wrong():
			wrong = append(wrong, c)
			judged++
		case c.runs >= enough:
			right++
			judged++
		}
	}
	summary := Finding{Store: "clocks", Severity: OK, Details: map[string]any{"accessPoints": details}}
	switch {
	case judged == 0:
		summary.Severity = Note
		summary.Text = fmt.Sprintf("clocks: no access point has %d runs with an ad of their own to compare with snapshots",
			enough)
	case len(wrong) == 0:
		summary.Text = fmt.Sprintf("clocks: those of %s agree with the snapshots", count(right, "access point"))
	case collectorOff(wrong, right):
		summary.Severity = Warning
		summary.Text = fmt.Sprintf("clocks: those of all %s are %s the collector's by the same %s: it is the collector's "+
			"clock that is wrong. Keep it with NTP", count(len(wrong), "access point"), aheadOf(wrong[0].shift),
			length(max(wrong[0].shift, -wrong[0].shift)))
		wrong = nil
	default:
		summary.Text = fmt.Sprintf("clocks: those of %d of %s agree with the snapshots", right, count(judged, "access point"))
	}
	findings = append(findings, summary)
	for _, c := range wrong {
		findings = append(findings, Finding{Store: "clock of " + c.schedd, Severity: Warning,
			Text: fmt.Sprintf("clocks: that of access point %s is off: %d of %s with an ad of their own (%.0f %%) start by "+
				"it after a snapshot shows them, or end before the last one that does. That fits a clock %s %s the collector's "+
				"(give or take %s). Keep it with NTP; until then its jobs' starts and ends are off by as much",
				c.schedd, c.off, count(c.runs, "run"), 100*float64(c.off)/float64(c.runs), length(max(c.shift, -c.shift)),
				aheadOf(c.shift), length(c.within)),
			Details: map[string]any{"accessPoint": c.schedd, "aheadSeconds": seconds(c.shift)}})
	}
	return findings
}

// collectorOff tells whether all clocks are wrong by the same: then theirs are right and the collector's is not.
func collectorOff(wrong []clock, right int) bool {
	return right == 0 && len(wrong) >= 2 && !slices.ContainsFunc(wrong, func(c clock) bool {
		d := c.shift - wrong[0].shift
		return max(d, -d) > 10*pool.Second
	})
}

func aheadOf(shift pool.Micros) string {
	if shift < 0 {
		return "behind"
	}
	return "ahead of"
}
