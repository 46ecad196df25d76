// Package queues reads the monthly files in which a poller of the access points' queues records idle and running jobs
// that request GPUs (methodology section 14): job_pressure_YYYY-MM.db or .parquet, next to the month files of
// snapshots. It never writes to them.
//
// A row is one stretch of polls in which a job was in one state. Rows are kept in memory as compact intervals, by the
// UTC day on which they began. A file is read again after each commit.
package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Row is one stretch of polls in which a job was idle, or was running.
type Row struct {
	Job     timeline.Job
	Schedd  timeline.Symbol // ScheddName; if it is missing, the access point of the GlobalJobId
	Owner   timeline.Symbol
	Project timeline.Symbol // ChtcProjects, sorted and joined by commas: a list is one value
	Request uint32          // index in View.Requests of the File
	QDate   uint32          // Unix seconds; 0 = not stored
	First   uint32          // Unix seconds of the first and the last poll that saw the job so
	Last    uint32
	File    uint16 // index in View.Requests
	Running bool
}

// Request is the request of a job. 0 means not stored.
type Request struct {
	GPUs      float64 // at least 1
	CPUs      float64
	Memory    float64 // MiB
	GPUMemory float64 // MiB of each GPU; 0: any
}

// Day holds the rows of one file that began on one UTC day. It is never changed.
type Day struct {
	Date  int32    // counted from 1970-01-01
	Rows  []Row    // in the order of the file
	Times []uint32 // the distinct First and Last of the rows, ascending: moments at which the queue was polled
	Last  uint32   // the greatest Last
}

// The sizes of a row, and of a request with its number while a file is read.
const (
	rowBytes     = 48
	requestBytes = 32
)

// View has the files' rows of a range of time, for pure computations to read. It is never changed.
type View struct {
	Names    *timeline.Names
	Files    int               // months that have one, in and outside the window
	Days     []*Day            // ascending by date; of one date in two months, in the order of the months
	Requests [][]Request       // by Row.File and Row.Request
	Notices  []timeline.Notice // faults of the files
}

// Reach is how far around a window rows are read: waits that overlap it may have begun before, and later rows show how
// they ended. It is in whole month files.
const (
	reachBefore = 31 * pool.Day
	reachAfter  = 7 * pool.Day
)

// monthFile matches the names of the files: the month, and the format.
var monthFile = regexp.MustCompile(`^job_pressure_(\d{4}-\d{2})\.(db|parquet)$`)

// EachRow reads the rows of a Parquet file as the texts of some columns, "" for NULL and for those that it lacks,
// unless check refuses the columns that it has.
type EachRow func(ctx context.Context, in io.ReaderAt, size int64, columns []string,
	check func(has func(column string) bool) error, visit func(row []string)) error

// Options define the files of a store and how much it may keep.
type Options struct {
	Root     *os.Root        // the directory of the files; not closed with the store
	Path     string          // the same, as it was given
	Names    *timeline.Names // the snapshots have the same, so that jobs and users are equal in both
	MaxBytes int64           // memory for rows; the rows of one file never take more
	Parquet  EachRow
}

// Store serves views of the files of a directory. It is safe for concurrent use.
type Store struct {
	options Options

	mu     sync.Mutex
	files  map[string]*file
	closed bool
}

// NewStore returns a store. Nothing is read yet.
func NewStore(o Options) *Store {
	return &Store{options: o, files: map[string]*file{}}
}

// Close closes every file. Loads under way end with an error.
func (s *Store) Close() error {
	s.mu.Lock()
	files := s.files
	s.files, s.closed = map[string]*file{}, true
	s.mu.Unlock()
	for _, f := range files { // each waits for the loads under way
		if f.watched != nil {
			f.watched.Close()
		}
		f.kept.Store(nil)
	}
	return nil
}

// Bytes is the memory that rows take now.
func (s *Store) Bytes() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if c := f.kept.Load(); c != nil {
			n += int64(len(c.requests)) * requestBytes
			for _, d := range c.days {
				n += int64(len(d.Rows)*rowBytes + len(d.Times)*4 + 100)
			}
		}
	}
	return n
}

