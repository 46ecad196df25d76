// Package folder tells directories that are held open from those that took their places.
package folder

import "os"

// Replaced reports whether a path no longer leads to the directory that was opened there: it was renamed or deleted, a
// link to it was turned to another one, or something was mounted over it.
func Replaced(opened *os.Root, path string) bool {
	was, err := opened.Stat(".")
	if err != nil {
		return true // a stale handle of a network file system
	}
	is, err := os.Stat(path)
	return err != nil || !os.SameFile(was, is)
}
