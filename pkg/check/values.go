package check

import (
	"context"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// values reports texts that mean no value, and values that are not known, in all snapshots (methodology section 1).
func (c *checking) values() {
	var odd pool.Values
	for i := range c.months {
		odd.Merge(&c.months[i].odd)
	}
	c.oddValues("values", "snapshots have", &odd, "Let the collector write NULL for attributes that a slot or job lacks, "+
		"and HTCondor's own values for the others (`gpureports collect` does)")
}

// oddValues reports what is odd about the values of a store.
func (c *checking) oddValues(store, has string, odd *pool.Values, remedy string) {
	text := odd.String()
	if text == "" {
		return
	}
	severity := Note
	if odd.Unknown() {
		severity = Warning
	}
	c.Add(store, severity, nil, "values: %s %s. %s", has, text, remedy)
}

// queueValues reports the same of all queue files, and files that cannot be read, or not as a whole.
func (c *checking) queueValues(ctx context.Context) {
	if c.Queues == nil {
		return
	}
	odd, notices, err := c.Queues.Review(ctx)
	if err != nil {
		notices = append(notices, timeline.Notice{Warning: true, Text: err.Error()})
	}
	var texts []string
	for _, n := range notices {
		texts = append(texts, n.Text)
	}
	if len(texts) > 0 {
		c.Add("queues", Warning, nil, "queues: %s", strings.Join(texts, ". "))
	}
	c.oddValues("queue values", "queue files have", &odd, "Let the poller write NULL for attributes that a job lacks, "+
		"and idle or running in JobState (`gpureports collect --jobs` does)")
}

// incomplete reports snapshots that a collector took before it knew all machines again (methodology section 1).
func (c *checking) incomplete() {
	var left, waiting []timeline.Incomplete
	for i := range c.months {
		left, waiting = append(left, c.months[i].left...), append(waiting, c.months[i].waiting...)
	}
	if n := len(left); n > 0 {
		last := left[n-1]
		c.Add("incomplete snapshots", Note, Details{"snapshots": n, "last": pool.Time(last.Time),
			"machines": last.Machines, "of": last.Of}, "incomplete snapshots: %s with less than half of the machines, "+
			"which came back with their jobs. They count nowhere. The last: %s. HTCondor's collector was probably "+
			"restarted then: nothing needs to be done, unless it happens often", count(n, "snapshot"), last)
	}
	if n := len(waiting); n > 0 {
		c.Add("missing machines", Warning, Details{"machines": waiting[n-1].Machines, "of": waiting[n-1].Of},
			"missing machines: %s. If HTCondor's collector was restarted, wait until the others have reported again; "+
				"otherwise see whether these machines are down", waiting[n-1])
	}
}

// shared reports GPUs that several jobs hold at once, in the newest data.
func (c *checking) shared(v *timeline.View) {
	if n := v.SharedGPUs(c.recent); n > 0 {
		c.Add("shared GPUs", Note, Details{"gpus": n}, "shared GPUs: several jobs at once hold %s, as with "+
			"GPU_DISCOVERY_EXTRA = -divide or -repeat. Allocation and user hours count such a GPU once, evictions and "+
			"utilization once for each job: their hours can be more than the pool has", count(n, "GPU"))
	}
}