// Load returns the files' rows of a window and of its reach. A file that cannot be read becomes a notice, and the
// others answer. Errors: the directory cannot be listed, or none of the files that the window needs can be read.
func (s *Store) Load(ctx context.Context, w pool.Window) (*View, error) {
	// List the months, and say how the rows of a file are used.
	months, err := s.list()
	if err != nil {
		return nil, err
	}
	v := &View{Names: s.options.Names, Files: len(months)}
	use := func(f *file, c *contents) {
		if about := snapshots.AboutValues(f.name+" has", &c.values); about != (timeline.Notice{}) {
			v.Notices = append(v.Notices, about)
		}
		v.Days = append(v.Days, c.days...)
		v.Requests = append(v.Requests, make([][]Request, max(int(f.number)+1-len(v.Requests), 0))...)
		v.Requests[f.number] = c.requests
	}
	// Load the months in reach. One that cannot be read becomes a notice.
	var failure error
	read := 0
	for i, month := range slices.Sorted(maps.Keys(months)) {
		if !overlaps(month, pool.Window{From: w.From - reachBefore, To: w.To + reachAfter}) {
			continue
		}
		notices, err := s.loadMonth(ctx, months[month], i == len(months)-1, use)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading the queue files of %s: %w", month, ctx.Err())
		}
		if err != nil {
			failure = cmp.Or(failure, err)
			v.Notices = append(v.Notices, timeline.Notice{Warning: true, Text: err.Error()})
			continue
		}
		read++
		v.Notices = append(v.Notices, notices...)
	}
	if read == 0 && failure != nil {
		return nil, failure
	}
	slices.SortStableFunc(v.Days, func(a, b *Day) int { return cmp.Compare(a.Date, b.Date) })
	return v, nil
}

// Review reads all files and counts texts that mean no value and values that are not known. The notices are about
// other faults, and about files that cannot be read. Errors: as of Load.
func (s *Store) Review(ctx context.Context) (odd pool.Values, notices []timeline.Notice, err error) {
	months, err := s.list()
	if err != nil {
		return odd, nil, err
	}
	for i, month := range slices.Sorted(maps.Keys(months)) {
		found, err := s.loadMonth(ctx, months[month], i == len(months)-1, func(_ *file, c *contents) {
			odd.Merge(&c.values)
		})
		if ctx.Err() != nil {
			return odd, nil, fmt.Errorf("reading the queue files of %s: %w", month, ctx.Err())
		}
		if err != nil {
			found = append(found, timeline.Notice{Warning: true, Text: err.Error()})
		}
		notices = append(notices, found...)
	}
	return odd, notices, nil
}

// list returns the months that have files, YYYY-MM, and the names of these, that of Parquet last.
func (s *Store) list() (map[string][]string, error) {
	entries, err := fs.ReadDir(s.options.Root.FS(), ".") // by name
	if err != nil {
		return nil, pool.SourceError("snapshot directory %s cannot be listed: %w", s.options.Path, files.Bare(err))
	}
	months := map[string][]string{}
	for _, entry := range entries {
		if parts := monthFile.FindStringSubmatch(entry.Name()); parts != nil {
			months[parts[1]] = append(months[parts[1]], entry.Name())
		}
	}
	return months, nil
}

// overlaps reports whether a month's rows can lie in the window. The month is the collector's local one, or of UTC.
func overlaps(month string, w pool.Window) bool {
	begin, err := time.Parse("2006-01", month) // fails for a month that no calendar has
	return err == nil && begin.AddDate(0, 0, -1).UnixMicro() <= w.To && begin.AddDate(0, 1, 1).UnixMicro() >= w.From
}

// loadMonth passes the current rows of one of a month's files to use: of the Parquet file if it has rows, otherwise of
// the other one.
func (s *Store) loadMonth(ctx context.Context, names []string, newest bool, use func(*file, *contents)) (
	notices []timeline.Notice, err error) {
	for _, name := range slices.Backward(names) {
		f, err := s.file(name)
		if err != nil {
			return nil, err
		}
		now, notices, err := f.load(ctx, newest)
		s.forgetBeside(f)
		if err != nil {
			return nil, err
		}
		if len(now.days) > 0 || len(notices) > 0 { // a notice says which rows are left out
			use(f, now)
			return notices, nil
		}
	}
	return nil, nil
}

// file returns the file of a name.
func (s *Store) file(name string) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the queue files are closed")
	}
	f := s.files[name]
	if f == nil {
		f = &file{name: name, store: s, number: uint16(len(s.files)), reading: semaphore.NewWeighted(1),
			on: sqlitefile.File{Root: s.options.Root, Dir: s.options.Path, Name: name, Writer: "the poller"}}
		if strings.HasSuffix(name, ".db") {
			f.watched = f.on.Watch(readers)
		}
		s.files[name] = f
	}
	return f, nil
}

// forgetBeside forgets the rows of all files but one if they take too much memory. Views that hold them keep them
// alive.
func (s *Store) forgetBeside(one *file) {
	if s.Bytes() <= s.options.MaxBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f != one {
			f.kept.Store(nil)
		}
	}
}
