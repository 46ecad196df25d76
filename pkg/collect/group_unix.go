//go:build unix

package collect

import (
	"os/exec"
	"syscall"
)

// ownGroup starts the command in a process group of its own and ends all of it: condor_status may be a script.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
