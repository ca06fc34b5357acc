package sourcetest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// KillAt runs a command and kills it before its change number step to the file
// system. It has finished if it makes fewer. The error matches EPERM where nobody
// may trace processes.
func KillAt(cmd *exec.Cmd, step int) (finished bool, err error) {
	runtime.LockOSThread() // who traces is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	pid := cmd.Process.Pid
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
