package check

import (
	"context"

	"github.com/chtc/gpureports/pkg/pool"
)

// values reports texts that mean no value, and values that are not known, in all snapshots (methodology section 1).
func (c *checking) values() {
	var odd pool.Values
	for i := range c.months {
		odd.Merge(&c.months[i].odd)
	}
	const remedy = "Let the collector write NULL for attributes that a slot or job lacks, and HTCondor's own values for " +
		"the others (`gpureports collect` does)"
	if text := odd.String(); text != "" {
		severity := Note
		if odd.Unknown() {
			severity = Warning
		}
		c.Add("values", severity, nil, "values: snapshots have %s. %s", text, remedy)
	}
}

// shared reports GPUs that several jobs hold at once, in the newest data.
func (c *checking) shared(ctx context.Context) {
	v, err := c.Timeline.Load(ctx, c.recent.From, c.recent.To)
	if err != nil {
		return // reported with the month files
	}
	if n := v.SharedGPUs(c.recent); n > 0 {
		c.Add("shared GPUs", Note, Details{"gpus": n}, "shared GPUs: several jobs at once hold %s, as with "+
			"GPU_DISCOVERY_EXTRA = -divide or -repeat. Allocation and user hours count such a GPU once, evictions and "+
			"utilization once for each job: their hours can be more than the pool has", count(n, "GPU"))
	}
}
