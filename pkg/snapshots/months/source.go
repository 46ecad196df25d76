package months

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Place is where the files of a source are: a directory, or a bucket.
type Place interface {
	// List returns the files that there are now, each name once. Open is called if a name is new. Errors: the place
	// cannot be listed, or there is none; Offline; ctx's.
	List(ctx context.Context) ([]Listed, error)

	// Close closes the place.
	Close() error
}

// Listed is a file of a place.
type Listed struct {
	Name   string // as users see it, and in keys
	Period string // the collector's month or day that its rows are of: YYYY-MM or YYYY-MM-DD
	Rank   int    // the higher one counts if two files are of one period, or of a month and its day
	// Snapshot: it is one snapshot, which does not count if a file of its period that is none has its time. The names of
	// those of a period are in the order of time.
	Snapshot bool
	Open     func() File

	// Version identifies the content under the name if files are never written to: it is that of the Content. "" if
	// it is not known. A file with a Version is sealed, and all its rows must have times from First to Last; otherwise it
	// cannot be read.
	Version     string
	First, Last Local
}

// Offline is the error of a place that cannot be reached anymore. Answers then come from the earlier data.
type Offline struct{ Err error }

func (o *Offline) Error() string { return o.Err.Error() }

func (o *Offline) Unwrap() error { return o.Err }

// Source is the files of a place.
type Source struct {
	place Place
	zone  *localtime.Zone
	limit atomic.Int64 // see Limit

	mu      sync.Mutex
	opened  map[string]File // by name, including those that are gone: they may come back
	recheck bool            // also files that are opened later
	last    *state
	listed  time.Time // when last was listed
}

// New returns the source of a directory's month files. formats: if a month has files in two of them, the one in the
// later format counts if both have rows. The directory is closed with the source.
func New(dir *snapshots.Dir, zone *localtime.Zone, formats ...Format) *Source {
	return NewAt(directory{dir, formats, zone}, zone)
}

// NewAt returns the source of a place's files. The place is closed with the source.
func NewAt(place Place, zone *localtime.Zone) *Source {
	s := &Source{place: place, zone: zone, opened: map[string]File{}}
	s.limit.Store(math.MaxInt64)
	return s
}

func (s *Source) Look(ctx context.Context) (snapshots.State, error) {
	now, err := s.current(ctx)
	var offline *Offline
	if errors.As(err, &offline) && ctx.Err() == nil {
		return s.beforeOffline(offline)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = time.Now()
	if s.last != nil && slices.EqualFunc(s.last.files, now.files, file.same) {
		return s.last, nil
	}
	now.describe()
	s.last = now
	return now, nil
}

// current lists the files and opens them, and repeats that if one of them was replaced in the meantime.
func (s *Source) current(ctx context.Context) (*state, error) {
	for range 3 {
		listed, err := s.place.List(ctx)
		if err != nil {
			return nil, err
		}
		now, err := s.openListed(ctx, listed)
		if !errors.Is(err, snapshots.ErrStale) {
			return now, err
		}
	}
	return nil, pool.SourceError("the snapshots kept changing while being read: try again later")
}

// beforeOffline returns the state of the last look, with a notice.
func (s *Source) beforeOffline(why *Offline) (snapshots.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nil, why.Err
	}
	text := fmt.Sprintf("%s. Answered from data read earlier: the snapshots were last listed at %s, %s ago; newer ones "+
		"are missing", why, s.listed.UTC().Format("2006-01-02 15:04:05 UTC"), age(s.listed))
	before := *s.last
	before.notices = append(slices.Clone(before.notices), snapshots.Notice{Warning: true, Text: text})
	return &before, nil
}

// age is how long ago a moment was, in words.
func age(since time.Time) string {
	switch ago := time.Since(since); {
	case ago < 2*time.Hour:
		return fmt.Sprintf("%d min", int(ago.Minutes()))
	case ago < 48*time.Hour:
		return fmt.Sprintf("%d h", int(ago.Hours()))
	default:
		return fmt.Sprintf("%d days", int(ago.Hours()/24))
	}
}

