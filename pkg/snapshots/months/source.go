package months

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Source is the month files of a directory.
type Source struct {
	dir     *snapshots.Dir
	zone    *localtime.Zone
	formats []Format

	mu     sync.Mutex
	opened map[string]File // by name, also those that are gone: they may come back
	last   *state
	closed bool
}

var _ snapshots.Source = (*Source)(nil)

// New returns the source of a directory's month files. formats: of two files of one month the one of the later format
// counts where both have rows. The directory is closed with the source.
func New(dir *snapshots.Dir, zone *localtime.Zone, formats ...Format) *Source {
	return &Source{dir: dir, zone: zone, formats: formats, opened: map[string]File{}}
}

// listed is a month file as the directory lists it.
type listed struct {
	name, month string
	rank        int
	file        File
}

// Look implements snapshots.Source.
func (s *Source) Look(ctx context.Context) (snapshots.State, error) {
	names, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, pool.SourceError(
			"no month file %s in the snapshot directory %s: check the setting snapshotDir and that the collector runs",
			s.pattern(), s.dir.Path())
	}
	newest := names[len(names)-1].month
	now := &state{source: s}
	for _, n := range names {
		content, err := n.file.Look(ctx, n.month == newest)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := file{listed: n, err: err}
		if err == nil {
			f.content, f.info = content, content.Info()
		}
		now.files = append(now.files, f)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && slices.EqualFunc(s.last.files, now.files, file.same) {
		return s.last, nil
	}
	now.describe()
	s.last = now
	return now, nil
}

// list returns the month files that there are, ascending by month, and opens those that are new.
func (s *Source) list(ctx context.Context) (all []listed, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := s.dir.Names()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the snapshot directory is closed")
	}
	for _, name := range names {
		month, format, ok := snapshots.ParseMonthFile(name)
		rank := slices.IndexFunc(s.formats, func(f Format) bool { return f.Extension == format })
		if !ok || rank < 0 {
			continue
		}
		if s.opened[name] == nil {
			s.opened[name] = s.formats[rank].Open(s.dir, name)
		}
		all = append(all, listed{name, month, rank, s.opened[name]})
	}
	for name, file := range s.opened {
		if !slices.Contains(names, name) {
			file.Close()
		}
	}
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.month, b.month), cmp.Compare(a.rank, b.rank))
	})
	return all, nil
}

// pattern names what is looked for.
func (s *Source) pattern() string {
	names := ""
	for i, f := range s.formats {
		if i > 0 {
			names += " or "
		}
		names += "gpu_state_YYYY-MM." + f.Extension
	}
	return names
}

// Close implements snapshots.Source.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, file := range s.opened {
		file.Close()
	}
	return s.dir.Close()
}
