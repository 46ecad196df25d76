package sqlitefile

import (
	"context"
	"time"
)

// Patience bounds how long looks at a file wait for a writer that locks it: BusyTimeout, but less while a writer that
// has held the lock for that long still holds it. Looks at a file are made one at a time; the zero value is ready.
type Patience struct {
	lockedAt time.Time // when a look last had waited for BusyTimeout in vain,
	waitedAt time.Time // and when it last had, or had for less
}

// Look calls look, whose context ends when the patience does. Explain says of the error that the file is locked.
func (p *Patience) Look(ctx context.Context, look func(context.Context) error) error {
	const soonAfter = 500 * time.Millisecond
	hurried := time.Since(p.lockedAt) < BusyTimeout
	limited := ctx
	if hurried {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, soonAfter)
		defer cancel()
	}
	err := look(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = errLocked
	case !isLocked(err):
		return err
	case !hurried:
		p.lockedAt = time.Now()
	}
	p.waitedAt = time.Now()
	return err
}
