package publish

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// mostSeen bounds the GPUs that a pool is recognized by.
const mostSeen = 16

// recognize refuses to put the facts of one pool in place of another's of the same name: none of the GPUs that the
// checkpoint knows is in the snapshots, though they have that day. It returns the GPUs of the newest snapshots.
// Errors: pool.BadQuery, the timeline's.
func (w *writer) recognize(ctx context.Context, t *timeline.Timeline, known *facts.Checkpoint, newest pool.Micros) (
	*facts.Seen, error) {
	if known != nil && known.Seen != nil {
		at := facts.Micros(known.Seen.At)
		gpus, err := gpusOf(ctx, t, at)
		if err != nil {
			return nil, err
		}
		if len(gpus) > 0 && !slices.ContainsFunc(known.Seen.GPUs,
			func(gpu string) bool { return slices.Contains(gpus, gpu) }) {
			return nil, pool.BadQuery("the facts of pool %s under %s are another pool's: none of the GPUs that it had on %s is "+
				"in these snapshots. Give each pool a name of its own", w.Pool, w.Index, pool.Time(at).Format("2006-01-02"))
		}
	}
	gpus, err := gpusOf(ctx, t, newest)
	return &facts.Seen{At: facts.Millis(newest), GPUs: gpus[:min(len(gpus), mostSeen)]}, err
}

// gpusOf are the hashes of the GPUs of a time's UTC day, ascending.
func gpusOf(ctx context.Context, t *timeline.Timeline, at pool.Micros) (gpus []string, err error) {
	view, err := t.Load(ctx, at, at)
	if err != nil {
		return nil, err
	}
	for _, day := range view.Days {
		if day.Date != pool.DayOf(at) {
			continue
		}
		for i := range day.GPUs() {
			machine, id := view.Names.GPU(day.GPU(i))
			gpus = append(gpus, facts.HashGPU(view.Names.Text(machine), view.Names.Text(id)))
		}
	}
	slices.Sort(gpus)
	return gpus, nil
}
