package months

import (
	"cmp"
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/snapshots"
)

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
	if f.sealed() { // even after it was opened, because the pieces of a day must not depend on that
		return f.First < to && f.Last >= from
	}
	return f.info.reaches(from, to)
}

// spans are the times between which the file has rows, or may have.
func (f *file) spans() []Stretch {
	switch {
	case f.info != nil:
		return f.info.spans()
	case f.sealed():
		return []Stretch{{First: f.First, Last: f.Last}}
	}
	return nil
}
