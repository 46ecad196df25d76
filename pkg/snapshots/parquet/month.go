package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Format is the format of month files in Parquet.
var Format = months.Format{
	Extension: "parquet",
	Open: func(dir *snapshots.Dir, name string, zone *localtime.Zone) months.File {
		return NewFile(name, true, nil, fileHolder{dir, name}, zone)
	},
}

// month implements months.File. Nothing stays open between calls: a collector puts a new file under the name each time,
// and rows of the old one that were read are recognized by their content.
type month struct {
	holder Holder
	name   string
	zone   *localtime.Zone // the collector's
	grows  bool            // rows are appended to it
	times  *months.Stretch // in which all of its rows are; nil: they are anywhere

	unordered atomic.Bool // its rows have turned out not to be in the order of time

	looking *semaphore.Weighted     // one of those who look reads: a mutex would hold the others beyond their deadlines
	last    atomic.Pointer[content] // what the last look that succeeded found
	edits   uint64                  // how many versions were seen, see months.Info
}

// NewFile returns the file of a name. grows: collectors append rows to it, by putting a longer one in its place. times:
// all of its rows have times in them (nil: any times); a file with others cannot be read.
func NewFile(name string, grows bool, times *months.Stretch, holder Holder, zone *localtime.Zone) months.File {
	return &month{holder: holder, name: name, zone: zone, grows: grows, times: times,
		looking: semaphore.NewWeighted(1)}
}

func (m *month) Look(ctx context.Context, newest bool) (months.Content, error) {
	if err := m.looking.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer m.looking.Release(1)
	newest = newest && m.grows
	last := m.last.Load()
	version, err := m.holder.Version()
	if err != nil {
		m.last.Store(nil)
		return nil, m.explain(err)
	}
	if last != nil && last.newest == newest && version.same(last.version) && (last.whole || !m.unordered.Load()) {
		return last, nil
	}
	if last == nil || !version.same(last.version) {
		m.edits++
	}
	c, err := m.readVersion(ctx, version, newest, last)
	if err != nil {
		return nil, m.explain(err)
	}
	if err := c.within(m.times); err != nil {
		return nil, err
	}
	m.last.Store(c)
	return c, nil
}

// readVersion reads the file, and reuses what is known of its row groups.
func (m *month) readVersion(ctx context.Context, version Version, newest bool, last *content) (*content, error) {
	in, err := m.holder.Open(ctx, version)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := Open(in, version.Size)
	if err != nil {
		return nil, err
	}
	c := &content{month: m, newest: newest, version: version, file: f.on(nil)}
	if err := c.load(ctx, f, last); err != nil {
		return nil, err
	}
	return c, nil
}

// Recheck implements months.File: every edit shows.
func (m *month) Recheck() {}

func (m *month) Close() { m.last.Store(nil) }

// explain makes an error of the file fit for a user.
func (m *month) explain(err error) error {
	var offline *months.Offline
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, snapshots.ErrStale):
		return err
	case errors.Is(err, fs.ErrPermission):
		return pool.SourceError("%s: permission denied; give the user that runs Grafana read access", m.name)
	case errors.Is(err, fs.ErrNotExist):
		return pool.SourceError("%s was removed while it was read: try again", m.name)
	case strings.Contains(err.Error(), "escapes"): // os.Root's refusal has no type
		return pool.SourceError("%s is a link that leads out of the snapshot directory: links must stay inside", m.name)
	case errors.Is(err, errNoParquet):
		return pool.SourceError("%s is not a Parquet file: convert it with `gpureports convert` if it is one of SQLite, "+
			"otherwise restore it from a backup, or move it away", m.name)
	case errors.Is(err, errDamaged):
		return pool.SourceError("%s cannot be read (%w): restore it from a backup, or move it away", m.name, err)
	case errors.As(err, &offline):
		return err
	}
	return pool.SourceError("%s cannot be read: %w", m.name, files.Bare(err))
}

// Holder is the place of a file with a name: a directory, or a bucket.
type Holder interface {
	// Version returns the version that the holder has under the name now.
	Version() (Version, error)

	// Open opens a version until ctx ends. Errors, also of reads: snapshots.ErrStale if there is another version now.
	Open(ctx context.Context, v Version) (Input, error)
}

// Version distinguishes the contents that a holder has under one name at two moments.
type Version struct {
	Size int64
	Tag  string      // the same for two versions, even in other processes, if nothing was written between them
	file os.FileInfo // nil for an object in a bucket
}

// same reports whether the file was neither written to nor replaced.
func (v Version) same(other Version) bool {
	return v.Tag == other.Tag && (v.file == nil || os.SameFile(v.file, other.file))
}

// Input reads a version.
type Input interface {
	io.ReaderAt
	io.Closer
}

// fileHolder is the Holder of a file in a directory.
type fileHolder struct {
	dir  *snapshots.Dir
	name string
}

func versionOf(info os.FileInfo) Version {
	return Version{info.Size(), fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()), info}
}

func (h fileHolder) Version() (Version, error) {
	info, err := h.dir.Stat(h.name)
	if err != nil {
		return Version{}, err
	}
	return versionOf(info), nil
}

func (h fileHolder) Open(_ context.Context, v Version) (Input, error) {
	in, err := h.dir.Root().Open(pool.Inside(h.dir.Path(), h.name))
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !v.same(versionOf(info)) {
		err = snapshots.ErrStale
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}
