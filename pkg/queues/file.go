package queues

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// file is one month file. It is read in full after each commit, because a poll moves the ends of most rows of the last
// hours. A month takes 0.2 s.
type file struct {
	name    string
	watched *sqlitefile.Watched // nil: Parquet
	store   *Store
	used    uint64       // the store's clock at its last use
	kept    atomic.Int64 // bytes of days

	mu   sync.Mutex
	days []*Day // nil: not read
	odd  oddities

	reading sync.Mutex  // for a Parquet file: simultaneous loads read it only once
	version os.FileInfo // of the Parquet file that was read; nil if none was
}

func (f *file) close() {
	if f.watched != nil {
		f.watched.Close()
	}
}

// oddities counts rows that could not be read unchanged.
type oddities struct {
	unreadable int // have no job or no readable times: left out
	backwards  int // end before they begin: treated as ending where they begin
	long       int // texts that were cut
	greedy     int // ask for more GPUs than any pool has: left out
	amounts    int // amounts of CPUs or memory that are no amount or huge: read as no request, or as the maximum
}

func (o *oddities) add(other oddities) {
	o.unreadable += other.unreadable
	o.backwards += other.backwards
	o.long += other.long
	o.greedy += other.greedy
	o.amounts += other.amounts
}

// readers limits how many connections to one file read rows.
const readers = 2

// forget drops the rows.
func (f *file) forget() { f.keep(nil, oddities{}) }

func (f *file) keep(days []*Day, odd oddities) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.days, f.odd = days, odd
	bytes := 0
	for _, d := range days {
		bytes += d.Bytes()
	}
	f.kept.Store(int64(bytes))
}

func (f *file) known() ([]*Day, oddities) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.days, f.odd
}

// load returns the file's current days. Simultaneous loads read only once.
func (f *file) load(ctx context.Context, newest bool) (days []*Day, notices []timeline.Notice, err error) {
	if f.watched == nil {
		return f.loadParquet(ctx)
	}
	err = f.watched.Look(ctx, !newest, func(ctx context.Context, l sqlitefile.Look) error {
		var odd oddities
		if days, odd = f.known(); days == nil || l.Changed {
			f.forget()
			if days, odd, err = f.readAll(ctx, l.Handle); err != nil {
				return err
			}
			f.keep(days, odd)
		}
		notices = f.notices(odd, l.Warning)
		return nil
	})
	if err != nil {
		return nil, nil, explain(f.watched.File, err)
	}
	return days, notices, nil
}

// readAll reads the rows, and again if something was committed in the meantime, because results from before and after a
// commit do not fit together.
func (f *file) readAll(ctx context.Context, h *sqlitefile.Handle) ([]*Day, oddities, error) {
	for {
		before, err := h.Version(ctx)
		if err != nil {
			return nil, oddities{}, err
		}
		b := builder{days: map[int32]*Day{}}
		if err := f.read(ctx, h, &b); err != nil {
			return nil, oddities{}, err
		}
		if after, err := h.Version(ctx); after == before || err != nil {
			return b.finish(), b.odd, err
		}
	}
}

func (f *file) notices(odd oddities, unshared string) (all []timeline.Notice) {
	add := func(text string) { all = append(all, timeline.Notice{Warning: true, Text: text}) }
	if unshared != "" {
		add(unshared)
	}
	if n := odd.unreadable; n > 0 {
		add(fmt.Sprintf("%s: %d rows have no GlobalJobId or no readable first_seen and last_seen: left out",
			f.name, n))
	}
	if n := odd.backwards; n > 0 {
		add(fmt.Sprintf("%s: %d rows end before they begin (the poller's clock was set back): they count as seen once",
			f.name, n))
	}
	if n := odd.greedy; n > 0 {
		add(fmt.Sprintf("%s: %d rows ask for more than %d GPUs: left out", f.name, n, MostGPUs))
	}
	if n := odd.amounts; n > 0 {
		add(fmt.Sprintf("%s: %d amounts of CPUs, memory or GPU memory requested by jobs are negative, not a number or "+
			"huge: they count as not requested, above 2^40 as 2^40", f.name, n))
	}
	if n := odd.long; n > 0 {
		add(fmt.Sprintf("%s: %d texts are longer than %d bytes: cut", f.name, n, pool.MostText))
	}
	return all
}

// columns of job_pressure, in the order in which a row is read.
var columns = []string{"GlobalJobId", "ScheddName", "Owner", "RequestGPUs", "RequestCPUs", "RequestMemory",
	"RequestGPUMemory", "QDate", "ChtcProjects", "first_seen", "last_seen", "JobState"}

// required columns. Other columns may be missing.
var required = []string{"GlobalJobId", "first_seen", "last_seen"}

// checkColumns returns an error unless a file has the columns that every row needs.
func checkColumns(has func(column string) bool) error {
	if has("timestamp") && !has("first_seen") {
		return errOlder
	}
	for _, column := range required {
		if !has(column) {
			return fmt.Errorf("it has no column %s", column)
		}
	}
	return nil
}

var errOlder = errors.New("it has the older layout, with a row for each poll and a column timestamp. Convert it with " +
	"`gpureports convert` and move it away")

// explain turns an error of a file into one that a user understands.
func explain(f sqlitefile.File, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("reading %s: %w", f.Name, err)
	case errors.Is(err, errOlder):
		return pool.SourceError("%s is left out: %w", f.Name, err)
	case errors.Is(err, sqlitefile.ErrNoTable):
		return pool.SourceError("%s: it has no table job_pressure: it is not a file of the queue poller, or is still empty",
			f.Name)
	}
	return f.Explain(err)
}
