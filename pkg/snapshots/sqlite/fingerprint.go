package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// prints are the hashes of ranges of rows, by their first row. They are continued where rows are appended behind a
// range. Rows that were read as pages are hashed as they are stored, with all columns, others as SQL shows what is read
// of them.
type prints struct {
	mu    sync.Mutex
	first map[int64]print
}

// maxPrints bounds them: a month's days, and the newest snapshots of days that grow.
const maxPrints = 256

// print is the hash of the rows of a range.
type print struct {
	last   int64 // the last row that it holds
	digest xxhash.Digest
	buffer [16]byte
}

// emptyPrint returns the hash of no rows, of a range that begins with a row.
func emptyPrint(first int64) print {
	p := print{last: first - 1}
	p.digest.Reset()
	return p
}

func newPrints() *prints { return &prints{first: map[int64]print{}} }

// of returns the hash of the rows of a range as far as they were hashed.
func (p *prints) of(r months.Range) print {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.first[r.First]; ok && known.last <= r.Last {
		return known
	}
	return emptyPrint(r.First)
}

// keep keeps the hash of all rows of a range.
func (p *prints) keep(r months.Range, hash print) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.first) >= maxPrints {
		clear(p.first)
	}
	hash.last = r.Last
	p.first[r.First] = hash
}

func (p *print) text() string { return strconv.FormatUint(p.digest.Sum64(), 36) }

// add adds a row.
func (p *print) add(rowid int64, record []byte) {
	binary.LittleEndian.PutUint64(p.buffer[:], uint64(rowid))
	binary.LittleEndian.PutUint64(p.buffer[8:], uint64(len(record)))
	_, _ = p.digest.Write(p.buffer[:]) // never fails
	_, _ = p.digest.Write(record)
}

// take adds a row of a scan of pages.
func (p *print) take(rowid int64, record []byte) error {
	p.add(rowid, record)
	return nil
}

// takeLine adds a row of a scan by SQL.
func (p *print) takeLine(rowid int64, row *fields) error {
	p.add(rowid, row.line)
	return nil
}

// Fingerprint implements months.Content.
func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	if r.Empty() {
		return "none", nil
	}
	text, err := c.fingerprint(ctx, r)
	if err != nil && ctx.Err() == nil && sqlitefile.IsDamage(err) {
		return "", nil // the damage shows where the rows are read
	}
	if err != nil {
		return "", c.explain(err)
	}
	return text, nil
}

func (c *content) fingerprint(ctx context.Context, r months.Range) (string, error) {
	hash := c.prints.of(r)
	rest := months.Range{First: hash.last + 1, Last: r.Last}
	if c.usual() {
		err := c.scanPages(ctx, &rest, &hash)
		if err == nil {
			c.prints.keep(r, hash)
			return hash.text(), nil
		}
		if ctx.Err() != nil || errors.Is(err, sqlitefile.ErrCircle) {
			return "", err
		}
		hash, rest = emptyPrint(r.First), r
	}
	err := c.scanSQL(ctx, &rest, &hash)
	if err == nil && !c.usual() {
		c.prints.keep(r, hash)
	}
	return "lines-" + hash.text(), err
}

// affordable is the size up to which a file is hashed each time that it grows, in bytes: some 20 ms. Of a larger one
// that grew, a hash of some rows and the number of its commits have to do.
const affordable = 16 << 20

// hashAll fills in the hash of all rows, and returns that of the rows up to an earlier last one: of one transaction, so
// that no commit lies between them. Both are "" of a file that is too large or damaged.
func (c *content) hashAll(ctx context.Context, last int64) (before string, err error) {
	if c.size > affordable || c.info.Rows.Empty() {
		return "", nil
	}
	h := &halves{last: last, hash: emptyPrint(0)}
	rows := c.info.Rows
	err = c.scanPages(ctx, &rows, h)
	switch {
	case err == nil:
		c.all = h.hash.text()
		return h.before, nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case sqlitefile.IsDamage(err), errors.Is(err, errUnusual):
		return "", nil
	}
	return "", err
}

// halves hashes all rows, and notes the hash of those up to one.
type halves struct {
	last   int64
	hash   print
	before string
}

func (h *halves) take(rowid int64, record []byte) error {
	h.hash.add(rowid, record)
	if rowid == h.last {
		h.before = h.hash.text()
	}
	return nil
}

// header is what the first page of a file says.
type header struct {
	commits uint32 // since it was made, modulo 2^32; of no meaning in WAL mode
	wal     bool
}

// headerOf reads the first page. https://sqlite.org/fileformat2.html
func headerOf(page []byte) header {
	if len(page) < 100 {
		return header{}
	}
	return header{binary.BigEndian.Uint32(page[24:]), page[18] != 1}
}

// appendedAlone reports whether the commits since an earlier content are as many as the snapshots that are new: those
// of a collector that commits each by itself.
func (c *content) appendedAlone(ctx context.Context, before *content) (bool, error) {
	commits, known := c.commits(before)
	if !known {
		return false, nil
	}
	var snapshots int64
	err := c.handle.watch.QueryRowContext(ctx,
		"SELECT count(DISTINCT timestamp) FROM gpu_state WHERE rowid > ? AND rowid <= ?",
		before.info.Rows.Last, c.info.Rows.Last).Scan(&snapshots)
	return err == nil && commits == snapshots, err
}
