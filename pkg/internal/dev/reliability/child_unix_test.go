//go:build unix

package reliability

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const childVariable = "GPUREPORTS_RELIABILITY_DIR"

// inChild runs the test once more in a process of its own, with a directory that may be read by everybody, and there
// body. What body does to its process ends with it.
func inChild(t *testing.T, prepare func(dir string), body func(dir string)) {
	t.Helper()
	if dir := os.Getenv(childVariable); dir != "" {
		body(dir)
		return
	}
	dir, err := os.MkdirTemp("", "gpureports-reliability-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	prepare(dir)
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "the child ran nothing")
}

// becomeNobody gives up root's right to read and write everything.
func becomeNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	require.NoError(t, syscall.Setgroups(nil))
	require.NoError(t, syscall.Setgid(nobody))
	require.NoError(t, syscall.Setuid(nobody))
}

// pipe makes a named pipe.
func pipe(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(path, 0o600))
}
