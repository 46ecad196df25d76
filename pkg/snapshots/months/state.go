package months

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// state is the snapshots.State of month files at a moment.
type state struct {
	source *Source
	files  []file // ascending by period, those of one period by rank

	notices []snapshots.Notice
	dates   []int32
	newest  pool.Micros
}

// file is one of them. Either err or content and info are set; none of them if it is pending.
type file struct {
	Listed
	file    File
	err     error
	content Content
	info    *Info
	without []Stretch // times for which another file of the month counts
}

// same reports whether nothing has changed.
func (f file) same(other file) bool {
	if f.Name != other.Name || f.Version != other.Version {
		return false
	}
	if both := f.info != nil && other.info != nil; f.content != other.content && (both || !f.sealed()) {
		return false
	}
	return f.err == nil && other.err == nil || f.err != nil && other.err != nil && f.err.Error() == other.err.Error()
}

func (s *state) Notices() []snapshots.Notice { return s.notices }

func (s *state) Dates() []int32 { return s.dates }

func (s *state) Finished(date int32) bool { return s.newest > pool.Micros(date+1)*pool.Day+2*pool.Hour }

func (s *state) find(name string) *file {
	i := slices.IndexFunc(s.files, func(f file) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &s.files[i]
}

// describe fills in the fields that are derived from the files.
func (s *state) describe() {
	dates := map[int32]bool{}
	for i := range s.files {
		f := &s.files[i]
		for _, span := range f.spans() {
			w := pool.Window{From: s.time(span.First), To: s.time(span.Last)}
			for date := pool.DayOf(w.From) - 1; date <= pool.DayOf(w.To)+1; date++ { // a repeated hour, or a minute's union
				dates[date] = true
			}
			switch {
			case f.info != nil, f.Snapshot:
				s.newest = max(s.newest, w.To)
			case f.err == nil: // it may have one row
				s.newest = max(s.newest, w.From)
			}
		}
		switch {
		case f.err != nil && !f.sealed(): // otherwise the days of the file report it
			s.notices = append(s.notices, snapshots.Notice{Warning: true, Text: f.err.Error()})
		case f.info != nil:
			s.note(s.part(f))
		}
	}
	s.dates = slices.Sorted(maps.Keys(dates))
	s.settle()
}

// part describes a file that is not pending.
func (s *state) part(f *file) snapshots.Part {
	part := snapshots.Part{Name: f.Name, Month: f.Period[:len("2006-01")], Err: f.err}
	if f.err != nil {
		return part
	}
	part.Warning, part.Columns = f.info.Warning, f.info.Columns
	part.Unordered, part.Unchecked = f.info.Unordered, f.info.Unchecked
	part.Rows, part.Sample = max(0, f.info.Rows.Last-f.info.Rows.First+1), shortened(f.info.Sample)
	for _, span := range f.spans() {
		w := pool.Window{From: s.time(span.First), To: s.time(span.Last)}
		if !part.Dated {
			part.Dated, part.Window = true, w
		}
		part.Window.From, part.Window.To = min(part.Window.From, w.From), max(part.Window.To, w.To)
	}
	return part
}

func (s *state) Parts(ctx context.Context) ([]snapshots.Part, error) {
	pieces := make([]piece, len(s.files))
	for i := range s.files {
		pieces[i].file = &s.files[i]
	}
	pieces, err := opened(ctx, pieces)
	if err != nil {
		return nil, err
	}
	parts := make([]snapshots.Part, len(pieces))
	for i, p := range pieces {
		parts[i] = s.part(p.file)
		if errors.Is(p.err, snapshots.ErrStale) {
			parts[i].Err = pool.SourceError("%s was replaced or removed while it was looked at: try again", p.Name)
		}
	}
	return parts, nil
}

func (s *state) Err() error {
	if slices.ContainsFunc(s.files, func(f file) bool { return f.err == nil }) {
		return nil
	}
	return s.files[len(s.files)-1].err
}

func (s *state) note(p snapshots.Part) {
	add := func(is bool, n snapshots.Notice) {
		if is {
			s.notices = append(s.notices, n)
		}
	}
	add(p.Warning != "", snapshots.Notice{Warning: true, Text: p.Warning})
	add(p.Unordered, snapshots.Notice{Text: p.Name + " is not in the order of time: it is read in full"})
	add(p.Unchecked, snapshots.Notice{Stat: "Files whose order is not known yet", Count: 1,
		Text: p.Name + ": whether its rows are in the order of time is being checked; until then, rows that were " +
			"appended late may be missing"})
	add(!p.Dated && p.Rows > 0, snapshots.Notice{Warning: true, Text: fmt.Sprintf("%s: none of its rows has a readable "+
		"timestamp, such as %q: left out", p.Name, p.Sample)})
}

// time reads a local time regardless of the times before it.
func (s *state) time(local Local) pool.Micros { return s.source.zone.NewResolver().Resolve(local).Time }

// settle decides which of several files of one month or day counts: if both have rows, that of the higher rank.
func (s *state) settle() {
	for i := range s.files {
		lower := &s.files[i]
		if lower.info == nil || lower.info.First == None {
			continue
		}
		var above []string
		for _, higher := range s.files[i+1:] {
			if !strings.HasPrefix(higher.Period, lower.Period) {
				break
			}
			if higher.Rank <= lower.Rank || higher.info == nil || higher.info.First == None {
				continue
			}
			lower.without = append(lower.without, higher.spans()...)
			above = append(above, higher.Name)
		}
		if len(above) == 0 {
			continue
		}
		name := above[0]
		if more := len(above) - 1; more > 0 {
			name = fmt.Sprintf("%s and %d more", name, more)
		}
		text := fmt.Sprintf("%s and %s cover the same month: %s takes precedence, and %s counts if it has no rows",
			lower.Name, name, name, lower.Name)
		s.notices = append(s.notices, snapshots.Notice{Text: text, Stat: "Files of months that have a second one", Count: 1})
	}
}

// piece is a range of local time that a file counts for.
type piece struct {
	*file
	from, to Local
	cut      string // these bounds, "whole" if no other file takes a part of a day away
}

// pieces returns the files' rows of [from, to), ascending by period and time: a month can have files of both formats.
func (s *state) pieces(from, to Local) (all []piece) {
	for i := range s.files {
		f := &s.files[i]
		if f.err != nil && !f.sealed() {
			continue
		}
		for _, p := range takeOut(piece{f, from, to, "whole"}, f.without) {
			if p.from != from || p.to != to {
				p.cut = fmt.Sprintf("%d:%d", p.from, p.to)
			}
			if f.reaches(p.from, p.to) {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b piece) int {
		if a.Period == b.Period && a.Snapshot && b.Snapshot { // whose local times can go back
			return strings.Compare(a.Name, b.Name)
		}
		if a.Period == b.Period && a.Snapshot != b.Snapshot {
			return map[bool]int{false: -1, true: 1}[a.Snapshot]
		}
		return cmp.Or(strings.Compare(a.Period, b.Period), cmp.Compare(max(a.from, a.first()), max(b.from, b.first())))
	})
	return all
}

// takeOut takes stretches of time, in any order, out of a piece.
func takeOut(p piece, without []Stretch) []piece {
	rest := []piece{p}
	for _, w := range without {
		var next []piece
		for _, r := range rest {
			before, behind := r, r
			before.to, behind.from = min(r.to, w.First), max(r.from, w.Last+1)
			for _, p := range []piece{before, behind} {
				if p.from < p.to {
					next = append(next, p)
				}
			}
		}
		rest = next
	}
	return rest
}

// Sealed files are never written to. Their versions identify their content, and their names give the times of their
// rows. So the days of a source are known without opening each file: a file is opened when its rows are requested.

// sealed reports whether the file is one of them.
func (l *Listed) sealed() bool { return l.Version != "" }

// pending reports which files need not be opened yet: sealed ones, except the newest, which shows how far the rows
// reach, and except those for whose times another file may have rows as well.
func pending(files []file) []bool {
	newest := files[len(files)-1].Period
	whole, single := map[string]bool{}, map[string]bool{} // by period
	for _, f := range files {
		if f.Snapshot {
			single[f.Period] = true
		} else {
			whole[f.Period] = true
		}
	}
	later := make([]bool, len(files))
	for i := range files {
		f := &files[i]
		alone := !whole[f.Period[:len("2006-01")]] && (!whole[f.Period] || !single[f.Period])
		later[i] = f.sealed() && alone && (f.Snapshot || f.Period != newest)
	}
	return later
}

// opened returns pieces with the contents of the files that were pending. The err of a file says why it cannot be
// opened: ErrStale if it is not the listed version. Errors: ctx's.
func opened(ctx context.Context, pieces []piece) ([]piece, error) {
	all := slices.Clone(pieces)
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(parallelOpens)
	for i, p := range pieces {
		if !p.sealed() || p.info != nil && p.content.Version() == p.Version {
			continue
		}
		group.Go(func() error {
			now := *p.file
			now.content, now.err = now.file.Look(inner, false)
			switch {
			case now.err != nil:
			case now.content.Version() != now.Version:
				now.err = snapshots.ErrStale
			default:
				now.info = now.content.Info()
			}
			all[i].file = &now
			return inner.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	return all, nil
}

// first is not after any row of the file; None if there is none with a timestamp.
func (f *file) first() Local {
	if f.sealed() {
		return f.First
	}
	return f.info.First
}

// reaches reports whether rows of the file can lie in [from, to).
func (f *file) reaches(from, to Local) bool {
	switch {
	case f.sealed(): // even after it was opened, because the pieces of a day must not depend on that
		return f.First < to && f.Last >= from
	case f.info.Unordered:
		return !Find(f.info.Stretches, from, to).Empty()
	}
	return f.info.First != None && f.info.First < to && f.info.Last >= from
}

// spans are the times between which the file has rows in the order of time, or may have.
func (f *file) spans() []Stretch {
	switch {
	case f.info == nil && f.sealed():
		return []Stretch{{First: f.First, Last: f.Last}}
	case f.info == nil, f.info.First == None:
		return nil
	case f.info.Unordered:
		return slices.DeleteFunc(slices.Clone(f.info.Stretches), func(s Stretch) bool { return s.First == None })
	}
	return []Stretch{{First: f.info.First, Last: f.info.Last}}
}
