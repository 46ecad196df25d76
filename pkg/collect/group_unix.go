//go:build unix

package collect

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup starts the command in a process group of its own and ends all of it: condor_status may be a script.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}

// flock takes the file's lock, which goes with the file's closing, and so with the process. If another process has it,
// the error is EWOULDBLOCK.
func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
