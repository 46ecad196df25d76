package plugin

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/pool"
)

// newestFindings checks the newest data: whether the time zone can be right, whether slices fit the cadence, and how
// far the access points' clocks are off. If there are no data, [Datasource.findings] reports why.
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
		return []finding{{Store: "timezone", Severity: check.Warning, Text: err.Error()}}
	}
	findings := append([]finding{check.NewestZoneFinding(ctx, s.Timeline, s.settings.zone, view, week)},
		check.CadenceFindings(view.Cadence(pool.DayOf(newest)), s.settings.SliceMinutes)...)
	return append(findings, d.clockFindings(ctx, s, pool.Window{From: newest - pool.Day, To: newest})...)
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
