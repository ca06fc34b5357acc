package sourcetest

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Failed is the result of FailAt.
type Failed struct {
	Call   string // the system call that failed; empty if none did
	Path   string // of its file
	Status int    // exit status of the command
	Steps  int    // number of calls up to the one that failed, or of all if none did
}

// FailAt runs a command to its end and makes one system call fail with an
// errno: number step among the calls that read, change or look up files below
// dirs. If step is 0, or the command makes fewer calls, none fails. Closing files always
// succeeds. The error matches EPERM if the system does not permit tracing.
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
		if failed.Steps++; failed.Steps != step {
			return 0
		}
		failed.Call, failed.Path, p.done = c.name, path, true
		return errno
	})
	if err == nil && ws.Signaled() {
		err = fmt.Errorf("killed by %s", ws.Signal())
	}
	failed.Status = ws.ExitStatus()
	return failed, err
}

// Calls runs a command to its end and counts the system calls that read, change
// or look up files below dir. The keys are "CALL PATH", with the path relative
// to dir. The error matches EPERM if the system does not permit tracing.
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

// KillAt runs a command and kills it before change number step to the file
// system. If step is 0, or the command makes fewer changes, it is not killed and
// must succeed. The result is the number of changes that were not prevented. The
// error matches EPERM if the system does not permit tracing.
func KillAt(cmd *exec.Cmd, step int) (changes int, err error) {
	ws, err := trace(cmd, func(p *tracee) syscall.Errno {
		if c, ok := p.call(); !ok || !c.changes || !onDisk(p.file(c)) {
			return 0
		}
		if changes+1 == step {
			p.done = true
			_ = unix.Kill(p.pid, unix.SIGKILL) // cannot fail, because the process is stopped
			return 0
		}
		changes++
		return 0
	})
	if err == nil && ws.Exited() && ws.ExitStatus() != 0 {
		err = fmt.Errorf("status %d", ws.ExitStatus())
	}
	return changes, err
}
