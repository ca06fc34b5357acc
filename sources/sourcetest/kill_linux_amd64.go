package sourcetest

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// KillAt runs a command and kills it before its change number step to the file
// system. The command has finished if it makes fewer. The error matches EPERM
// where processes may not be traced.
func KillAt(cmd *exec.Cmd, step int) (finished bool, err error) {
	ws, err := trace(cmd, func(p *tracee) syscall.Errno {
		if c, ok := p.call(); !ok || !c.changes || !onDisk(p.file(c)) {
			return 0
		}
		if step--; step == 0 {
			_ = unix.Kill(p.pid, unix.SIGKILL) // it is stopped, so it is there
		}
		return 0
	})
	switch {
	case err != nil || ws.Signaled():
		return false, err
	case ws.ExitStatus() != 0:
		return false, fmt.Errorf("status %d", ws.ExitStatus())
	default:
		return true, nil
	}
}
