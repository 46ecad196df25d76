package collect

import (
	"os"
	"path/filepath"

	"github.com/chtc/gpureports/pkg/pool"
)

// lockName is the file whose lock a collection holds; it stays.
const lockName = "collector.lock"

// lock lets one collection at a time into the directory.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, pool.SourceError("locking the snapshot directory: %w", err)
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
