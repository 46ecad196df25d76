package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// newestFindings reports what the newest data show: whether the time zone can be right, whether slices fit the cadence,
// and how far the access points' clocks are off. Where there are no data, [Datasource.findings] says why.
func (d *Datasource) newestFindings(ctx context.Context) []finding {
	if d.invalid != nil {
		return nil
	}
	s, done, err := d.use(ctx)
	if err != nil {
		return nil
	}
	defer done()
	_, newest, ok, err := s.Timeline.Range(ctx)
	if err != nil || !ok {
		return nil
	}
	week := pool.Window{From: newest - 7*pool.Day, To: newest}
	view, err := s.Timeline.Load(ctx, week.From, week.To)
	if err != nil {
		return []finding{{Store: "timezone", Severity: severityWarning, Text: err.Error()}}
	}
	findings := append([]finding{zoneFinding(ctx, s, view, week)},
		check.CadenceFindings(view.Cadence(pool.DayOf(newest)), s.settings.SliceMinutes)...)
	return append(findings, d.clockFindings(ctx, s, pool.Window{From: newest - pool.Day, To: newest})...)
}

// zoneFinding compares snapshots with the times at which their jobs were queued.
func zoneFinding(ctx context.Context, s *opened, view *timeline.View, w pool.Window) finding {
	zone := s.settings.zone
	found := finding{Store: "timezone", Severity: severityOK, Details: map[string]any{"timezone": zone.Key()}}
	wait := check.ShortestWait(view, w)
	if wait.Jobs == 0 {
		found.Text = fmt.Sprintf("time zone: %s; no job in the newest 7 days of snapshots shows whether it is right",
			zone.Key())
		return found
	}
	found.Details["shortestWaitSeconds"] = float64(wait.Shortest) / float64(pool.Second)
	var remedy string // unless there is a better one
	switch {
	case wait.Early():
		found.Text = fmt.Sprintf("time zone: with %s a job of %s is seen %s before it was queued: the collector's clock is "+
			"behind what the setting timezone says. ", zone.Key(), wait.Schedd, length(-wait.Shortest))
		remedy = "It is too little for another zone: keep the collector's clock and that access point's with NTP"
	case wait.Late():
		found.Text = fmt.Sprintf("time zone: with %s no job is seen sooner than %s after it was queued: the collector's "+
			"clock is ahead of what the setting timezone says, as when it writes UTC. ", zone.Key(), length(wait.Shortest))
		remedy = fmt.Sprintf("Only %d jobs tell: look whether snapshots have the right time", wait.Jobs)
	default:
		found.Text = fmt.Sprintf("time zone: %s fits the jobs' queue dates", zone.Key())
		return found
	}
	found.Severity = severityWarning
	advice, err := check.ZoneAdvice(ctx, s.Timeline, zone, wait)
	switch {
	case err != nil:
		remedy = "Older data do not show since when: " + err.Error()
	case advice != "":
		remedy = advice
	}
	found.Text += remedy
	return found
}

// clocksWithin is how long a health check may ask for job ads.
const clocksWithin = 15 * time.Second

// clockFindings measures the access points' clocks as answers do. A job source that does not answer is reported
// elsewhere.
func (d *Datasource) clockFindings(ctx context.Context, s *opened, w pool.Window) []finding {
	env, err := s.env(ctx)
	if err != nil || s.Ads == nil {
		return nil
	}
	if _, err := s.Ads.Health(ctx); err != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, clocksWithin)
	defer cancel()
	return check.Clocks(limited, s.Stores, env.Lists, w)
}
