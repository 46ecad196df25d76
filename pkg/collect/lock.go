package collect

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/chtc/gpureports/pkg/pool"
)

// lockName is the file whose lock a run that takes a snapshot holds; it stays.
const lockName = "collector.lock"

// lock lets one collection of a kind at a time into the directory.
func lock(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, pool.SourceError("locking the snapshot directory: %w: create it, writable for the user that collects",
			err)
	}
	if err = flock(file); err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, pool.SourceError("another collection is under way in %s", dir)
	}
	return nil, pool.SourceError("locking %s: %w", file.Name(), err)
}
