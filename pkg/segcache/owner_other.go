//go:build !unix

package segcache

import "io/fs"

// isOwn returns true: here rights on the cache directory are the operator's.
func isOwn(fs.FileInfo) bool { return true }
