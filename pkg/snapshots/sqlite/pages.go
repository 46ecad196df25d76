package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Reading whole pages of the table's b-tree through SQLite's own sqlite_dbpage, and taking the records out of them
// here, is several times as fast as stepping ten columns. It happens inside a read transaction, so SQLite's locks and
// its log hold. Everything unusual is left to plain SQL. The format: https://sqlite.org/fileformat2.html

// errUnusual leaves the rest of a scan to plain SQL, which also finds out what is wrong, if anything is.
var errUnusual = errors.New("left to SQL")

// maxPagedRows bounds a read transaction: some 50 ms.
const maxPagedRows = 200_000

// pages reads the pages of one transaction.
type pages struct {
	one    *sql.Stmt // a page by number
	usable int       // bytes of a page
	leaves []child   // of the range, in the order of rowid
	last   int64     // the last rowid seen
}

// child is a page below another one, with the greatest rowid that it can hold.
type child struct {
	page uint32
	last int64
}

// records takes the rows of a table as they are stored, ascending.
type records interface {
	take(rowid int64, record []byte) error
}

// scanPages gives the rows of a range and moves r.First behind those of whole transactions.
func (c *content) scanPages(ctx context.Context, r *months.Range, to records) error {
	conn, err := c.handle.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for !r.Empty() {
		chunk := months.Range{First: r.First, Last: min(r.Last, r.First+maxPagedRows-1)}
		if err := readChunk(ctx, conn, c.schema.root, chunk, to); err != nil {
			return err
		}
		r.First = chunk.Last + 1
	}
	return nil
}

// readChunk is one read transaction.
func readChunk(ctx context.Context, conn *sql.Conn, root int64, r months.Range, to records) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	p := &pages{last: math.MinInt64}
	if p.one, err = tx.PrepareContext(ctx, "SELECT data FROM sqlite_dbpage WHERE pgno = ?"); err != nil {
		return err
	}
	defer p.one.Close()
	if err := p.begin(ctx, tx, root); err != nil {
		return err
	}
	if err := p.walk(ctx, child{uint32(root), math.MaxInt64}, r, 0); err != nil {
		return err
	}
	return p.readLeaves(ctx, tx, r, to)
}

// readLeaves gives the rows of the leaves, which one statement asks for.
func (p *pages) readLeaves(ctx context.Context, tx *sql.Tx, r months.Range, to records) error {
	numbers := make([]uint32, len(p.leaves))
	for i, leaf := range p.leaves {
		numbers[i] = leaf.page
	}
	list, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	n := 0
	take := func(page []byte, lent bool) (later bool, err error) {
		if n >= len(p.leaves) || len(page) < p.usable || page[0] != leafPage {
			return false, errUnusual
		}
		page = page[:p.usable]
		if lent && p.overflows(page) { // other pages are asked for when SQLite is done with this one
			return true, nil
		}
		if err := p.leaf(ctx, page, p.leaves[n].last, r, to); err != nil {
			return false, err
		}
		p.last = max(p.last, p.leaves[n].last)
		n++
		return false, nil
	}
	scan := &inPlace{look: func(page []byte) (later bool, err error) { return take(page, true) }}
	number, end := scan.begin()
	defer end()
	rows, err := tx.QueryContext(ctx, "SELECT "+pageFunction+"(?, p.data) FROM json_each(?) AS list CROSS JOIN "+
		"sqlite_dbpage AS p ON p.pgno = list.value", number, string(list))
	if err != nil {
		return cmp.Or(scan.err, err)
	}
	defer rows.Close()
	var page sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&page); err != nil {
			return err
		}
		if page != nil {
			if _, err := take(page, false); err != nil {
				return err
			}
		}
	}
	if err := cmp.Or(scan.err, rows.Err()); err != nil {
		return err
	}
	if n != len(p.leaves) {
		return errUnusual
	}
	return nil
}

// begin checks that the table is where it was, within the transaction.
func (p *pages) begin(ctx context.Context, tx *sql.Tx, known int64) error {
	var root int64
	if err := tx.QueryRowContext(ctx,
		"SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'gpu_state'").Scan(&root); err != nil {
		return err
	}
	header, err := p.page(ctx, 1)
	if err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint16(header[16:]))
	if size == 1 {
		size = 65536
	}
	p.usable = size - int(header[20])
	const utf8 = 1
	if root != known || root < 2 || len(header) != size || p.usable < 480 || binary.BigEndian.Uint32(header[56:]) != utf8 {
		return errUnusual
	}
	return nil
}

func (p *pages) page(ctx context.Context, number uint32) (page []byte, err error) {
	if err := p.one.QueryRowContext(ctx, int64(number)).Scan(&page); err != nil {
		return nil, err
	}
	if len(page) < 512 {
		return nil, errUnusual
	}
	return page, nil
}

const (
	interiorPage = 5
	leafPage     = 13
	maxDepth     = 20 // of any b-tree that SQLite can make
)

