package sourcetest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// longest is the maximum running time of a traced process.
const longest = time.Minute

// trace runs a command to its end and calls enter before each system call in
// each of its threads. If enter returns an errno, the call is not made, and
// fails with that errno. The error matches EPERM if the system does not permit
// tracing.
func trace(cmd *exec.Cmd, enter func(*tracee) syscall.Errno) (unix.WaitStatus, error) {
	runtime.LockOSThread() // the tracer of a process is a single thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true} // a process group, so that Wait4 waits only for this process
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer cmd.Wait() // waits for the goroutines that copy output; run has reaped the process
	p := &tracee{pid: cmd.Process.Pid, thread: cmd.Process.Pid}
	late := time.AfterFunc(longest, func() { _ = unix.Kill(p.pid, unix.SIGKILL) })
	ws, err := p.run(enter)
	if !late.Stop() && err == nil {
		err = fmt.Errorf("still running after %s", longest)
	}
	return ws, err
}

// A tracee is a traced process that is about to make a system call.
type tracee struct {
	pid, thread int
	regs        unix.PtraceRegs
	memory      *os.File
	done        bool // no later calls are of interest
}

func (p *tracee) run(enter func(*tracee) syscall.Errno) (ws unix.WaitStatus, err error) {
	if _, err := unix.Wait4(p.pid, &ws, unix.WALL, nil); err != nil {
		return ws, err
	}
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(p.pid, options); err != nil {
		return ws, err
	}
	if p.memory, err = os.Open(fmt.Sprintf("/proc/%d/mem", p.pid)); err != nil {
		return ws, err
	}
	defer p.memory.Close()
	inside := map[int]bool{}           // whether a thread is in a system call
	failing := map[int]syscall.Errno{} // by thread
	for signal := 0; ; {
		// If the thread has exited in the meantime, Wait4 reports that.
		if p.done && len(failing) == 0 {
			_ = unix.PtraceCont(p.thread, signal)
		} else {
			_ = unix.PtraceSyscall(p.thread, signal)
		}
		if p.thread, err = unix.Wait4(-p.pid, &ws, unix.WALL, nil); err != nil {
			return ws, err
		}
		signal = 0
		switch {
		case p.thread == p.pid && (ws.Exited() || ws.Signaled()):
			return ws, nil
		case !ws.Stopped():
		case ws.StopSignal() == unix.SIGTRAP|0x80:
			inside[p.thread] = !inside[p.thread]
			if unix.PtraceGetRegs(p.thread, &p.regs) != nil {
				continue
			}
			if !inside[p.thread] {
				if errno := failing[p.thread]; errno != 0 {
					delete(failing, p.thread)
					p.regs.Rax = -uint64(errno)
					err = unix.PtraceSetRegs(p.thread, &p.regs)
				}
			} else if errno := enter(p); errno != 0 {
				failing[p.thread] = errno
				p.regs.Orig_rax = ^uint64(0) // an invalid number, so that no system call is made
				err = unix.PtraceSetRegs(p.thread, &p.regs)
			}
			if err != nil {
				return ws, err
			}
		case ws.StopSignal() != unix.SIGTRAP && ws.StopSignal() != unix.SIGSTOP:
			signal = int(ws.StopSignal())
		}
	}
}

// A fileCall is a system call that operates on files. Fd and path are the
// numbers of its arguments for the file: a descriptor, and a path relative to
// it. Path may be none.
type fileCall struct {
	name     string
	fd, path int
	changes  bool
}

// none means that there is no such argument.
const none = -1

var fileCalls = map[uint64]fileCall{
	unix.SYS_OPENAT:     {"openat", 0, 1, false}, // a change if it creates the file
	unix.SYS_STATX:      {"statx", 0, 1, false},
	unix.SYS_NEWFSTATAT: {"newfstatat", 0, 1, false},
	unix.SYS_FACCESSAT:  {"faccessat", 0, 1, false},
	unix.SYS_FACCESSAT2: {"faccessat2", 0, 1, false},
	unix.SYS_READLINKAT: {"readlinkat", 0, 1, false},
	unix.SYS_STATFS:     {"statfs", none, 0, false},
	unix.SYS_FSTAT:      {"fstat", 0, none, false},
	unix.SYS_FSTATFS:    {"fstatfs", 0, none, false},
	unix.SYS_READ:       {"read", 0, none, false},
	unix.SYS_PREAD64:    {"pread64", 0, none, false},
	unix.SYS_GETDENTS64: {"getdents64", 0, none, false},
	unix.SYS_FSYNC:      {"fsync", 0, none, false},
	unix.SYS_FDATASYNC:  {"fdatasync", 0, none, false},
	unix.SYS_SYNCFS:     {"syncfs", 0, none, false},

	unix.SYS_WRITE:           {"write", 0, none, true},
	unix.SYS_PWRITE64:        {"pwrite64", 0, none, true},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", 2, none, true},
	unix.SYS_FTRUNCATE:       {"ftruncate", 0, none, true},
	unix.SYS_FALLOCATE:       {"fallocate", 0, none, true},
	unix.SYS_FCHMOD:          {"fchmod", 0, none, true},
	unix.SYS_FCHMODAT:        {"fchmodat", 0, 1, true},
	unix.SYS_FCHMODAT2:       {"fchmodat2", 0, 1, true},
	unix.SYS_UTIMENSAT:       {"utimensat", 0, 1, true},
	unix.SYS_MKDIRAT:         {"mkdirat", 0, 1, true},
	unix.SYS_UNLINKAT:        {"unlinkat", 0, 1, true},
	unix.SYS_SYMLINKAT:       {"symlinkat", 1, 2, true},
	unix.SYS_RENAMEAT:        {"renameat", 2, 3, true},
	unix.SYS_RENAMEAT2:       {"renameat2", 2, 3, true},
	unix.SYS_LINKAT:          {"linkat", 2, 3, true},
	unix.SYS_IOCTL:           {"ioctl FICLONE", 0, none, true},
}

// call returns the system call that the process is about to make, and false if
// it does not operate on files.
func (p *tracee) call() (c fileCall, ok bool) {
	c, ok = fileCalls[p.regs.Orig_rax]
	switch p.regs.Orig_rax {
	case unix.SYS_OPENAT:
		c.changes = p.regs.Rdx&unix.O_CREAT != 0
	case unix.SYS_IOCTL:
		ok = p.regs.Rsi == unix.FICLONE
	}
	return c, ok
}

// file returns the path of the file that a call operates on, or the second one
// of two. For anything but a file, such as a socket, the result does not begin
// with a slash.
func (p *tracee) file(c fileCall) string {
	args := [...]uint64{p.regs.Rdi, p.regs.Rsi, p.regs.Rdx, p.regs.R10}
	name := ""
	if c.path != none && args[c.path] != 0 {
		buf := make([]byte, unix.PathMax)
		n, _ := p.memory.ReadAt(buf, int64(args[c.path])) // reads up to the end of the memory
		before, _, _ := bytes.Cut(buf[:n], []byte{0})
		name = string(before)
	}
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	from := "cwd"
	if c.fd != none && int32(args[c.fd]) != unix.AT_FDCWD {
		from = "fd/" + strconv.Itoa(int(int32(args[c.fd])))
	}
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", p.pid, from))
	if name == "" {
		return dir
	}
	return filepath.Join(dir, name)
}

// onDisk reports whether a path is that of a file, and not of a socket, a
// device or a file in /proc.
func onDisk(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/proc/")
}
