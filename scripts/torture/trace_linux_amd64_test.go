package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A failure is the result of failAt.
type failure struct {
	call   string // the system call that failed; empty if none did
	path   string // of its file
	status int    // exit status of the command
	steps  int    // number of calls up to the one that failed, or of all if none did
}

// failAt runs a command to its end and makes one system call fail with an
// errno: number step among the calls that read, change or look up files in
// dir. If step is 0, or the command makes fewer calls, none fails. Closing and locking files
// always succeed. The error matches EPERM if the system does not permit tracing.
func failAt(cmd *exec.Cmd, step int, errno syscall.Errno, dir string) (failure, error) {
	var failed failure
	ws, err := trace(cmd, func(p *tracee, c fileCall, path string) syscall.Errno {
		if !strings.HasPrefix(path+"/", dir+"/") || slices.Contains([]string{"close", "fcntl", "flock"}, c.name) {
			return 0
		}
		if failed.steps++; failed.steps != step {
			return 0
		}
		failed.call, failed.path, p.done = c.name, path, true
		return errno
	})
	if err == nil && ws.Signaled() {
		err = fmt.Errorf("killed by %s", ws.Signal())
	}
	failed.status = ws.ExitStatus()
	return failed, err
}

// callsIn runs a command to its end and counts the system calls that read, change
// or look up files below dir. The keys are "CALL PATH", with the path relative
// to dir. The error matches EPERM if the system does not permit tracing.
func callsIn(cmd *exec.Cmd, dir string) (map[string]int, error) {
	calls := map[string]int{}
	ws, err := trace(cmd, func(_ *tracee, c fileCall, path string) syscall.Errno {
		if path, ok := strings.CutPrefix(path, dir+"/"); ok {
			calls[c.name+" "+path]++
		}
		return 0
	})
	if err == nil && ws.ExitStatus() != 0 {
		err = fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return calls, err
}

// killAt runs a command and kills it before change number step to the file
// system. If step is 0, or the command makes fewer changes, it is not killed and
// must succeed. The result is the number of changes that were not prevented. The
// error matches EPERM if the system does not permit tracing.
func killAt(cmd *exec.Cmd, step int) (changes int, err error) {
	ws, err := trace(cmd, func(p *tracee, c fileCall, path string) syscall.Errno {
		switch {
		case !c.changes || !onDisk(path):
		case changes+1 == step:
			p.done = true
			_ = unix.Kill(p.pid, unix.SIGKILL) // cannot fail, because the process is stopped
		default:
			changes++
		}
		return 0
	})
	if err == nil && ws.Exited() && ws.ExitStatus() != 0 {
		err = fmt.Errorf("status %d", ws.ExitStatus())
	}
	return changes, err
}

// TestFailAt checks that each call on the file fails once, and that no call on
// another file fails.
func TestFailAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(file, []byte("text"), 0o644))
	for step := 1; ; step++ {
		var out, problem bytes.Buffer
		cmd := exec.Command("cat", file)
		cmd.Stdout, cmd.Stderr = &out, &problem
		failed, err := failAt(cmd, step, syscall.EIO, filepath.Dir(file))
		skipUntraced(t, err)
		sourcetest.Check(t, err)
		if failed.call == "" {
			sourcetest.Require(t, step >= 3 && failed.status == 0 && out.String() == "text",
				"step %d: %+v, %s, %s", step, failed, &out, &problem)
			return
		}
		if failed.path != file || failed.status != 1 || !strings.Contains(problem.String(), "Input/output error") {
			t.Errorf("step %d: %+v, %s", step, failed, &problem)
		}
	}
}

// longest is the maximum running time of a traced process.
const longest = time.Minute

// trace runs a command to its end and calls enter before each system call on
// files in each of its threads, with the path of the file: see [tracee.file].
// If enter returns an errno, the call is not made, and fails with that errno.
// The error matches EPERM if the system does not permit tracing.
//
// The kernel compares the calls with a filter, because stopping the process twice
// for each call that has nothing to do with files takes most of the time. The
// command must not start other processes: their calls on files would fail.
func trace(cmd *exec.Cmd, enter func(p *tracee, c fileCall, path string) syscall.Errno) (unix.WaitStatus, error) {
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
	path        [unix.PathMax]byte
	done        bool // no later calls are of interest
}