// walk collects the leaves below a page that can hold rowids of the range.
func (p *pages) walk(ctx context.Context, parent child, r months.Range, depth int) error {
	page, err := p.page(ctx, parent.page)
	switch {
	case err != nil:
		return err
	case page[0] == leafPage:
		p.leaves = append(p.leaves, parent)
		return nil
	case page[0] != interiorPage || depth > maxDepth:
		return errUnusual
	}
	children, err := childrenOf(page, parent.last, r)
	if err != nil || len(children) == 0 {
		return err
	}
	if page, err = p.page(ctx, children[0].page); err != nil {
		return err
	}
	if page[0] == leafPage { // the children of a b-tree's page are all alike
		if p.leaves = append(p.leaves, children...); len(p.leaves) > maxPagedRows+2 { // a leaf holds a row or more
			return errUnusual
		}
		return nil
	}
	for _, child := range children {
		if err := p.walk(ctx, child, r, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf returns those of an interior page's children that can hold rowids of the range. greatest is the page's
// own.
func childrenOf(page []byte, greatest int64, r months.Range) (children []child, err error) {
	cells := int(binary.BigEndian.Uint16(page[3:]))
	if 12+2*cells > len(page) {
		return nil, errUnusual
	}
	before := int64(math.MinInt64)
	for i := range cells {
		at := int(binary.BigEndian.Uint16(page[12+2*i:]))
		if at+5 > len(page) {
			return nil, errUnusual
		}
		last, n := varint(page[at+4:]) // the child's greatest rowid
		if n == 0 {
			return nil, errUnusual
		}
		if int64(last) <= before || binary.BigEndian.Uint32(page[at:]) < 2 { // the first page is never a child
			return nil, sqlitefile.ErrCircle
		}
		before = int64(last)
		if int64(last) >= r.First {
			children = append(children, child{binary.BigEndian.Uint32(page[at:]), int64(last)})
		}
		if int64(last) >= r.Last {
			return children, nil
		}
	}
	return append(children, child{binary.BigEndian.Uint32(page[8:]), greatest}), nil
}

// largest is how long a record can be that does not go on in other pages.
func (p *pages) largest() int { return p.usable - 35 }

// overflows reports whether a record of a leaf page goes on in other pages, or the page is damaged.
func (p *pages) overflows(page []byte) bool {
	cells := int(binary.BigEndian.Uint16(page[3:]))
	if 8+2*cells > len(page) {
		return true
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(page[8+2*i:]))
		if at >= len(page) {
			return true
		}
		if size, n := varint(page[at:]); n == 0 || size > uint64(p.largest()) {
			return true
		}
	}
	return false
}

// leaf gives the rows of a leaf page, which can hold rowids up to greatest.
func (p *pages) leaf(ctx context.Context, page []byte, greatest int64, r months.Range, to records) error {
	cells := int(binary.BigEndian.Uint16(page[3:]))
	if 8+2*cells > len(page) {
		return errUnusual
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(page[8+2*i:]))
		if at >= len(page) {
			return errUnusual
		}
		size, n := varint(page[at:])
		rowid, m := varint(page[at+n:])
		if n == 0 || m == 0 {
			return errUnusual
		}
		if int64(rowid) <= p.last || int64(rowid) > greatest { // SQL would not see what is missing
			return sqlitefile.ErrCircle
		}
		if p.last = int64(rowid); p.last < r.First {
			continue
		}
		if int64(rowid) > r.Last {
			return nil
		}
		record, err := p.payload(ctx, page[at+n+m:], size)
		if err != nil {
			return err
		}
		if err := to.take(p.last, record); err != nil {
			return err
		}
	}
	return nil
}

// maxPayload is far above any row; a larger one is left to SQL.
const maxPayload = 1 << 20

// payload returns a record, put together from overflow pages where it does not fit the leaf.
func (p *pages) payload(ctx context.Context, cell []byte, size uint64) ([]byte, error) {
	if size > maxPayload {
		return nil, errUnusual
	}
	total, usable := int(size), p.usable
	if total <= p.largest() {
		if total > len(cell) {
			return nil, errUnusual
		}
		return cell[:total], nil
	}
	local := (usable-12)*32/255 - 23
	if k := local + (total-local)%(usable-4); k <= p.largest() {
		local = k
	}
	if local+4 > len(cell) {
		return nil, errUnusual
	}
	record := append(make([]byte, 0, total), cell[:local]...)
	for next := binary.BigEndian.Uint32(cell[local:]); len(record) < total; {
		page, err := p.page(ctx, next)
		if err != nil {
			return nil, err
		}
		if len(page) < usable {
			return nil, errUnusual
		}
		record = append(record, page[4:min(usable, 4+total-len(record))]...)
		next = binary.BigEndian.Uint32(page)
	}
	return record, nil
}

// varint reads SQLite's big-endian integer of up to nine bytes; n = 0: there is none.
func varint(b []byte) (value uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	for n < len(b) && n < 8 {
		value = value<<7 | uint64(b[n]&0x7f)
		n++
		if b[n-1] < 0x80 {
			return value, n
		}
	}
	if n == 8 && len(b) > 8 {
		return value<<8 | uint64(b[8]), 9
	}
	return 0, 0
}
