//go:build unix

package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// flock takes a file's lock, without waiting.
func flock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrLocked
	case err != nil:
		return fmt.Errorf("%w (%w)", ErrNoLocks, err)
	}
	return nil
}
