package check

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
)

// jobs checks the job ads of the newest data's runs. A source that does not answer is the health check's finding.
func (c *checking) jobs(ctx context.Context) {
	newest, err := c.Ads.Newest(ctx)
	if err != nil {
		return
	}
	c.Findings = append(c.Findings, lagFinding(newest, c.recent.To, c.Now))
	if err := c.links(ctx); err != nil {
		c.Add("links", Warning, nil, "links: %v", err)
	}
}

// links checks how well job ads describe the newest data's runs.
func (c *checking) links(ctx context.Context) error {
	w := c.recent
	o, err := c.Runs.ObserveWindow(ctx, w, c.Lists)
	if err != nil {
		return err
	}
	wanted := func(m, r int) bool {
		run := &o.Machines[m].Runs[r]
		return o.View.Times[run.First] <= w.To && o.View.Times[run.Last] >= w.From
	}
	known, err := o.History(ctx, c.Ads)
	if err != nil {
		return err
	}
	if known.Failure != nil {
		return known.Failure
	}
	for _, notice := range known.Notices {
		c.Add("ads", Warning, nil, "%s", notice)
	}
	ads, failure, err := o.AdsOf(ctx, c.Ads, wanted)
	if err := cmp.Or(err, failure); err != nil {
		return err
	}
	rate := linked.ShareOf(known.Explanations, c.Now, linked.OnBackfill(w)).Rate()
	schema := schemaOf(o, wanted, ads)
	c.Findings = append(c.Findings, schemaFinding(schema), linksFinding(rate, schema, w))
	if err := c.attributes(ctx, ads); err != nil {
		return err
	}
	c.clocks(known.Clocks.ClocksIn(w))
	return nil
}

// attributes reports whether a store lacks the attributes that show failures and used memory, as a job file of an
// earlier version does.
func (c *checking) attributes(ctx context.Context, ads [][]jobs.Ad) error {
	// Count the ads that lack them.
	var exits runs.Exits
	all, withPeak := 0, 0
	for _, list := range ads {
		for i := range list {
			ad := &list[i]
			if all++; ad.PeakMiB >= 0 {
				withPeak++
			}
			if ad.JobStatus != jobs.StatusCompleted {
				continue
			}
			if exits.Completed++; !ad.Exited {
				exits.Untold++
			}
		}
	}
	const enoughAds = 20 // short runs have no peak
	noPeaks := all >= enoughAds && withPeak == 0
	if !exits.Lacking() && !noPeaks {
		return nil
	}
	// Name the store, and the consequence of each lack.
	health, err := c.Ads.Health(ctx)
	if err != nil {
		return err
	}
	severity, text := Note, ""
	if exits.Lacking() {
		severity, text = Warning, fmt.Sprintf("in the %s, %d of %d ads of completed jobs lack ExitCode and ExitBySignal, so "+
			"jobs that fail do not count in the view failures of utilization. ", health.Store, exits.Untold, exits.Completed)
	}
	if noPeaks {
		text += fmt.Sprintf("None of %s in the %s has GPUsMemoryUsage, so usedMemory is Unknown. ", count(all, "ad"),
			health.Store)
	}
	c.Add("attributes", severity, Details{"completed": exits.Completed, "withoutExit": exits.Untold, "ads": all,
		"withPeak": withPeak}, "attributes: %sIf an earlier version imported them, delete the job file and import "+
		"everything that condor_history prints again; if they are in an index, see that it stores these attributes", text)
	return nil
}

// schemas counts jobs with ads of each schema, jobs with ads of both in each.
type schemas struct{ jobs, without, refactored, legacy int }

func schemaOf(o *runs.Observed, wanted runs.Wanted, ads [][]jobs.Ad) (s schemas) {
	counted := map[int32]bool{}
	for m := range o.Machines {
		for r := range o.Machines[m].Runs {
			job := o.JobOf(m, r)
			if job < 0 || counted[job] || !wanted(m, r) {
				continue
			}
			counted[job] = true
			s.jobs++
			if slices.ContainsFunc(ads[job], func(ad jobs.Ad) bool { return ad.Refactored }) {
				s.refactored++
			}
			if slices.ContainsFunc(ads[job], func(ad jobs.Ad) bool { return !ad.Refactored }) {
				s.legacy++
			}
			if len(ads[job]) == 0 {
				s.without++
			}
		}
	}
	return s
}

func schemaFinding(s schemas) Finding {
	found := Finding{Store: "schema", Severity: OK, Details: Details{"jobs": s.jobs, "without": s.without,
		"refactored": s.refactored, "legacy": s.legacy}}
	switch {
	case s.refactored > 0 && s.legacy > 0:
		found.Text = fmt.Sprintf("schema: mixed, %s of adstash's refactored schema (HTCondor 25.14 and later), %d of the "+
			"legacy one: both are read", count(s.refactored, "job"), s.legacy)
	case s.refactored > 0:
		found.Text = "schema: adstash's refactored one (HTCondor 25.14 and later)"
	case s.legacy > 0:
		found.Text = "schema: adstash's legacy one (before HTCondor 25.14), or condor_history's: all is read, though long " +
			"lists of GPUs may be cut in it"
	default:
		found.Add(Note, "schema: none of %s has an ad to tell it from", count(s.jobs, "job"))
	}
	return found
}

