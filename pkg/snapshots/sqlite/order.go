package sqlite

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Days are found by a binary search, so rows that were appended late, older than what stands before them, are in no day
// until the file is known to be out of order. All processes must find the same rows: a file's order is known before its
// answers are called complete. That of a small file is found out by the first look, and goes on with each look that
// finds rows appended. That of a larger one is checked in the background, one file at a time; until then, contents are
// Unchecked, and answers say so. A process that answers once and ends checks the files of its answer first.

// orderAfter is how long after a look the order of a large file is checked: its first answers come first.
const orderAfter = 30 * time.Second

// orderOf notes whether the order of a new content is known, and has it checked if it is not. f.mu is held.
func (f *file) orderOf(c *content) {
	if !c.info.Unchecked || c.info.Unordered {
		f.ordered = f.edits
	}
	if c.info.Unchecked = c.info.Unchecked && f.ordered != f.edits; c.info.Unchecked {
		later(&f.check, orderAfter, f.checkOrder)
	}
}

// checkOrder checks the order of the rows in the background.
func (f *file) checkOrder() {
	hashing.Lock()
	defer hashing.Unlock()
	f.mu.Lock()
	c := f.last
	f.check = nil
	f.mu.Unlock()
	if c == nil || f.orderIn(context.Background(), c) == nil || c.handle.Retired() {
		return // or the next look has it checked
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	later(&f.check, verifyAgain, f.checkOrder)
}

// orderIn checks the order of the rows of a content, unless it is known. Rows that were appended since were checked by
// looks.
func (f *file) orderIn(ctx context.Context, c *content) error {
	if err := f.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer f.turn.Release(1)
	f.mu.Lock()
	known := f.ordered == c.info.Edits || f.unordered
	f.mu.Unlock()
	if known {
		return nil
	}
	unordered, err := c.fellBack(ctx, c.handle.DB, c.info.Rows.First, months.None)
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

// settle checks the order of the rows if Recheck asks for answers that are complete at once. Errors: snapshots.ErrStale
// if they are out of order.
func (c *content) settle(ctx context.Context) error {
	if !c.unsettled() {
		return nil
	}
	if err := c.file.orderIn(ctx, c); err != nil {
		return c.explain(err)
	}
	c.file.mu.Lock()
	unordered := c.file.unordered
	c.file.mu.Unlock()
	if unordered {
		return c.disordered()
	}
	return nil
}

// unsettled reports whether the order must be checked before the next answer.
func (c *content) unsettled() bool {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	return c.info.Unchecked && c.file.strict
}
