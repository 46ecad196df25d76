package sqlite

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Days are found by a binary search, so rows that were appended late, older than what stands before them, are in no day
// until the file is known to be out of order. All processes must find the same rows: a file's order is known before its
// answers are called complete. It goes on with each look that finds rows appended, and with what an earlier process has
// checked. A small file is checked before its rows answer, a larger one in the background, one at a time; until then,
// contents are Unchecked, and answers say so. A process that answers once checks large files of its answer first, too.

// orderAfter is how long after a look the order of a large file is checked: its first answers come first.
const orderAfter = 30 * time.Second

// orderOf notes whether the order of a new content is known, and has that of a large file checked. f.mu is held.
func (f *file) orderOf(c *content) {
	if c.info.Rows.Empty() || c.info.Unordered {
		f.ordered = f.edits
	}
	c.info.Unchecked = f.ordered != f.edits && c.handle.Info.Size() > f.small && !f.strict
	if c.info.Unchecked {
		f.inspectIn(orderAfter)
	}
}

// orderIn checks the order of the rows of a content, unless it is known. Rows that were appended since were checked by
// looks.
func (f *file) orderIn(ctx context.Context, c *content) error {
	if err := f.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer f.turn.Release(1)
	f.mu.Lock()
	known, first := f.ordered == c.info.Edits || f.unordered, max(c.info.Rows.First, f.orderedTo)
	f.mu.Unlock()
	if known {
		return nil
	}
	unordered, err := c.fellBack(ctx, c.handle.DB, first, months.None)
	if err != nil && !sqlitefile.IsDamage(err) { // the damage shows where the rows are read
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.edits == c.info.Edits {
		f.ordered, f.unordered = f.edits, f.unordered || unordered
	}
	return nil
}

// settle checks the order of the rows if that is to be known before an answer. Errors: snapshots.ErrStale if they are
// out of order.
func (c *content) settle(ctx context.Context) error {
	f := c.file
	f.mu.Lock()
	known := f.ordered == c.info.Edits || !f.strict && c.handle.Info.Size() > f.small
	f.mu.Unlock()
	if !known {
		if err := f.orderIn(ctx, c); err != nil {
			return c.explain(err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unordered && !c.info.Unordered {
		return snapshots.ErrStale
	}
	return nil
}
