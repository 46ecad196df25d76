package pressure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// file is one month file, as long as it is the same file: a file that takes its place is another one.
type file struct {
	store *Store
	name  string
	info  os.FileInfo
	used  uint64       // the store's
	kept  atomic.Int64 // bytes of days
	alone atomic.Bool  // it is in WAL mode, and its log cannot be shared

	immutable bool // nothing writes to it

	lock    chan struct{} // 1 token; what follows is its holder's
	db      *sql.DB
	watch   *sql.Conn // the connection whose data_version is compared
	version int64
	locked  time.Time // when a look last had waited for a writer in vain
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

const (
	settled     = 48 * time.Hour // how long an older month must be unchanged to be read as immutable
	busyTimeout = 10 * time.Second
	patience    = 500 * time.Millisecond // of a look soon after one that had waited for a writer in vain
	readers     = 2                      // connections to one file that read rows
)

func newFile(s *Store, name string, info os.FileInfo, newest bool) *file {
	f := &file{store: s, name: name, info: info, lock: make(chan struct{}, 1)}
	f.immutable = !newest && time.Since(info.ModTime()) >= settled && f.quiet()
	return f
}

// quiet tells whether SQLite left neither a journal nor a log beside the file.
func (f *file) quiet() bool { return f.size("-wal") == 0 && f.size("-journal") == 0 }

// size is that of the file with a suffix, 0 when it is missing.
func (f *file) size(suffix string) int64 {
	info, err := f.store.options.Root.Stat(f.name + suffix)
	if err != nil {
		return 0
	}
	return info.Size()
}

// suits tells whether it is still this file, and the way it was opened still right.
func (f *file) suits(info os.FileInfo, newest bool) bool {
	if !os.SameFile(info, f.info) {
		return false
	}
	same := info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime())
	if f.alone.Load() {
		return same
	}
	return !f.immutable || !newest && same && f.quiet()
}

// close closes the file's connections once the load under way has ended.
func (f *file) close() error {
	f.lock <- struct{}{}
	defer func() { <-f.lock }()
	f.kept.Store(0)
	f.days = nil
	return f.shut()
}

func (f *file) shut() error {
	var err error
	if f.watch != nil {
		err = f.watch.Close()
		f.watch = nil
	}
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
	select {
	case f.lock <- struct{}{}:
		defer func() { <-f.lock }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	err := f.lookUnlocked(ctx)
	if err != nil && !f.immutable && isReadOnly(err) && ctx.Err() == nil && f.inWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		if err = f.shut(); err == nil {
			f.alone.Store(true)
			err = f.look(ctx)
		}
	}
	if err != nil {
		return nil, nil, explain(f.store.options.Root, f.name, err)
	}
	return f.days, f.notices(), nil
}

