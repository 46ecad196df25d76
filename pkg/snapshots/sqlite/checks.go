package sqlite

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// hashes are those of ranges of rows, such as those of a day, by their first row, as long as rows are only appended.
type hashes struct{ sync.Map }

// rangeHash is made of all values of a range's rows, and of their order and numbers as counted from the first one. It
// can be continued if rows are appended, even by another process, which knows nothing but its text.
type rangeHash struct {
	first, last int64 // numbers of the first and the last row
	sum         uint64
}

// newHash is the hash of no row of a range.
func newHash(r months.Range) rangeHash { return rangeHash{r.First, r.First - 1, 0} }

// of returns the hash of the rows of a range as far as they were hashed.
func (h *hashes) of(r months.Range) rangeHash {
	if known, ok := h.Load(r.First); ok && known.(rangeHash).last <= r.Last {
		return known.(rangeHash)
	}
	return newHash(r)
}

// keep keeps the hash of all rows of a range.
func (h *hashes) keep(r months.Range, sum uint64) { h.Store(r.First, rangeHash{r.First, r.Last, sum}) }

// add adds the next row.
func (h *rangeHash) add(row *sqlitefile.Row) error {
	const prime = 1099511628211 // as FNV-1 goes on
	h.sum = (h.sum*prime+uint64(row.Number-h.first))*prime + xxhash.Sum64(row.Values)
	return nil
}

func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	if r.Empty() {
		return "none", nil
	}
	hash := c.hashes.of(r)
	rest := months.Range{First: hash.last + 1, Last: r.Last}
	err := c.scan(ctx, rest, hash.add)
	if err != nil && ctx.Err() == nil && sqlitefile.IsDamage(err) {
		return "", nil // the damage shows where the rows are read
	}
	if err != nil {
		return "", c.explain(err)
	}
	c.hashes.keep(r, hash.sum)
	return strconv.FormatUint(hash.sum, 36), nil
}

// trace identifies a file and how far it goes, even in other processes.
type trace struct {
	File   sqlitefile.Stamp
	Log    sqlitefile.Stamp
	Rows   months.Range
	Recent bool // a later write need not show in the stamps

	Ordered bool // all rows are known to be in order
}

func (c *content) Version() string {
	c.file.mu.Lock()
	now := c.trace
	now.Ordered = c.file.ordered == c.info.Edits && !c.file.unordered
	c.file.mu.Unlock()
	text, _ := json.Marshal(now) // never fails for numbers
	return string(text)
}

func (c *content) Unchanged(ctx context.Context, version string, r months.Range, fingerprint string) (bool, error) {
	var then trace
	if json.Unmarshal([]byte(version), &then) != nil || !c.continues(then) {
		return false, nil
	}
	if err := c.settle(ctx); err != nil {
		return false, err
	}
	if sum, err := strconv.ParseUint(fingerprint, 36, 64); err == nil && !r.Empty() {
		c.hashes.keep(r, sum)
	}
	return true, nil
}

// continues reports whether the file is as it was, even for another process, or has grown since. Rows that were
// appended while this process did not look are taken to be all that happened, unless it has seen an edit.
func (c *content) continues(then trace) bool {
	f := c.file
	f.mu.Lock()
	defer f.mu.Unlock()
	now, ordered := c.trace, then.Ordered
	then.Ordered = false // as in now
	appended := then.File.Inode == now.File.Inode && then.Rows.First == now.Rows.First && then.Rows.Last < now.Rows.Last
	switch {
	case then == now && !then.Recent:
	case !appended || f.strict || f.edits > 1 || f.edits != c.info.Edits:
		return false
	default:
		f.mayHideEdits()
	}
	if ordered && f.edits == c.info.Edits {
		f.orderedTo = max(f.orderedTo, then.Rows.Last)
	}
	return true
}

func (c *content) Verified() bool {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	return !c.file.unverified
}

func (f *file) Recheck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recheck, f.strict = true, true
	if f.unverified {
		f.edited()
	}
}

// edited notes that rows may have changed otherwise than by rows appended. f.mu is held.
func (f *file) edited() {
	f.edits++
	f.unverified, f.orderedTo = false, 0
}

const (
	// verifyAfter is how long an edit that came with appended rows can stay hidden, without the time that hashing takes.
	verifyAfter = 50 * time.Minute

	// verifyAgain is when to try again to read rows that could not be read.
	verifyAgain = time.Minute
)

// mayHideEdits has the rows hashed again in a while. f.mu is held.
func (f *file) mayHideEdits() {
	f.unverified = true
	f.inspectIn(verifyAfter)
}

// inspectIn has the file inspected in a while, unless that is planned for an earlier time. f.mu is held.
func (f *file) inspectIn(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case f.inspection == nil:
		f.inspection = time.AfterFunc(d, func() {
			_ = parallel.Recovered(func() error { f.inspect(); return nil })
		})
	case at.Before(f.inspectAt):
		f.inspection.Reset(d)
	default:
		return
	}
	f.inspectAt = at
}

// inspecting bounds the files that are inspected in the background to one at a time.
var inspecting sync.Mutex

// inspect checks the order of the rows, and compares them with their hashes. If one differs, it was an edit.
func (f *file) inspect() {
	inspecting.Lock()
	defer inspecting.Unlock()
	f.mu.Lock()
	c := f.last
	f.inspection, f.unverified = nil, false
	f.mu.Unlock()
	if c == nil {
		return
	}
	err := f.orderIn(context.Background(), c)
	same := true
	for _, kept := range c.hashes.Range {
		if err != nil || !same {
			break
		}
		known := kept.(rangeHash)
		all := months.Range{First: known.first, Last: known.last}
		now := newHash(all)
		err = c.scan(context.Background(), all, now.add)
		same = now.sum == known.sum
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err != nil && !c.handle.Retired():
		f.unverified = true
		f.inspectIn(verifyAgain)
	case err == nil && !same && f.edits == c.info.Edits:
		f.edited()
	}
}

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

// orderIn checks the order of a content's rows, unless it is known. Looks check those that were appended since.
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

// settle checks the order of the rows if answers need it. Errors: snapshots.ErrStale if they are out of order.
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