// lagFinding compares the newest ad with the newest snapshot, so that a stop of both is reported once.
func lagFinding(newest time.Time, snapshot, now pool.Micros) Finding {
	found := Finding{Store: "lag", Severity: OK}
	if newest.IsZero() {
		found.Add(Warning, "lag: no job ads found. Check that adstash is running, and that the index or the job file is "+
			"correct")
		return found
	}
	lag := snapshot - newest.UnixMicro()
	found.Details = Details{"newest": newest, "behindSnapshotsSeconds": seconds(lag),
		"lagSeconds": seconds(now - newest.UnixMicro())}
	switch {
	case newest.UnixMicro() > now+5*pool.Minute:
		found.Add(Warning, "lag: the newest job ad is of the future, %s UTC: the clock of its access point is "+
			"ahead. Keep it with NTP", minute(newest.UnixMicro()))
	case lag > 2*pool.Hour: // adstash polls every 20 minutes
		found.Add(Warning, "lag: job ads end at %s UTC, %s before the snapshots: later completions and evictions "+
			"are not known. Check that adstash (or the import into the job file) runs", minute(newest.UnixMicro()), length(lag))
	case lag >= 0:
		found.Text = fmt.Sprintf("lag: the newest job ad is %s older than the newest snapshot", length(lag))
	default:
		found.Text = "lag: the newest job ad is newer than the newest snapshot"
	}
	return found
}

// linksFinding judges the link rate; s names possible reasons for a low one.
func linksFinding(rate float64, s schemas, w pool.Window) Finding {
	found := Finding{Store: "links", Severity: OK, Details: Details{"jobs": s.jobs, "jobsWithoutAd": s.without}}
	period := fmt.Sprintf("the newest %s", length(w.To-w.From))
	if math.IsNaN(rate) {
		found.Add(Note, "links: fewer than 20 backfill runs ended in %s: too few for a link rate; %d of %s have "+
			"an ad", period, s.jobs-s.without, count(s.jobs, "job"))
		return found
	}
	found.Details["linkRate"] = rate
	found.Text = fmt.Sprintf("links: job ads explain %.1f %% of the backfill runs that ended in %s; %d of %s have an ad",
		rate, period, s.jobs-s.without, count(s.jobs, "job"))
	switch {
	case rate >= 80:
		return found
	case rate < 50:
		found.Text += ". Below 50% completions count as not seen, and survival of jobs has no value"
	}
	found.Severity = Warning
	if 2*s.without > s.jobs {
		found.Text += ". Check that the index, or the job file, holds the ads of all access points and of this period, " +
			"and that GlobalJobIds are stored whole"
	} else {
		found.Text += ". The jobs' ads are there, but do not describe these runs: collect epoch ads (one a run), and see " +
			"whether clocks or the time zone are wrong"
	}
	return found
}

// Clocks measures the access points' clocks on the UTC days of a window, as answers do. If it cannot, a note gives
// the reason.
func (f *Findings) Clocks(ctx context.Context, s *stores.Stores, lists pool.Lists, w pool.Window) {
	known, err := linked.HistoryOf(ctx, s.Runs, s.Ads, lists, w)
	if err != nil {
		f.Add("clocks", Note, nil, "clocks: those of the access points could not be compared with the snapshots: %v", err)
		return
	}
	f.clocks(known.Clocks.ClocksIn(w))
}

// clocks names the access points whose clock is off (methodology section 9). The clocks come from
// [runs.Ads.ClocksIn].
func (f *Findings) clocks(all []runs.Clock) {
	// Judge each clock.
	var details []Details
	var wrong []runs.Skew
	judged := 0
	for _, s := range runs.Skews(all) {
		details = append(details, clockDetails(&s))
		if s.Known {
			judged++
		}
		if s.Days > 0 {
			wrong = append(wrong, s)
		}
	}
	// Sum up, then name the wrong ones.
	right := judged - len(wrong)
	summary := Details{"accessPoints": details}
	switch {
	case judged == 0:
		f.Add("clocks", Note, summary, "clocks: of no access point are there enough runs with an ad to compare its dates "+
			"with snapshots")
	case len(wrong) == 0:
		f.Add("clocks", OK, summary, "clocks: those of %s agree with the snapshots", count(right, "access point"))
	case right == 0 && sameError(wrong):
		off, direction := wrong[0].Median, "ahead of"
		if off < 0 {
			off, direction = -off, "behind"
		}
		f.Add("clocks", Warning, summary, "clocks: those of all %s are %s the collector's by the same %s: it is the "+
			"collector's clock that is wrong. Keep it with NTP", count(len(wrong), "access point"), direction, length(off))
		return
	default:
		f.Add("clocks", OK, summary, "clocks: those of %d of %s agree with the snapshots", right,
			count(judged, "access point"))
	}
	for i := range wrong {
		s, severity := &wrong[i], Note
		if s.Largest() > ClockSkew {
			severity = Warning
		}
		f.Add("clock of "+s.AccessPoint, severity, clockDetails(s), "clocks: %s", s)
	}
}

func clockDetails(s *runs.Skew) Details {
	return Details{"accessPoint": s.AccessPoint, "known": s.Known, "daysOff": s.Days,
		"lowSeconds": seconds(s.Low), "highSeconds": seconds(s.High), "medianSeconds": seconds(s.Median),
		"agree": s.Agree, "constraints": s.Constraints}
}

// sameError reports whether several clocks are wrong by the same: then theirs are right and the collector's is not.
func sameError(wrong []runs.Skew) bool {
	const precision = 30 * pool.Second // to which few runs show an error
	low, high := wrong[0].Median, wrong[0].Median
	for _, s := range wrong {
		low, high = min(low, s.Median), max(high, s.Median)
	}
	return len(wrong) >= 2 && high-low <= precision
}
