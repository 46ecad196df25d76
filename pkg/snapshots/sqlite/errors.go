package sqlite

import (
	"context"
	"errors"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

var errNoTable = errors.New("it has no table gpu_state")

// explain makes an error of a file fit for a user.
func (f *file) explain(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, snapshots.ErrStale):
		return err
	case errors.Is(err, errNoTable):
		return pool.SourceError("%s: %w: it is no month file of the collector, or still empty", f.name, err)
	}
	return f.on.Explain(err)
}
