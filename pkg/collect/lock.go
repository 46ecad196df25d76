package collect

import (
	"os"
	"path/filepath"

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
	free, err := flock(file)
	if err == nil && !free {
		err = pool.SourceError("another collection is under way in %s", dir)
	} else if err != nil {
		err = pool.SourceError("locking %s: %w", file.Name(), err)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
