package sqlite

import (
	"database/sql/driver"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/parallel"
)

// As the value of a column, each page would be copied into memory of its own: a gigabyte of garbage for a month of 900
// GPUs. An SQL function of the driver's sees it where SQLite has it. gpureports_page(scan, page) hands a page to the
// scan of that number, and returns NULL, or the page if the scan wants to have it as a column after all.

const pageFunction = "gpureports_page"

func init() {
	sqlite.MustRegisterFunction(pageFunction, &sqlite.FunctionImpl{NArgs: 2, Scalar: handPage, VolatileArgs: true})
}

// inPlace is a scan that looks at pages where SQLite has them.
type inPlace struct {
	// look looks at a page, which is gone when it returns, and asks SQLite nothing. later: the scan wants the page as a
	// column.
	look func(page []byte) (later bool, err error)
	err  error // of look: SQLite passes on its text alone
}

// The scans under way, by number: numbers are what SQL can hand over.
var (
	inPlaceScans sync.Map
	inPlaceLast  atomic.Int64
)

// begin makes the scan known under a number, until end is called.
func (s *inPlace) begin() (number int64, end func()) {
	number = inPlaceLast.Add(1)
	inPlaceScans.Store(number, s)
	return number, func() { inPlaceScans.Delete(number) }
}

func handPage(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	number, _ := args[0].(int64)
	page, _ := args[1].([]byte)
	known, ok := inPlaceScans.Load(number)
	if !ok || len(page) == 0 {
		return nil, errUnusual
	}
	scan := known.(*inPlace)
	later := false
	scan.err = parallel.Recovered(func() (err error) { // SQLite's own frames are no place for a panic
		later, err = scan.look(page)
		return err
	})
	if scan.err != nil || !later {
		return nil, scan.err
	}
	return page, nil
}
