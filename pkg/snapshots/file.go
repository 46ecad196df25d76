package snapshots

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/chtc/gpureports/pkg/pool"
)

// File is one month file, as long as it is the same file: a file that takes its place is another File.
// It is safe for concurrent use.
type File struct {
	Name string

	dir       *Dir
	info      os.FileInfo
	missing   error // from the listing
	db        *sql.DB
	immutable bool
	warning   string

	disordered atomic.Bool // a row stands too far behind one before it

	mu          sync.Mutex
	lockedAt    time.Time // when a look last had waited for a writer in vain,
	waitedAt    time.Time // and when it last had, or had in a hurry
	watch       *sql.Conn // the connection whose data_version is compared
	dataVersion int64
	checked     bool
	state       State
	samples     []int64 // rowids whose hashes tell a file that only grew from one that was edited
	hashes      []uint64
}

// State is what a file holds at a moment.
type State struct {
	Version   uint64 // grows whenever the content may have changed
	Rewritten uint64 // grows whenever it changed otherwise than by rows appended
	First     int64  // rowids; First > Last: no row
	Last      int64
	FirstText string // the first and the last timestamp that can be read, as the collector wrote them
	LastText  string
	Unordered bool   // rows do not stand in the order of time: Find tells where a range of time lies
	Inode     uint64 // tells files of the same name apart, also after a restart
	Columns   string // the columns of the table, as its key
	schema    schema
	stretches []stretch // of a file that is Unordered
}

// schema says where gpu_state holds the columns.
type schema struct {
	order     []string     // all columns of the table, in order
	positions [columns]int // index in order, -1 = missing
	timestamp int          // index in order
	root      int64        // root page
	odd       bool         // records do not hold what a SELECT shows: only SQL reads it
}

const (
	// settled is how long an older month must be unchanged to be read as immutable.
	settled     = 48 * time.Hour
	busyTimeout = 10 * time.Second
	// readers bounds the connections to one file.
	readers = 4
)

// newFile takes a listed file over; nothing is opened yet.
func newFile(d *Dir, name string, info os.FileInfo, err error, newest bool) *File {
	f := &File{Name: name, dir: d, info: info, missing: err}
	f.state.Rewritten = d.changes.Add(1)
	if err == nil && !info.Mode().IsRegular() {
		f.missing = errNoFile
	}
	if f.missing != nil {
		return f
	}
	f.immutable = !newest && f.unchanging(d)
	f.open()
	return f
}

// follow takes over what is known of the same file as it was opened before, so that the next look tells what happened to it since.
func (f *File) follow(before *File) {
	before.mu.Lock()
	defer before.mu.Unlock()
	if f.missing == nil && before.info != nil && os.SameFile(f.info, before.info) {
		f.state, f.samples, f.hashes = before.state, before.samples, before.hashes
		f.disordered.Store(before.disordered.Load())
	}
}

func (f *File) open() {
	dsn := uri(f.dir.join(f.Name)) + fmt.Sprintf("?mode=ro&_pragma=busy_timeout(%d)&_pragma=mmap_size(0)", busyTimeout.Milliseconds())
	if f.immutable {
		dsn += "&immutable=1"
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		f.missing = err
		return
	}
	db.SetMaxOpenConns(readers + 1)
	db.SetMaxIdleConns(readers + 1)
	f.db = db
}

// unchanging tells whether nothing writes to the file: it is old, and SQLite left no journal or log beside it.
func (f *File) unchanging(d *Dir) bool {
	return time.Since(f.info.ModTime()) >= settled && d.size(f.Name+"-wal") == 0 && d.size(f.Name+"-journal") == 0
}

// suits tells whether the way the file was opened is still right.
func (f *File) suits(d *Dir, newest bool) bool {
	if f.missing != nil || f.db == nil {
		return false
	}
	if !f.immutable || f.warning != "" {
		return true
	}
	info, err := d.root.Stat(f.Name)
	return err == nil && !newest && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime()) && f.unchanging(d)
}

// retire closes the file's connections once the scans under way have ended.
func (f *File) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watch != nil {
		f.watch.Close()
		f.watch = nil
	}
	if f.db != nil {
		f.db.Close()
	}
}

// Warning says what is not as it should be with a file that is read all the same; "" = nothing.
func (f *File) Warning() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.warning
}

// State looks at the file as it is now. A writer's commit is seen at once, also in WAL mode.
// Errors name the file and the remedy: it is locked, truncated, no SQLite, has no table gpu_state, lacks a column.
func (f *File) State(ctx context.Context) (State, error) {
	asked := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.missing != nil {
		return State{}, f.explain(f.missing)
	}
	if f.waitedAt.After(asked) { // who waited meanwhile has waited for the writer too
		return State{}, f.explain(errLocked)
	}
	state, err := f.lookUnlocked(ctx)
	if err != nil && !f.immutable && isReadOnly(err) && ctx.Err() == nil && f.inWAL() {
		// A WAL file on a file system that may not be written cannot be shared with a writer.
		f.reopenImmutable()
		state, err = f.look(ctx)
	}
	if err != nil {
		return State{}, f.explain(err)
	}
	return state, nil
}

