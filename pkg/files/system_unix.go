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

// Inode returns a file's inode, which distinguishes files of one name.
func Inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// IsOwn reports whether a file belongs to the user of this process.
func IsOwn(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(s.Uid) == os.Geteuid()
}
