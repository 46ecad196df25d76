package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
)

var (
	// ErrLocked is the error of a lock that another program holds.
	ErrLocked = errors.New("another program holds its lock")
	// ErrNoLocks is the error of a volume without locks.
	ErrNoLocks = errors.New("its volume has no locks, so that two writers could destroy each other's rows: use --format " +
		"sqlite, or a bucket (--to)")
)

// patience is how long a writer waits for another one of the same file.
const patience = 10 * time.Second

// Lock takes the lock of a lock file, which it creates if there is none and which stays. The lock goes with the closing
// of the file, and so with the process. Errors: ErrLocked, ErrNoLocks.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) // #nosec G302 -- it is empty
	if err != nil {
		return nil, err
	}
	if err := flock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// lockWithin takes the lock of a file of a name, which is a file next to it, and waits for it.
func lockWithin(ctx context.Context, path string) (*os.File, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		held, err := Lock(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock"))
		if err == nil || !errors.Is(err, ErrLocked) {
			return held, err
		}
		if parallel.Wait(limited, 20*time.Millisecond) != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("%w for more than %s", err, patience)
		}
	}
}
