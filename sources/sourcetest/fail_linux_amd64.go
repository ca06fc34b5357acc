package sourcetest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Failed is the outcome of FailAt.
type Failed struct {
	Call   string // the system call that failed; empty if there was none
	Path   string // of its file
	Status int    // of the command
}

// FailAt runs a command to its end and has one system call fail with an errno:
// call number step of those that read, change or look up files below dirs. No call
// fails if the command makes fewer. Closing files always succeeds. The error
// matches EPERM where processes may not be traced.
func FailAt(cmd *exec.Cmd, step int, errno syscall.Errno, dirs ...string) (Failed, error) {
	var failed Failed
	ws, err := trace(cmd, func(p *tracee) syscall.Errno {
		c, ok := p.call()
		if !ok || p.done {
			return 0
		}
		path := p.file(c)
		if !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }) {
			return 0
		}
		if step--; step > 0 {
			return 0
		}
		failed, p.done = Failed{Call: c.name, Path: path}, true
		return errno
	})
	if err == nil && ws.Signaled() {
		err = fmt.Errorf("killed by %s", ws.Signal())
	}
	failed.Status = ws.ExitStatus()
	return failed, err
}

// Calls runs a command to its end and counts the system calls that read, change or look
// up files below dir, by "CALL PATH", the path relative to dir. The error matches EPERM
// where processes may not be traced.
func Calls(cmd *exec.Cmd, dir string) (map[string]int, error) {
	calls := map[string]int{}
	ws, err := trace(cmd, func(p *tracee) syscall.Errno {
		if c, ok := p.call(); ok {
			if path, ok := strings.CutPrefix(p.file(c), dir+"/"); ok {
				calls[c.name+" "+path]++
			}
		}
		return 0
	})
	if err == nil && ws.ExitStatus() != 0 {
		err = fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return calls, err
}

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
