package accuracy

import (
	"context"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Cost compares the reported cost of evictions with the true one (methodology sections 8 and 15).
type Cost struct {
	Lost, Evicted hoursOf // GPU-hours of evicted runs since the last checkpoint, and whole
	Interval      Spread  // percent between the reported interval of checkpoints and the true one of a pool
}

// hoursOf holds reported and true hours.
type hoursOf struct{ told, really float64 }

// Error is reported − true, in percent of the true ones.
func (h hoursOf) Error() float64 { return 100 * (h.told - h.really) / h.really }

// judge fails figures that are not reached: with epoch ads, which say when jobs saved.
func (c *Cost) judge(kind string, fail func(what string, is, must float64, bad bool)) {
	most := 2.0
	if kind == clocksOff {
		most = 3
	}
	for what, is := range map[string]float64{"lost GPU-hours": c.Lost.Error(), "evicted GPU-hours": c.Evicted.Error()} {
		fail("error of "+what+" in percent", is, most, !(is >= -most && is <= most))
	}
	fail("median error of the interval of checkpoints in percent", c.Interval.Median, most, !(c.Interval.Median <= most))
}

// measureCost queries the cost of evictions and compares it with the true one.
func (p *opened) measureCost(ctx context.Context, source jobs.Source, truly []reality, c *Cost) error {
	saves, ages := 0, 0.0
	for i := range truly {
		r := &truly[i]
		if !r.evicted() || !p.inside(r.End) {
			continue
		}
		saved := r.Start
		if !r.SavedUntil.IsZero() {
			saved = r.SavedUntil
			saves++
			ages += r.End.Sub(saved).Hours()
		}
		hours := func(since int64) float64 {
			return pool.Hours(r.End.UnixMicro()-max(since, p.window.From)) * float64(len(r.GPUs))
		}
		c.Lost.really += hours(saved.UnixMicro())
		c.Evicted.really += hours(r.Start.UnixMicro())
	}
	rows, err := p.ask(ctx, source, p.window, `{"queryType": "evictions", "view": "summary", "groupBy": [],
		"metrics": ["lostGpuHours", "evictedGpuHours"], "totals": false}`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		lost, _ := row["lostGpuHours"].(float64)
		evicted, _ := row["evictedGpuHours"].(float64)
		c.Lost.told, c.Evicted.told = c.Lost.told+lost, c.Evicted.told+evicted
	}
	rows, err = p.ask(ctx, source, p.window, `{"queryType": "backfillAvailability", "view": "jobLength", "groupBy": [],
		"jobHours": [1], "metrics": ["usedCheckpointHours"]}`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if told, ok := row["usedCheckpointHours"].(float64); ok && saves > 0 {
			really := 2 * ages / float64(saves)
			c.Interval.add(100 * (told - really) / really)
		}
	}
	return nil
}
