package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An install is killed before each change that it makes to the file system, in
// a run of its own. What it leaves must be whole, and the next install must
// succeed and clear up.
func TestCrashAtEveryStep(t *testing.T) {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	k := newRack(t, options{providers: []string{"alpha"}, size: 1 << 10})
	stride := 1
	if testing.Short() {
		stride = 10
	}
	for step := 1; ; step += stride {
		k.dir = t.TempDir()
		finished, err := k.killAt(step)
		if errors.Is(err, syscall.EPERM) {
			t.Skip("nobody may trace processes here")
		}
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if finished {
			if step < 20 {
				t.Fatalf("only %d steps were seen", step)
			}
			t.Logf("%d steps", step-1)
			return
		}
		k.wholeOrNothing(t, step)
		k.check(step)
		k.must(os.RemoveAll(k.dir))
	}
}

// wholeOrNothing checks what the dead has left: packages are as published where
// they are seen, and a lock file is one.
func (k *rack) wholeOrNothing(t *testing.T, step int) {
	for _, dir := range []string{k.cache(), filepath.Join(k.dir, "dead", ".terraform", "providers")} {
		entry := filepath.Join(dir, entryPath("alpha"))
		if _, err := os.Stat(entry); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if got, want := k.hash(entry); got != want {
			t.Fatalf("step %d: %s is %s, want %s", step, entry, got, want)
		}
	}
	lock, err := os.ReadFile(filepath.Join(k.dir, "dead", ".terraform.lock.hcl"))
	if err == nil && !strings.HasSuffix(string(lock), "\n}\n") {
		t.Fatalf("step %d: half a lock file:\n%s", step, lock)
	}
}

// killAt starts an install and kills it before its change number step. It has
// finished if it makes fewer.
func (k *rack) killAt(step int) (finished bool, err error) {
	return k.prepare("dead", k.larder, "install", "--quiet").killAt(step)
}

// killAt starts a process and kills it before its change number step. It has
// finished if it makes fewer.
func (p *process) killAt(step int) (finished bool, err error) {
	p.cmd.Stdout, p.cmd.Stderr = nil, nil // whose copying would have to be waited for
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := p.cmd.Start(); err != nil {
		return false, err
	}
	pid := p.cmd.Process.Pid
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return false, err
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		return false, err
	}
	return trace(pid, step)
}

// trace lets all threads of a process run from one system call to the next.
func trace(pid, step int) (finished bool, err error) {
	inside := map[int]bool{} // a system call, by thread
	thread, signal := pid, 0
	for {
		// A thread that is gone meanwhile is told of by Wait4.
		_ = unix.PtraceSyscall(thread, signal)
		var ws unix.WaitStatus
		if thread, err = unix.Wait4(-1, &ws, unix.WALL, nil); err != nil {
			return false, err
		}
		signal = 0
		switch {
		case thread == pid && ws.Exited():
			if ws.ExitStatus() != 0 {
				return false, fmt.Errorf("status %d", ws.ExitStatus())
			}
			return true, nil
		case thread == pid && ws.Signaled():
			return false, nil
		case !ws.Stopped():
		case ws.StopSignal() == unix.SIGTRAP|0x80:
			inside[thread] = !inside[thread]
			if inside[thread] && changes(pid, thread) {
				step--
			}
			if step == 0 {
				step = -1 // dying takes a while
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					return false, err
				}
			}
		case ws.StopSignal() != unix.SIGTRAP && ws.StopSignal() != unix.SIGSTOP:
			signal = int(ws.StopSignal())
		}
	}
}

// changes reports whether the system call that a thread is about to make
// changes the file system.
func changes(pid, thread int) bool {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(thread, &regs) != nil {
		return false
	}
	switch regs.Orig_rax {
	case unix.SYS_OPENAT:
		return regs.Rdx&unix.O_CREAT != 0
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, regs.Rdi))
		return err == nil && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/")
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT,
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FTRUNCATE, unix.SYS_COPY_FILE_RANGE, unix.SYS_UTIMENSAT:
		return true
	}
	return false
}
