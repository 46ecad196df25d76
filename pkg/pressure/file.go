package pressure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// file is one month file, as long as it is the same file: a file that takes its place is another one.
type file struct {
	on    sqlitefile.File
	store *Store
	info  os.FileInfo
	used  uint64       // the store's
	kept  atomic.Int64 // bytes of days
	alone atomic.Bool  // it is in WAL mode, and its log cannot be shared

	immutable bool // nothing writes to it

	patience sqlitefile.Patience

	lock    chan struct{} // 1 token; what follows is its holder's
	db      *sql.DB
	watch   *sql.Conn // the connection whose data_version is compared
	version int64
	idle    *time.Timer // closes watch
	state   state
	days    []*Day // nil: not read
	odd     oddities
}

// state is what a file holds at a moment.
type state struct {
	count       int64
	first, last int64 // rowids
	sum         int64 // of last_seen
	newest      int64 // last_seen
}

// oddities count rows that could not be read as they are.
type oddities struct {
	unreadable int // without a job, or without readable times: left out
	backwards  int // that end before they begin: they end where they begin
}

// readers bounds the connections to one file that read rows.
const readers = 2

// suits reports whether it is still this file, and the way it was opened still right.
func (f *file) suits(info os.FileInfo, newest bool) bool {
	if !os.SameFile(info, f.info) {
		return false
	}
	same := info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime())
	if f.alone.Load() {
		return same
	}
	return !f.immutable || !newest && same && f.on.Unchanging(info)
}

// close closes the file's connections once the load under way has ended.
func (f *file) close() error {
	f.lock <- struct{}{}
	defer func() { <-f.lock }()
	f.kept.Store(0)
	f.days = nil
	if f.idle != nil {
		f.idle.Stop()
	}
	return f.shut()
}

// closeLater closes the connection that looks once nobody has looked for a while; the pool closes the others.
func (f *file) closeLater() {
	if f.idle == nil {
		f.idle = time.AfterFunc(sqlitefile.Idle, func() {
			f.lock <- struct{}{}
			defer func() { <-f.lock }()
			_ = f.unwatch() // nothing was written
		})
	}
	f.idle.Reset(sqlitefile.Idle)
}

func (f *file) unwatch() (err error) {
	if f.watch != nil {
		err = f.watch.Close()
		f.watch = nil
	}
	return err
}

func (f *file) shut() error {
	err := f.unwatch()
	if f.db != nil {
		err = errors.Join(err, f.db.Close())
		f.db = nil
	}
	return err
}

// forget drops the rows, unless the file is being read.
func (f *file) forget() bool {
	select {
	case f.lock <- struct{}{}:
	default:
		return false
	}
	f.days, f.state = nil, state{}
	f.kept.Store(0)
	<-f.lock
	return true
}

// load returns the file's days as they are now. Loads at the same moment read once.
func (f *file) load(ctx context.Context) ([]*Day, []timeline.Notice, error) {
	asked := time.Now()
	select {
	case f.lock <- struct{}{}:
		defer func() { <-f.lock }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	err := f.patience.Lost(asked)
	if err == nil {
		err = f.patience.Look(ctx, f.look)
	}
	if err != nil && !f.immutable && sqlitefile.IsReadOnly(err) && ctx.Err() == nil && f.on.InWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		if err = f.shut(); err == nil {
			f.alone.Store(true)
			err = f.look(ctx)
		}
	}
	if err != nil {
		return nil, nil, explain(f.on, err)
	}
	f.closeLater()
	return f.days, f.notices(), nil
}

func (f *file) notices() (all []timeline.Notice) {
	add := func(text string) { all = append(all, timeline.Notice{Warning: true, Text: text}) }
	if f.alone.Load() {
		add(f.on.Unshared())
	}
	if n := f.odd.unreadable; n > 0 {
		add(fmt.Sprintf("%s: %d rows have no GlobalJobId or no readable first_seen and last_seen: left out", f.on.Name, n))
	}
	if n := f.odd.backwards; n > 0 {
		add(fmt.Sprintf("%s: %d rows end before they begin (the poller's clock was set back): they count as seen once",
			f.on.Name, n))
	}
	return all
}

