package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/pool"
)

// Check runs the health check and checks all month files, the lists, and the job ads of the given length of time up to
// the newest snapshot. It returns the findings, the worst first. Its only error is ctx's.
func (d *Datasource) Check(ctx context.Context, last time.Duration) ([]check.Finding, error) {
	findings := d.findings(ctx, false)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	stores, done, err := d.use(ctx)
	if err != nil {
		return findings, nil // they say so
	}
	defer done()
	env, err := stores.env(ctx)
	if err != nil {
		return findings, nil
	}
	told, err := check.Look(ctx, check.Installation{
		Stores: stores.Stores, Dir: stores.dir, Zone: env.Zone, SliceMinutes: env.SliceMinutes, Lists: env.Lists,
		Now: d.now().UnixMicro(), Last: last.Microseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("checking: %w", err)
	}
	findings = append(findings, told...)
	slices.SortStableFunc(findings, func(a, b finding) int {
		return slices.Index(check.Severities, a.Severity) - slices.Index(check.Severities, b.Severity)
	})
	return findings, nil
}

// clocksWithin is how long a health check may ask for job ads.
const clocksWithin = 15 * time.Second

// newestFindings checks the newest data: whether the time zone can be right, whether slices fit the cadence, and how
// far the access points' clocks are off. If there are no data, or a job source does not answer, other findings say so.
func newestFindings(ctx context.Context, s *opened) []finding {
	_, newest, ok, err := s.Timeline.Range(ctx)
	if err != nil || !ok {
		return nil
	}
	week := pool.Window{From: newest - 7*pool.Day, To: newest}
	view, err := s.Timeline.Load(ctx, week.From, week.To)
	if err != nil {
		return []finding{{Store: "timezone", Severity: check.Warning, Text: err.Error()}}
	}
	findings := append([]finding{check.NewestZoneFinding(ctx, s.Timeline, s.settings.zone, view, week)},
		check.CadenceFindings(view.Cadence(pool.DayOf(newest)), s.settings.SliceMinutes)...)
	env, err := s.env(ctx)
	if err != nil || s.Ads == nil {
		return findings
	}
	if _, err := s.Ads.Health(ctx); err != nil {
		return findings
	}
	limited, cancel := context.WithTimeout(ctx, clocksWithin)
	defer cancel()
	day := pool.Window{From: newest - pool.Day, To: newest}
	return append(findings, check.Clocks(limited, s.Stores, env.Lists, day)...)
}
