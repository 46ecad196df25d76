//go:build !linux

package plugin

import (
	"os"
	"testing"
)

// unprivileged runs f with the file rights of an ordinary user.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything, and only Linux can put its rights aside")
	}
	f()
}