func (f *file) open(ctx context.Context) (err error) {
	if f.db == nil {
		if f.db, err = f.on.Open(readers+1, f.immutable || f.alone.Load()); err != nil {
			return err
		}
	}
	if f.watch == nil {
		f.watch, err = f.db.Conn(ctx)
		f.version = -1
	}
	return err
}

// look brings the days up to date. A writer's commit is seen at once, also in WAL mode.
func (f *file) look(ctx context.Context) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	for {
		var version int64
		if err := f.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
			return errors.Join(err, f.shut())
		}
		if f.days != nil && version == f.version {
			return nil
		}
		if err := f.update(ctx); err != nil {
			f.days, f.state = nil, state{}
			f.kept.Store(0)
			return err
		}
		f.version = version // a commit since then is seen in the next round
		bytes := 0
		for _, d := range f.days {
			bytes += d.Bytes()
		}
		f.kept.Store(int64(bytes))
	}
}

// update reads what changed: rows that are new, and ends that moved. What this does not explain is read anew.
func (f *file) update(ctx context.Context) error {
	columns, err := f.columns(ctx)
	if err != nil {
		return err
	}
	now, err := f.readState(ctx)
	if err != nil {
		return err
	}
	if f.days != nil && now.count >= f.state.count && now.first == f.state.first && now.last >= f.state.last {
		grown, err := f.grow(ctx, columns, now)
		if err != nil || grown {
			return err
		}
	}
	b := builder{days: map[int32]*Day{}}
	if err := f.read(ctx, columns, now.first, now.last, &b); err != nil {
		return err
	}
	f.days, f.odd, f.state = b.finish(nil), b.odd, now
	return nil
}

// readState sums the file up. One pass over the index of last_seen, where there is one.
func (f *file) readState(ctx context.Context) (s state, err error) {
	var first, last, sum, newest sql.NullInt64
	row := f.watch.QueryRowContext(ctx, "SELECT count(*), CAST(total(last_seen) AS INTEGER), CAST(max(last_seen) AS "+
		"INTEGER), "+
		"(SELECT min(rowid) FROM job_pressure), (SELECT max(rowid) FROM job_pressure) FROM job_pressure")
	if err := row.Scan(&s.count, &sum, &newest, &first, &last); err != nil {
		return s, err
	}
	s.first, s.last, s.sum, s.newest = first.Int64, last.Int64, sum.Int64, newest.Int64
	if s.count == 0 {
		s.first, s.last = 1, 0
	}
	return s, nil
}

// columns of job_pressure, in the order in which a row is read.
var columns = []string{"GlobalJobId", "ScheddName", "Owner", "RequestGPUs", "RequestCPUs", "RequestMemory",
	"RequestGPUMemory", "QDate", "ChtcProjects", "first_seen", "last_seen"}

// required columns; of the others those that are missing are not stored.
var required = []string{"GlobalJobId", "first_seen", "last_seen"}

// columns finds the columns by PRAGMA table_info: in SQLite a missing column's quoted name would be read as a text.
func (f *file) columns(ctx context.Context) (expressions []string, err error) {
	rows, err := f.watch.QueryContext(ctx, "SELECT name FROM pragma_table_info('job_pressure')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var there []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		there = append(there, name)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(there) == 0 {
		return nil, errNoTable
	}
	has := func(column string) bool {
		return slices.ContainsFunc(there, func(t string) bool { return strings.EqualFold(t, column) })
	}
	if has("timestamp") && !has("first_seen") {
		return nil, errOlder
	}
	for _, column := range required {
		if !has(column) {
			return nil, fmt.Errorf("table job_pressure has no column %s", column)
		}
	}
	for _, column := range columns {
		if !has(column) {
			column = "NULL"
		}
		expressions = append(expressions, column)
	}
	return expressions, nil
}

var (
	errNoTable = errors.New("it has no table job_pressure")
	errOlder   = errors.New("it has a column timestamp, the older layout with a row for each poll")
)

// explain makes an error of a file fit for a user.
func explain(f sqlitefile.File, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("reading %s: %w", f.Name, err)
	case errors.Is(err, errOlder):
		return pool.SourceError("%s is left out: %w. Convert it with the collector's migrate_job_pressure.py", f.Name, err)
	case errors.Is(err, errNoTable):
		return pool.SourceError("%s: %w: it is no file of the queue's poller, or still empty", f.Name, err)
	}
	return f.Explain(err)
}
