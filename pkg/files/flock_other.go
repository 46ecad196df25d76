//go:build !unix

package files

import "os"

func flock(*os.File) error { return ErrNoLocks }
