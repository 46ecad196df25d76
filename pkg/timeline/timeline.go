// Package timeline turns the rows of snapshots into spans per GPU, a segment (Day) a UTC day, and keeps them:
// in memory, and on disk in the plugin's own cache directory.
package timeline

import (
	"context"

	"github.com/chtc/gpureports/pkg/pool"
)

// Timeline serves views of a pool's snapshots.
type Timeline struct{}

// Load returns a view that holds every snapshot of the UTC days that [from, to] touches. Of the two UTC days before and
// the one after it holds the snapshot times, so that neighbours, cadence and gaps at the edges are known; whether it
// holds their GPUs too is left open.
func (t *Timeline) Load(ctx context.Context, from, to pool.Micros) (*View, error) { return nil, nil }

// Range returns the first and the newest snapshot of all files; ok is false when there is none.
func (t *Timeline) Range(ctx context.Context) (first, newest pool.Micros, ok bool, err error) {
	return 0, 0, false, nil
}