func (p *tracee) run(enter func(*tracee, fileCall, string) syscall.Errno) (ws unix.WaitStatus, err error) {
	if _, err := unix.Wait4(p.pid, &ws, unix.WALL, nil); err != nil {
		return ws, err
	}
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(p.pid, options); err != nil {
		return ws, err
	}
	if p.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_RDWR, 0); err != nil {
		return ws, err
	}
	defer p.memory.Close()
	if err := p.install(fileFilter()); err != nil {
		return ws, fmt.Errorf("installing a filter for system calls: %w", err)
	}
	for signal := 0; ; {
		_ = unix.PtraceCont(p.thread, signal) // if the thread has exited in the meantime, Wait4 reports that
		if p.thread, err = unix.Wait4(-p.pid, &ws, unix.WALL, nil); err != nil {
			return ws, err
		}
		signal = 0
		switch {
		case p.thread == p.pid && (ws.Exited() || ws.Signaled()):
			return ws, nil
		case !ws.Stopped():
		case ws.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
			c, ok := p.call()
			if !ok {
				continue
			}
			if errno := enter(p, c, p.file(c)); errno != 0 {
				p.regs.Orig_rax, p.regs.Rax = ^uint64(0), -uint64(errno) // an invalid number, so that no system call is made
				if err := unix.PtraceSetRegs(p.thread, &p.regs); err != nil {
					return ws, err
				}
			}
		case ws.StopSignal() != unix.SIGTRAP && ws.StopSignal() != unix.SIGSTOP:
			signal = int(ws.StopSignal())
		}
	}
}

// fileFilter returns a seccomp filter that stops the process before each of fileCalls.
func fileFilter() []unix.SockFilter {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for number := range fileCalls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(number)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	return append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// install makes the process, which has just begun and has one thread, install a
// seccomp filter. It overwrites the next instruction and memory below the stack,
// and restores the instruction.
func (p *tracee) install(filter []unix.SockFilter) error {
	var start unix.PtraceRegs
	if err := unix.PtraceGetRegs(p.pid, &start); err != nil {
		return err
	}
	var data bytes.Buffer
	at := (start.Rsp - 8192) &^ 15
	program := struct {
		Len    uint64 // in 16 bits, and padding
		Filter uint64
	}{uint64(len(filter)), at + 16}
	err := errors.Join(binary.Write(&data, binary.NativeEndian, program), binary.Write(&data, binary.NativeEndian, filter))
	next, call := make([]byte, 2), []byte{0x0f, 0x05} // the instruction SYSCALL
	for _, do := range []func() error{
		func() error { _, err := p.memory.WriteAt(data.Bytes(), int64(at)); return err },
		func() error { _, err := p.memory.ReadAt(next, int64(start.Rip)); return err },
		func() error { _, err := p.memory.WriteAt(call, int64(start.Rip)); return err },
		func() error { return p.makeCall(start, unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) },
		func() error { return p.makeCall(start, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, at) },
		func() error { _, err := p.memory.WriteAt(next, int64(start.Rip)); return err },
		func() error { return unix.PtraceSetRegs(p.pid, &start) },
	} {
		if err == nil {
			err = do()
		}
	}
	return err
}

// makeCall makes a system call in the process, whose next instruction is SYSCALL.
func (p *tracee) makeCall(regs unix.PtraceRegs, number, first, second, third uint64) error {
	regs.Orig_rax, regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8 = ^uint64(0), number, first, second, third, 0, 0
	var ws unix.WaitStatus
	err := unix.PtraceSetRegs(p.pid, &regs)
	if err == nil {
		err = unix.PtraceSingleStep(p.pid)
	}
	if err == nil {
		_, err = unix.Wait4(p.pid, &ws, unix.WALL, nil)
	}
	if err == nil {
		err = unix.PtraceGetRegs(p.pid, &regs)
	}
	if result := int64(regs.Rax); err == nil && result < 0 {
		err = syscall.Errno(-result)
	}
	return err
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
	unix.SYS_OPENAT2:    {"openat", 0, 1, false},
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

	unix.SYS_CLOSE: {"close", 0, none, false},
	unix.SYS_FCNTL: {"fcntl", 0, none, false},
	unix.SYS_FLOCK: {"flock", 0, none, false},

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
// it does not operate on files, or none is of interest any more.
func (p *tracee) call() (c fileCall, ok bool) {
	if p.done || unix.PtraceGetRegs(p.thread, &p.regs) != nil {
		return c, false
	}
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
		n, _ := p.memory.ReadAt(p.path[:], int64(args[c.path])) // reads up to the end of the memory
		before, _, _ := bytes.Cut(p.path[:n], []byte{0})
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
// device or a file in /proc. Files of tests may be in memory.
func onDisk(path string) bool {
	special := strings.HasPrefix(path, "/dev/") && !strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/proc/")
	return strings.HasPrefix(path, "/") && !special
}
