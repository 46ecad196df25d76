package parquet

import (
	"context"
	"errors"
	"os"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// fileHolder holds a file in a directory.
type fileHolder struct {
	dir  *snapshots.Dir
	name string
}

var errNoFile = errors.New("it is no regular file")

// Version implements Holder.
func (h fileHolder) Version() (Version, error) {
	info, err := h.dir.Root().Stat(h.name)
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	return fileVersion{info}, err
}

// Open implements Holder.
func (h fileHolder) Open(_ context.Context, v Version) (Input, error) {
	in, err := h.dir.Root().Open(h.name)
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

// fileVersion is a file as it was at a moment.
type fileVersion struct{ os.FileInfo }

// Same reports whether nobody wrote to the file or replaced it.
func (v fileVersion) Same(other Version) bool {
	o, ok := other.(fileVersion)
	return ok && os.SameFile(v.FileInfo, o.FileInfo) && v.Size() == o.Size() && v.ModTime().Equal(o.ModTime())
}
