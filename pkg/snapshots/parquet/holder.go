package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// fileHolder holds a file in a directory.
type fileHolder struct {
	dir  *snapshots.Dir
	name string
}

// Version implements Holder.
func (h fileHolder) Version() (Version, error) {
	info, err := h.dir.Stat(h.name)
	return fileVersion{info}, err
}

// Open implements Holder.
func (h fileHolder) Open(_ context.Context, v Version) (Input, error) {
	in, err := h.dir.Root().Open(pool.Inside(h.dir.Path(), h.name))
	if err != nil {
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !v.Same(fileVersion{info}) {
		err = snapshots.ErrStale
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

// Warning implements Holder.
func (fileHolder) Warning() string { return "" }

// fileVersion is a file as it was at a moment.
type fileVersion struct{ os.FileInfo }

// Same reports whether the file was neither written to nor replaced.
func (v fileVersion) Same(other Version) bool {
	o, ok := other.(fileVersion)
	return ok && os.SameFile(v.FileInfo, o.FileInfo) && v.Size() == o.Size() && v.ModTime().Equal(o.ModTime())
}

// Tag implements Version.
func (v fileVersion) Tag() string { return fmt.Sprintf("%d-%d", v.Size(), v.ModTime().UnixNano()) }
