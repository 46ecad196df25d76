// Package pressure reads the monthly SQLite files in which a poller of the access points' queues records idle jobs that
// ask for GPUs (methodology section 14): job_pressure_YYYY-MM.db, beside the month files of snapshots. It never writes
// to them.
//
// A row is one stretch of polls in which a job was idle. Rows are kept in memory as compact intervals, by the UTC day
// on which they began; while a file grows, new rows are added and the ends of those that go on are moved.
package pressure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/sqlitefile"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Row is one stretch of polls in which a job was idle.
type Row struct {
	Job     timeline.Job
	Schedd  timeline.Symbol // ScheddName; where it is missing, the access point of the GlobalJobId
	Owner   timeline.Symbol
	Project timeline.Symbol // ChtcProjects, sorted and joined by commas: a list is one value
	Request uint32          // index in View.Requests
	QDate   uint32          // Unix seconds; 0 = not stored
	First   uint32          // Unix seconds of the first and the last poll that saw the job idle
	Last    uint32
}

// Request is what a job asks for. 0 is not stored.
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

	rowids []int64 // of Rows, ascending
}

// rowBytes is what a row takes, with its rowid.
const rowBytes = 52

// Bytes is the memory that the day takes.
func (d *Day) Bytes() int { return len(d.Rows)*rowBytes + len(d.Times)*4 + 100 }

// View is what the files hold of a range of time, for pure computations to read. It is never changed.
type View struct {
	Names    *timeline.Names
	Files    int               // how many there are, whatever their month
	Days     []*Day            // ascending by date; of one date in two files, in the order of the files
	Requests []Request         // by Row.Request
	Notices  []timeline.Notice // what was wrong with the files
}

// Reach is how far around a window rows are read: waits that overlap it may have begun before, and what follows shows
// how they ended. It is in whole month files.
const (
	reachBefore = 31 * pool.Day
	reachAfter  = 7 * pool.Day
)

var monthFile = regexp.MustCompile(`^job_pressure_(\d{4}-\d{2})\.db$`)

// Options say what a store reads and how much it may keep.
type Options struct {
	Root     *os.Root        // the directory of the files; not closed with the store
	Path     string          // the same, as it was given
	Names    *timeline.Names // of the snapshots, so that jobs and users are the same in both
	MaxBytes int64           // memory for rows
}

// Store serves views of the files of a directory. It is safe for concurrent use.
type Store struct {
	options Options

	mu     sync.Mutex
	files  map[string]*file
	clock  uint64
	closed bool

	asked    sync.Mutex // of requests: files ask for their numbers while they are read
	requests pool.Numbered[Request]
}

// NewStore returns a store. Nothing is read yet.
func NewStore(o Options) *Store {
	return &Store{options: o, files: map[string]*file{}}
}

// Close closes every file. Loads under way end with an error.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.close())
	}
	s.files = map[string]*file{}
	return err
}

// Bytes is the memory that rows take now.
func (s *Store) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes()
}

func (s *Store) bytes() (n int64) {
	for _, f := range s.files {
		n += f.kept.Load()
	}
	return n
}

// Load returns what the files hold of a window and of its reach. A file that cannot be read becomes a notice, and the
// others answer. Errors: the directory cannot be listed, or none of the files that the window needs can be read.
func (s *Store) Load(ctx context.Context, w pool.Window) (*View, error) {
	names, err := s.list()
	if err != nil {
		return nil, err
	}
	v := &View{Names: s.options.Names, Files: len(names)}
	var failure error
	read := 0
	for i, name := range names {
		if !overlaps(name, pool.Window{From: w.From - reachBefore, To: w.To + reachAfter}) {
			continue
		}
		days, notices, err := s.load(ctx, name, i == len(names)-1)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("reading %s: %w", name, ctx.Err())
		}
		if err != nil {
			failure = cmp.Or(failure, err)
			v.Notices = append(v.Notices, timeline.Notice{Warning: true, Text: err.Error()})
			continue
		}
		read++
		v.Notices = append(v.Notices, notices...)
		v.Days = append(v.Days, days...)
	}
	if read == 0 && failure != nil {
		return nil, failure
	}
	slices.SortStableFunc(v.Days, func(a, b *Day) int { return cmp.Compare(a.Date, b.Date) })
	s.asked.Lock()
	v.Requests = slices.Clip(s.requests.All)
	s.asked.Unlock()
	return v, nil
}

// list returns the names of the files, ascending by month.
func (s *Store) list() ([]string, error) {
	handle, err := s.options.Root.Open(".")
	if err == nil {
		defer handle.Close()
		var all []string
		if all, err = handle.Readdirnames(-1); err == nil {
			names := slices.DeleteFunc(all, func(n string) bool { return !monthFile.MatchString(n) })
			slices.Sort(names)
			return names, nil
		}
	}
	return nil, pool.SourceError("snapshot directory %s cannot be listed: %w", s.options.Path, snapshots.Bare(err))
}

// overlaps reports whether a month's rows can lie in the window. The month is the collector's local one.
func overlaps(name string, w pool.Window) bool {
	begin, err := time.Parse("2006-01", monthFile.FindStringSubmatch(name)[1])
	if err != nil {
		return false // a month that no calendar has
	}
	return begin.AddDate(0, 0, -1).UnixMicro() <= w.To && begin.AddDate(0, 1, 1).UnixMicro() >= w.From
}

// load returns a file's days as they are now.
func (s *Store) load(ctx context.Context, name string, newest bool) ([]*Day, []timeline.Notice, error) {
	f, err := s.open(name, newest)
	if err != nil {
		return nil, nil, err
	}
	days, notices, err := f.load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	f.used = s.clock
	s.shrink(f)
	return days, notices, err
}

// open returns the file of a name: a fresh one when another file took its place.
func (s *Store) open(name string, newest bool) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the job pressure files are closed")
	}
	on := sqlitefile.File{Root: s.options.Root, Dir: s.options.Path, Name: name, Writer: "the poller"}
	info, err := on.Stat()
	if err != nil {
		return nil, explain(on, err)
	}
	known := s.files[name]
	if known != nil && known.suits(info, newest) {
		return known, nil
	}
	if known != nil {
		if err := known.close(); err != nil {
			return nil, fmt.Errorf("closing %s: %w", name, err)
		}
	}
	f := &file{on: on, store: s, info: info, lock: make(chan struct{}, 1), immutable: !newest && on.Unchanging(info)}
	s.files[name] = f
	return f, nil
}

// shrink forgets the rows of the files that were not used for the longest time, never those of the given one. Views
// that hold them keep them alive.
func (s *Store) shrink(keep *file) {
	for s.bytes() > s.options.MaxBytes {
		var oldest *file
		for _, f := range s.files {
			if f != keep && f.kept.Load() > 0 && (oldest == nil || f.used < oldest.used) {
				oldest = f
			}
		}
		if oldest == nil || !oldest.forget() {
			return
		}
	}
}

// request numbers what jobs ask for.
func (s *Store) request(r Request) uint32 {
	s.asked.Lock()
	defer s.asked.Unlock()
	return uint32(s.requests.Number(r))
}
