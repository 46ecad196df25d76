//go:build unix

package sqlite

import (
	"os"
	"syscall"
)

// inodeOf tells files of one name apart.
func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
