package collect

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/pool"
)

// lockName is the file whose lock a run that takes a snapshot holds; it stays.
const lockName = "collector.lock"

// lock lets one collection of a kind at a time into the directory.
func lock(dir, name string) (*os.File, error) {
	held, err := files.Lock(filepath.Join(dir, name))
	switch {
	case errors.Is(err, files.ErrLocked):
		return nil, pool.SourceError("another collection is under way in %s", dir)
	case err != nil:
		return nil, pool.SourceError("locking the snapshot directory: %w: create it, writable for the user that collects",
			err)
	}
	return held, nil
}
