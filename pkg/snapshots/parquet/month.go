package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Format is that of month files in Parquet.
var Format = months.Format{
	Extension: "parquet",
	Open:      func(dir *snapshots.Dir, name string) months.File { return &month{dir: dir, name: name} },
}

// month implements months.File. Nothing stays open between calls: a collector puts a new file under the name each time,
// and what was read of the old one is recognised by its content.
type month struct {
	dir  *snapshots.Dir
	name string

	mu    sync.Mutex
	last  *content // of the last look that succeeded
	edits uint64   // of the contents so far
}

// Look implements months.File.
func (m *month) Look(ctx context.Context, newest bool) (months.Content, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	info, err := m.stat()
	if err != nil {
		m.last = nil
		return nil, m.explain(err)
	}
	if m.last != nil && m.last.newest == newest && sameFile(info, m.last.stat) {
		return m.last, nil
	}
	c, err := m.look(ctx, newest)
	if err != nil {
		return nil, m.explain(err)
	}
	m.last = c
	return c, nil
}

// look reads what is new of the file.
func (m *month) look(ctx context.Context, newest bool) (*content, error) {
	in, err := m.dir.Root().Open(m.name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	c := &content{month: m, newest: newest}
	if c.stat, err = in.Stat(); err != nil {
		return nil, err
	}
	if c.file, err = Open(in, c.stat.Size()); err != nil {
		return nil, err
	}
	if err := c.read(ctx, in, m.last); err != nil {
		return nil, err
	}
	return c, nil
}

func (m *month) stat() (os.FileInfo, error) {
	info, err := m.dir.Root().Stat(m.name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	return info, err
}

// Close implements months.File.
func (m *month) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = nil
}

// sameFile reports whether nobody wrote to a file or replaced it.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

var errNoFile = errors.New("it is no regular file")

// explain makes an error of the file fit for a user.
func (m *month) explain(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, snapshots.ErrStale):
		return err
	case errors.Is(err, fs.ErrPermission):
		return pool.SourceError("%s may not be read: give the user that runs Grafana the right to read it", m.name)
	case errors.Is(err, fs.ErrNotExist):
		return pool.SourceError("%s was removed while it was read: try again", m.name)
	case strings.Contains(err.Error(), "escapes"): // os.Root's refusal has no type
		return pool.SourceError("%s is a link that leads out of the snapshot directory: links must stay inside", m.name)
	case errors.Is(err, errNoParquet):
		return pool.SourceError("%s is no Parquet file: restore it from a copy, or move it away", m.name)
	case errors.Is(err, errDamaged):
		return pool.SourceError("%s cannot be read (%w): restore it from a copy, or move it away", m.name, err)
	}
	return pool.SourceError("%s cannot be read: %w", m.name, snapshots.Bare(err))
}

// required columns; where one of the others is missing, it is empty.
var required = []string{
	snapshots.ColumnNames[snapshots.Name], snapshots.ColumnNames[snapshots.AssignedGPUs],
	snapshots.ColumnNames[snapshots.SlotState], snapshots.ColumnNames[snapshots.Machine], snapshots.TimestampColumn,
}

// complete returns an error if the file lacks a column that is required, or its timestamps are no local times.
func complete(f *File) error {
	lacking := slices.DeleteFunc(slices.Clone(required), func(name string) bool { return f.Column(name) != nil })
	if len(lacking) > 0 {
		return fmt.Errorf("it has no column %s", strings.Join(lacking, ", "))
	}
	if f.Column(snapshots.TimestampColumn).unit == zonedTime {
		return errors.New("its timestamps have a time zone: a collector writes its local time without one")
	}
	return nil
}
