package sqlite

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// hashes are those of ranges of rows, for example of a day, as long as rows are only appended.
type hashes struct {
	mu     sync.Mutex
	ranges map[int64]rangeHash // by first row
}

// maxHashes bounds them. A month has some sixty: one for each day, and one for the part read of a growing day.
const maxHashes = 256

// rangeHash is made of all values of a range's rows, and of their order and numbers as counted from the first one. It
// can be continued if rows are appended, even by another process, which knows nothing but its text.
type rangeHash struct {
	first, last int64 // numbers of the first and the last row
	sum         uint64
}

// newHash is the hash of no row of a range.
func newHash(r months.Range) rangeHash { return rangeHash{r.First, r.First - 1, 0} }

func newHashes() *hashes { return &hashes{ranges: map[int64]rangeHash{}} }

// of returns the hash of the rows of a range as far as they were hashed.
func (h *hashes) of(r months.Range) rangeHash {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, ok := h.ranges[r.First]; ok && known.last <= r.Last {
		return known
	}
	return newHash(r)
}

// keep keeps the hash of all rows of a range.
func (h *hashes) keep(r months.Range, sum uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ranges) >= maxHashes {
		clear(h.ranges)
	}
	h.ranges[r.First] = rangeHash{r.First, r.Last, sum}
}

func (h *hashes) all() map[int64]rangeHash {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.ranges)
}

// add adds the next row.
func (h *rangeHash) add(row *sqlitefile.Row) error {
	const prime = 1099511628211 // as FNV-1 goes on
	h.sum = (h.sum*prime+uint64(row.Number-h.first))*prime + xxhash.Sum64(row.Values)
	return nil
}

// Fingerprint implements months.Content.
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

// Version implements months.Content.
func (c *content) Version() string {
	text, err := json.Marshal(c.traced())
	if err != nil {
		return "" // not reached: numbers only
	}
	return string(text)
}

func (c *content) traced() trace {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	now := c.trace
	now.Ordered = c.file.ordered == c.info.Edits && !c.file.unordered
	return now
}

// Unchanged implements months.Content.
func (c *content) Unchanged(ctx context.Context, version string, r months.Range, fingerprint string) (bool, error) {
	var then trace
	if version == "" || json.Unmarshal([]byte(version), &then) != nil {
		return false, nil
	}
	now, ordered := c.traced(), then.Ordered
	then.Ordered = now.Ordered
	untouched := then == now && !then.Recent
	appended := then.File.Inode == now.File.Inode && then.Rows.First == now.Rows.First && then.Rows.Last < now.Rows.Last
	if !untouched && !(appended && c.trusted()) {
		return false, nil
	}
	if ordered {
		c.orderedTo(then.Rows.Last)
	}
	if err := c.settle(ctx); err != nil {
		return false, err
	}
	if sum, err := strconv.ParseUint(fingerprint, 36, 64); err == nil && !r.Empty() {
		c.hashes.keep(r, sum)
	}
	return true, nil
}

// trusted reports whether rows that were appended while this process did not look are taken to be all that happened.
func (c *content) trusted() bool {
	f := c.file
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.distrust || f.edits != c.info.Edits {
		return false
	}
	f.mayHideEdits()
	return true
}

// Verified implements months.Content.
func (c *content) Verified() bool {
	c.file.mu.Lock()
	defer c.file.mu.Unlock()
	return !c.file.unverified
}

// Recheck implements months.File.
func (f *file) Recheck() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.distrust, f.recheck, f.strict = true, true, true
	if f.unverified {
		f.edited()
	}
}

// edited notes that rows may have changed otherwise than by rows appended. f.mu is held.
func (f *file) edited() {
	f.distrust = f.distrust || f.edits > 0 // the first content is not an edit
	f.edits++
	f.unverified, f.orderedTo = false, 0
}

const (
	// verifyAfter is how long an edit that came with appended rows can stay hidden, without the time that hashing takes.
	verifyAfter = 50 * time.Minute

	// verifyAgain is when to try again to hash rows that could not be hashed.
	verifyAgain = time.Minute
)

// mayHideEdits has the rows hashed again in a while. f.mu is held.
func (f *file) mayHideEdits() {
	f.unverified = true
	f.verifyIn(verifyAfter)
}

func (f *file) verifyIn(d time.Duration) { later(&f.verify, d, f.hashAgain) }

// later calls do in a while, unless the timer is set. Answers do not wait for it.
func later(timer **time.Timer, d time.Duration, do func()) {
	if *timer == nil {
		*timer = time.AfterFunc(d, func() { _ = parallel.Recovered(func() error { do(); return nil }) })
	}
}

// hashing bounds the months that are hashed in the background to one at a time.
var hashing sync.Mutex

// hashAgain compares the hashes that are known of the file with its rows. If one differs, the next look finds that the
// file was edited.
func (f *file) hashAgain() {
	hashing.Lock()
	defer hashing.Unlock()
	f.mu.Lock()
	c := f.last
	f.verify, f.unverified = nil, false
	f.mu.Unlock()
	if c == nil {
		return
	}
	for first, known := range c.hashes.all() {
		all := months.Range{First: first, Last: known.last}
		now := newHash(all)
		err := c.scan(context.Background(), all, now.add)
		if err == nil && now.sum == known.sum {
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case err == nil && f.edits == c.info.Edits:
			f.edited()
		case err != nil && !c.handle.Retired():
			f.unverified = true
			f.verifyIn(verifyAgain)
		}
		return
	}
}
