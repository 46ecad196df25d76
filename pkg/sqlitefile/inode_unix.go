//go:build unix

package sqlitefile

import (
	"os"
	"syscall"
)

// inodeOf returns the file's inode, which distinguishes files of one name.
func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
