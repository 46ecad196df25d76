package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/check"
)

// Check runs the health check and checks all month files, the lists, and the job ads of the given length of time up to
// the newest snapshot. It returns the findings, the worst first. Its only error is ctx's.
func (d *Datasource) Check(ctx context.Context, last time.Duration) ([]check.Finding, error) {
	findings := d.findings(ctx)
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