// lookUnlocked looks at the file, and waits for a writer that holds it: but not each time as long when one does so for longer.
func (f *File) lookUnlocked(ctx context.Context) (State, error) {
	const patience = 500 * time.Millisecond
	hurried := time.Since(f.lockedAt) < busyTimeout
	limited := ctx
	if hurried {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	state, err := f.look(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		err = errLocked
	case !isLocked(err):
		return state, err
	case !hurried:
		f.lockedAt = time.Now()
	}
	f.waitedAt = time.Now()
	return state, err
}

func (f *File) reopenImmutable() {
	if f.watch != nil {
		f.watch.Close()
		f.watch = nil
	}
	f.db.Close()
	f.immutable, f.checked = true, false
	f.warning = fmt.Sprintf("%s is in WAL mode in a directory that the plugin may not write: rows that the collector has not yet moved into the file are not seen. Let the plugin's user write the directory, or use another journal mode", f.Name)
	f.open()
}

func (f *File) look(ctx context.Context) (State, error) {
	if f.watch == nil {
		conn, err := f.db.Conn(ctx)
		if err != nil {
			return State{}, err
		}
		f.watch, f.checked = conn, false
	}
	var version int64
	if err := f.watch.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
		f.watch.Close()
		f.watch = nil
		return State{}, err
	}
	if f.checked && version == f.dataVersion && !(f.immutable && f.warning != "") && f.state.Unordered == f.disordered.Load() {
		return f.state, nil
	}
	state := State{Version: f.dir.changes.Add(1), Rewritten: f.state.Rewritten, Inode: inode(f.info)}
	if err := f.readState(ctx, &state); err != nil {
		return State{}, err
	}
	grew, err := f.onlyGrew(ctx, state)
	if err != nil {
		return State{}, err
	}
	if !grew || f.state.Version > 0 && state.Unordered != f.state.Unordered {
		state.Rewritten = state.Version
	}
	if state.Unordered {
		f.disordered.Store(true)
		if grew {
			state.stretches = slices.Clone(f.state.stretches)
		}
		if err := f.readStretches(ctx, &state); err != nil {
			return State{}, err
		}
	}
	samples := sampled(state.First, state.Last)
	hashes, err := f.hash(ctx, state, samples)
	if err != nil {
		return State{}, err
	}
	f.state, f.dataVersion, f.checked, f.samples, f.hashes = state, version, true, samples, hashes
	return state, nil
}

// onlyGrew tells whether all that happened since the last look is that rows were appended.
func (f *File) onlyGrew(ctx context.Context, s State) (bool, error) {
	if f.state.Version == 0 {
		return true, nil
	}
	if s.First != f.state.First && f.state.First <= f.state.Last || s.Last <= f.state.Last || s.Columns != f.state.Columns {
		return false, nil
	}
	hashes, err := f.hash(ctx, s, f.samples)
	return slices.Equal(hashes, f.hashes), err
}

// sampled returns some rowids of a range, the first and the last among them.
func sampled(first, last int64) []int64 {
	const samples = 16
	var rowids []int64
	for i := int64(0); i < samples && first <= last; i++ {
		rowids = append(rowids, first+(last-first)*i/(samples-1))
	}
	return slices.Compact(rowids)
}

func (f *File) readState(ctx context.Context, s *State) error {
	if err := f.readSchema(ctx, &s.schema); err != nil {
		return err
	}
	s.Columns = strings.Join(s.schema.order, ",")
	var first, last sql.NullInt64
	if err := f.watch.QueryRowContext(ctx, "SELECT (SELECT min(rowid) FROM gpu_state), (SELECT max(rowid) FROM gpu_state)").Scan(&first, &last); err != nil {
		return err
	}
	if !first.Valid {
		s.First, s.Last = 1, 0
		return nil
	}
	s.First, s.Last = first.Int64, last.Int64
	var err error
	if s.FirstText, err = f.text(ctx, upwards, s.First); err != nil {
		return err
	}
	if s.LastText, err = f.text(ctx, downwards, s.Last); err != nil {
		return err
	}
	s.Unordered, err = f.unordered(ctx, s)
	return err
}