// parallelOpens bounds the files that are opened in parallel: in a bucket, each takes a round trip.
const parallelOpens = 16

// openListed opens the files of a listing, except those that can wait until their rows are requested.
func (s *Source) openListed(ctx context.Context, listing []Listed) (*state, error) {
	files := s.open(listing)
	newest := files[len(files)-1].Period
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(parallelOpens)
	for i, later := range pending(files) {
		f := &files[i]
		if later {
			continue
		}
		group.Go(func() error {
			content, err := f.file.Look(inner, f.Period >= newest[:min(len(newest), len(f.Period))])
			var unreachable *Offline
			if inner.Err() != nil || errors.Is(err, snapshots.ErrStale) || errors.As(err, &unreachable) {
				return errors.Join(inner.Err(), err)
			}
			if f.err = err; err == nil {
				f.content, f.info = content, content.Info()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	files, err := withoutMerged(ctx, files)
	return &state{source: s, files: files}, err
}

// withoutMerged leaves out files of one snapshot that are part of another file of their period.
func withoutMerged(ctx context.Context, files []file) (counted []file, err error) {
	for _, f := range files {
		merged := false
		for i := 0; f.Snapshot && f.info != nil && !merged && i < len(files); i++ {
			if other := &files[i]; !other.Snapshot && other.info != nil && other.Period == f.Period {
				if merged, err = has(ctx, other.content, f.info.First); err != nil {
					return nil, err
				}
			}
		}
		if !merged {
			counted = append(counted, f)
		}
	}
	return counted, nil
}

// has reports whether a content has rows of a time.
func has(ctx context.Context, c Content, local Local) (bool, error) {
	if local == None {
		return false, nil
	}
	rows, err := c.Seek(ctx, local, local+1)
	if err != nil || rows.Empty() {
		return false, err
	}
	finder := &finder{local: local}
	err = c.Scan(ctx, rows, finder)
	return finder.found, err
}

// finder looks for a time among runs.
type finder struct {
	local Local
	found bool
}

func (f *finder) Run(_ int64, local Local, _ string) (bool, error) {
	f.found = f.found || local == f.local
	return false, nil
}

func (*finder) Row(snapshots.Row, float64) error { return nil }

// open returns the files of a listing, ascending by period, and opens those that are new.
func (s *Source) open(files []Listed) (all []file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[string]bool, len(files))
	for _, l := range files {
		there[l.Name] = true
		if s.opened[l.Name] == nil {
			s.opened[l.Name] = l.Open()
			if s.recheck {
				s.opened[l.Name].Recheck()
			}
		}
		all = append(all, file{Listed: l, file: s.opened[l.Name]})
	}
	for name, f := range s.opened {
		if !there[name] {
			f.Close()
		}
	}
	slices.SortFunc(all, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.Period, b.Period), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (s *Source) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recheck = true
	for _, file := range s.opened {
		file.Recheck()
	}
}

func (s *Source) Limit(bytes int64) { s.limit.Store(bytes) }

func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.place.Close() // first, so that no look under way opens a file again
	for _, file := range s.opened {
		file.Close()
	}
	return err
}

// directory is the Place of month files in a directory.
type directory struct {
	dir     *snapshots.Dir
	formats []Format
	zone    *localtime.Zone
}

func (d directory) List(context.Context) (all []Listed, err error) {
	names, err := d.dir.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		month, format, ok := snapshots.ParseMonthFile(name)
		rank := slices.IndexFunc(d.formats, func(f Format) bool { return f.Extension == format })
		if !ok || rank < 0 {
			continue
		}
		all = append(all, Listed{Name: name, Period: month, Rank: rank,
			Open: func() File { return d.formats[rank].Open(d.dir, name, d.zone) }})
	}
	if len(all) == 0 {
		return nil, pool.SourceError(
			"no month file gpu_state_YYYY-MM.db or gpu_state_YYYY-MM.parquet in the snapshot directory %s: check the setting "+
				"snapshotDir and that the collector runs", d.dir.Path())
	}
	return all, nil
}

func (d directory) Close() error { return d.dir.Close() }