// lookUnlocked looks at the file, and waits for a writer that holds it: but not each time as long when one does so for
// longer.
func (f *file) lookUnlocked(ctx context.Context) error {
	limited, cancel := context.WithCancel(ctx)
	if time.Since(f.locked) < busyTimeout {
		limited, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	err := f.look(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return errLocked
	case isLocked(err):
		f.locked = time.Now()
	}
	return err
}

func (f *file) notices() (all []timeline.Notice) {
	add := func(text string) { all = append(all, timeline.Notice{Warning: true, Text: text}) }
	if f.alone.Load() {
		add(f.name + " is in WAL mode in a directory that the plugin may not write: rows that the poller has not yet " +
			"moved into " +
			"the file are not seen. Let the plugin's user write the directory, or use another journal mode")
	}
	if n := f.odd.unreadable; n > 0 {
		add(fmt.Sprintf("%s: %d rows have no GlobalJobId or no readable first_seen and last_seen: left out", f.name, n))
	}
	if n := f.odd.backwards; n > 0 {
		add(fmt.Sprintf("%s: %d rows end before they begin (the poller's clock was set back): they count as seen once",
			f.name, n))
	}
	return all
}

func (f *file) open(ctx context.Context) (err error) {
	if f.db == nil {
		path := strings.NewReplacer("%", "%25", "?", "%3f", "#",
			"%23").Replace(filepath.ToSlash(filepath.Join(f.store.options.Path, f.name)))
		dsn := "file:" + path + fmt.Sprintf("?mode=ro&_pragma=busy_timeout(%d)&_pragma=mmap_size(0)",
			busyTimeout.Milliseconds())
		if f.immutable || f.alone.Load() {
			dsn += "&immutable=1"
		}
		if f.db, err = sql.Open("sqlite", dsn); err != nil {
			return err
		}
		f.db.SetMaxOpenConns(readers + 1)
		f.db.SetMaxIdleConns(readers + 1)
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
	errNoFile  = errors.New("it is no regular file")
	errLocked  = errors.New("it is locked")
	errCircle  = errors.New("rows do not follow each other") // SQLite itself would go round in a damaged tree for ever
)

// explain makes an error of a file fit for a user.
func explain(root *os.Root, name string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	var e *sqlite.Error
	code := 0
	if errors.As(err, &e) {
		code = e.Code()
	}
	journal := false
	if info, err := root.Stat(name + "-journal"); err == nil {
		journal = info.Size() > 0
	}
	switch primary := code & 0xff; {
	case errors.Is(err, errOlder):
		return pool.SourceError("%s is left out: %w. Convert it with the collector's migrate_job_pressure.py", name, err)
	case errors.Is(err, errNoTable):
		return pool.SourceError("%s: %w: it is no file of the queue's poller, or still empty", name, err)
	case errors.Is(err, fs.ErrPermission):
		return pool.SourceError("%s may not be read: give the user that runs Grafana the right to read it", name)
	case strings.Contains(err.Error(), "escapes"): // os.Root's refusal
		return pool.SourceError("%s is a link that leads out of the snapshot directory: put the file itself there", name)
	case isLocked(err), errors.Is(err, errLocked):
		return pool.SourceError("%s was locked by a writer for more than %s: the poller should write in WAL mode or "+
			"commit sooner", name, busyTimeout)
	case code == sqlite3.SQLITE_READONLY_ROLLBACK, primary == sqlite3.SQLITE_CANTOPEN && journal:
		return pool.SourceError("%s has a hot journal: its writer died in a transaction. Let the poller run once, or open "+
			"the file once with sqlite3, to roll it back", name)
	case primary == sqlite3.SQLITE_NOTADB:
		return pool.SourceError("%s is no SQLite file: restore it from a copy, or move it away", name)
	case primary == sqlite3.SQLITE_CORRUPT, primary == sqlite3.SQLITE_IOERR, errors.Is(err, errCircle):
		return pool.SourceError("%s is damaged or truncated (%s): restore it from a copy, or recover it with `sqlite3 "+
			".recover`", name, sqliteText(err))
	case primary == sqlite3.SQLITE_CANTOPEN:
		return pool.SourceError("%s cannot be opened: check that the user that runs Grafana may read it (and its "+
			"directory, when the file is in WAL mode)", name)
	}
	return pool.SourceError("%s cannot be read: %s", name, sqliteText(err))
}

// sqliteText is an error without a path.
func sqliteText(err error) string {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return bare(err).Error()
	}
	if text, ok := sqlite.ErrorCodeString[e.Code()&0xff]; ok {
		return text
	}
	return fmt.Sprintf("SQLite error %d", e.Code())
}

// bare strips the path from a file error: viewers see base names only.
func bare(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// isLocked tells the errors of waiting for a writer in vain.
func isLocked(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// isReadOnly tells the errors of opening a WAL file that cannot get its shared memory.
func isReadOnly(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CANTOPEN:
		return true
	case sqlite3.SQLITE_READONLY:
		return e.Code() != sqlite3.SQLITE_READONLY_ROLLBACK
	}
	return false
}

// inWAL tells whether the file's header says WAL mode and no rollback journal waits beside it.
func (f *file) inWAL() bool {
	handle, err := f.store.options.Root.Open(f.name)
	if err != nil {
		return false
	}
	defer handle.Close()
	var header [20]byte // https://sqlite.org/fileformat2.html: 18 and 19 are the write and read versions
	_, err = io.ReadFull(handle, header[:])
	return err == nil && header[18] == 2 && header[19] == 2 && f.size("-journal") == 0
}