// readSchema finds the columns by PRAGMA table_info: in SQLite a missing column's quoted name would be read as a text.
func (f *File) readSchema(ctx context.Context, s *schema) error {
	var kind string
	err := f.watch.QueryRowContext(ctx, "SELECT type, rootpage FROM sqlite_schema WHERE name = 'gpu_state'").Scan(&kind, &s.root)
	if errors.Is(err, sql.ErrNoRows) || err == nil && kind != "table" {
		return errNoTable
	}
	if err != nil {
		return err
	}
	// hidden columns are generated ones; with them, defaults or a key, records do not hold what a SELECT shows
	rows, err := f.watch.QueryContext(ctx, "SELECT name, type, hidden <> 0 OR pk > 0 OR dflt_value IS NOT NULL FROM pragma_table_xinfo('gpu_state') ORDER BY cid")
	if err != nil {
		return err
	}
	defer rows.Close()
	var real []bool // columns whose numbers are stored otherwise than shown
	for rows.Next() {
		var name, declared string
		var odd bool
		if err := rows.Scan(&name, &declared, &odd); err != nil {
			return err
		}
		s.order = append(s.order, name)
		real = append(real, isReal(declared))
		s.odd = s.odd || odd
	}
	if err := rows.Err(); err != nil {
		return err
	}
	find := func(name string) int {
		return slices.IndexFunc(s.order, func(o string) bool { return strings.EqualFold(o, name) })
	}
	for c, name := range columnNames {
		s.positions[c] = find(name)
		s.odd = s.odd || s.positions[c] >= 0 && real[s.positions[c]]
	}
	s.timestamp = find(timestampColumn)
	var lacking []string
	for _, c := range required {
		if s.positions[c] < 0 {
			lacking = append(lacking, columnNames[c])
		}
	}
	if s.timestamp < 0 {
		lacking = append(lacking, timestampColumn)
	}
	if len(lacking) > 0 {
		return fmt.Errorf("table gpu_state has no column %s", strings.Join(lacking, ", "))
	}
	return nil
}

var (
	errNoTable = errors.New("it has no table gpu_state")
	errNoFile  = errors.New("it is no regular file")
	errLocked  = errors.New("it is locked")
	errCircle  = errors.New("rows do not follow each other") // SQLite itself would go round in a damaged tree for ever
)

// explain makes an error of a file fit for a user.
func (f *File) explain(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var e *sqlite.Error
	code := 0
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch primary := code & 0xff; {
	case errors.Is(err, fs.ErrPermission), primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_AUTH:
		return pool.SourceError("%s may not be read: give the user that runs Grafana the right to read it", f.Name)
	case errors.Is(err, fs.ErrNotExist):
		return pool.SourceError("%s was removed while it was read: try again", f.Name)
	case isPathEscape(err):
		return pool.SourceError("%s is a link that leads out of the snapshot directory: links must stay inside", f.Name)
	case isLocked(err), errors.Is(err, errLocked):
		return pool.SourceError("%s is locked by a writer for more than %s: the collector should write in WAL mode or commit sooner", f.Name, busyTimeout)
	case code == sqlite3.SQLITE_READONLY_ROLLBACK, primary == sqlite3.SQLITE_CANTOPEN && f.dir.size(f.Name+"-journal") > 0:
		return pool.SourceError("%s has a hot journal: its writer died in a transaction. Let the collector run once, or open the file once with sqlite3, to roll it back", f.Name)
	case primary == sqlite3.SQLITE_NOTADB:
		return pool.SourceError("%s is no SQLite file: restore it from a copy, or move it away", f.Name)
	case primary == sqlite3.SQLITE_CORRUPT, primary == sqlite3.SQLITE_IOERR, errors.Is(err, errCircle):
		why := errCircle
		if e != nil {
			why = errors.New(sqliteText(e))
		}
		return pool.SourceError("%s is damaged or truncated (%w): restore it from a copy, or recover it with `sqlite3 .recover`", f.Name, why)
	case primary == sqlite3.SQLITE_CANTOPEN:
		return pool.SourceError("%s cannot be opened: check that the user that runs Grafana may read it (and its directory, when the file is in WAL mode)", f.Name)
	case errors.Is(err, errNoTable):
		return pool.SourceError("%s: %w: it is no month file of the collector, or still empty", f.Name, err)
	case e != nil:
		return pool.SourceError("%s cannot be read: %s", f.Name, sqliteText(e))
	}
	return pool.SourceError("%s cannot be read: %w", f.Name, bare(err))
}

func sqliteText(e *sqlite.Error) string {
	if text, ok := sqlite.ErrorCodeString[e.Code()&0xff]; ok {
		return text
	}
	return fmt.Sprintf("SQLite error %d", e.Code())
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
func (f *File) inWAL() bool {
	file, err := f.dir.root.Open(f.Name)
	if err != nil {
		return false
	}
	defer file.Close()
	var header [20]byte // https://sqlite.org/fileformat2.html: 18 and 19 are the write and read versions
	_, err = io.ReadFull(file, header[:])
	return err == nil && header[18] == 2 && header[19] == 2 && f.dir.size(f.Name+"-journal") == 0
}

// isPathEscape tells os.Root's refusal of a link that leads outside.
func isPathEscape(err error) bool { return strings.Contains(err.Error(), "escapes") }
