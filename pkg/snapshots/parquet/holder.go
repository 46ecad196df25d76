package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Holder is the place of a file with a name: a directory, or a bucket.
type Holder interface {
	// Version returns the version that the holder has under the name now.
	Version() (Version, error)

	// Open opens a version. Reading it ends with ctx. Errors, also when reading: snapshots.ErrStale if the holder has
	// another version by now.
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
