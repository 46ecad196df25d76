package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// file is one month file. It is read in full after each commit, because a poll moves the ends of most rows of the last
// hours. Half a million rows take less than a second.
type file struct {
	name    string
	on      sqlitefile.File
	watched *sqlitefile.Watched // nil: Parquet
	store   *Store
	number  uint16                   // Row.File
	kept    atomic.Pointer[contents] // nil: not read, or forgotten
	reading *semaphore.Weighted      // for a Parquet file: simultaneous loads read it only once
}

// contents are the rows of a file. They are never changed.
type contents struct {
	days     []*Day
	requests []Request // by Row.Request
	odd      oddities
	values   pool.Values
	info     os.FileInfo // describes the Parquet file that was read
}

// readers is how many connections to one file read rows: one for each half, and another, for which they wait, for rows
// that must be read column by column.
const readers = 3

// oddities counts the rows and values that could not be read unchanged, by the reason.
type oddities [len(sentences)]int

const (
	unreadable = iota
	backwards
	greedy
	badAmount
	long
)

// sentences tell about oddities, with the file and their number.
var sentences = [...]string{
	unreadable: "%s: %d rows have no GlobalJobId or no readable first_seen and last_seen: left out",
	backwards:  "%s: %d rows end before they begin (the poller's clock was set back): they count as seen once",
	greedy:     fmt.Sprintf("%%s: %%d rows ask for more than %d GPUs: left out", pool.MostGPUs),
	badAmount: "%s: %d amounts of CPUs, memory or GPU memory requested by jobs are negative, not a number or huge: " +
		"they count as not requested, CPUs and memory above 2^40 as 2^40",
	long: fmt.Sprintf("%%s: %%d texts are longer than %d bytes: cut", pool.MostText),
}

// load returns the file's current rows. Simultaneous loads read only once.
func (f *file) load(ctx context.Context, newest bool) (now *contents, notices []timeline.Notice, err error) {
	look := func(ctx context.Context, l sqlitefile.Found) error {
		if l.Warning != "" {
			notices = append(notices, timeline.Notice{Warning: true, Text: l.Warning})
		}
		if now = f.kept.Load(); now == nil || l.Changed {
			f.kept.Store(nil) // old and new rows need not be in memory together
			if now, err = f.readAll(ctx, l.Handle); err != nil {
				return err
			}
			f.kept.Store(now)
		}
		return nil
	}
	if f.watched != nil {
		err = f.watched.Look(ctx, !newest, look)
	} else {
		now, err = f.loadParquet(ctx)
	}
	if err != nil {
		return nil, nil, f.explain(err)
	}
	for of, n := range now.odd {
		if n > 0 {
			notices = append(notices, timeline.Notice{Warning: true, Text: fmt.Sprintf(sentences[of], f.name, n)})
		}
	}
	return now, notices, nil
}

// readAll reads the rows, and again if something was committed in the meantime, because results from before and after a
// commit do not fit together.
func (f *file) readAll(ctx context.Context, h *sqlitefile.Handle) (*contents, error) {
	for {
		before, err := h.Version(ctx)
		if err != nil {
			return nil, err
		}
		rows, err := f.readTable(ctx, h)
		if err != nil {
			return nil, err
		}
		if after, err := h.Version(ctx); after == before || err != nil {
			return rows, err
		}
	}
}

// columns of job_pressure, in the order in which a row is read.
var columns = []string{id: "GlobalJobId", schedd: "ScheddName", owner: "Owner", gpus: "RequestGPUs",
	cpus: "RequestCPUs", memory: "RequestMemory", gpuMemory: "RequestGPUMemory", queued: "QDate",
	projects: "ChtcProjects", firstSeen: "first_seen", lastSeen: "last_seen", state: "JobState"}

const (
	id = iota
	schedd
	owner
	gpus
	cpus
	memory
	gpuMemory
	queued
	projects
	firstSeen
	lastSeen
	state
)

// checkColumns returns an error unless a file has the columns that every row needs. Other columns may be missing.
func checkColumns(has func(column string) bool) error {
	if has("timestamp") && !has("first_seen") {
		return errOlder
	}
	for _, column := range []int{id, firstSeen, lastSeen} {
		if !has(columns[column]) {
			return fmt.Errorf("it has no column %s", columns[column])
		}
	}
	return nil
}

var errOlder = errors.New("it has the older layout, with a row for each poll and a column timestamp. Convert it with " +
	"`gpureports convert` and move it away")

func (f *file) explain(err error) error {
	switch {
	case f.watched == nil:
		return pool.SourceError("%s cannot be read: %w", f.name, err)
	case errors.Is(err, errOlder):
		return pool.SourceError("%s is left out: %w", f.name, err)
	case errors.Is(err, sqlitefile.ErrNoTable):
		return pool.SourceError("%s: it has no table job_pressure: it is not a file of the queue poller, or is still empty",
			f.name)
	}
	return f.watched.Explain(err)
}

// loadParquet returns the current rows of a Parquet file. Each poll replaces the file. It waits for another load of the
// file until its own deadline.
func (f *file) loadParquet(ctx context.Context) (*contents, error) {
	if err := parallel.Acquire(ctx, f.reading); err != nil {
		return nil, err
	}
	defer f.reading.Release(1)
	if _, err := f.on.Stat(); err != nil { // opening a pipe would wait for its writer
		return nil, err
	}
	in, err := f.on.Root.Open(f.name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	rows := f.kept.Load()
	if rows == nil || !os.SameFile(rows.info, info) || rows.info.Size() != info.Size() ||
		!rows.info.ModTime().Equal(info.ModTime()) {
		f.kept.Store(nil)
		reading, b := f.builder(ctx)
		defer b.stop(nil)
		if err := f.store.options.Parquet(reading, in, info.Size(), columns, checkColumns, b.addRow); err != nil {
			return nil, cmp.Or(context.Cause(reading), err)
		}
		if rows, err = b.finish(), context.Cause(reading); err != nil {
			return nil, err
		}
		rows.info = info
		f.kept.Store(rows)
	}
	return rows, nil
}
