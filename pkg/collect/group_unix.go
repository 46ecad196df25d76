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

// flock takes the file's lock if it is free. It goes with the file's closing, and so with the process.
func flock(file *os.File) (free bool, err error) {
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
