package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// On a console, output has colors and the console's width, and Ctrl-C ends a request for which a server has no answer.
func TestConsole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	sourcetest.Check(t, err)
	defer listener.Close()
	asked := make(chan struct{})
	go func() {
		for once := new(sync.Once); ; once.Do(func() { close(asked) }) {
			if _, err := listener.Accept(); err != nil { // never answered
				return
			}
		}
	}()
	dir := t.TempDir()
	config := fmt.Sprintf("host \"example.test\" {\n services = { \"providers.v1\" = \"http://%s/v1/\" }\n}\n", listener.Addr())
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "cli.tfrc"), []byte(config), 0o644))
	const module = "terraform {\n required_providers {\n  a = { source = \"example.test/a-long-namespace/a-long-name\" }\n }\n}\n"
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(module), 0o644))

	const width = 40
	c := startOnConsole(t, width, dir, "larder --config cli.tfrc --no-cache install")
	<-asked
	c.await(t, "0 of 1 package")
	sourcetest.Expect(t, strings.Contains(c.text(), "\x1b[1m"), "no bold text in %q", c.text())
	sourcetest.Expect(t, strings.Contains(c.text(), "…"), "the name is not shortened in %q", c.text())
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, interruptFile), nil, 0o644))
	sourcetest.Equal(t, c.status(t), exitInterrupted)
	c.await(t, "interrupted")
}

// consoleVariable makes this program write to its console instead of where the test does, and press Ctrl-C there once
// interruptFile exists. The console of Wine 8 ends when it gets Ctrl-C as input.
const consoleVariable, interruptFile = "LARDER_TEST_CONSOLE", "interrupt"

func init() {
	if os.Getenv(consoleVariable) == "" {
		return
	}
	f, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	os.Stdout, os.Stderr = f, f
	go func() {
		for _, err := os.Stat(interruptFile); err != nil; _, err = os.Stat(interruptFile) {
			time.Sleep(10 * time.Millisecond)
		}
		if err := windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0); err != nil {
			panic(err)
		}
	}()
}

// A console runs a program.
type console struct {
	process windows.Handle

	mu     sync.Mutex
	output strings.Builder
}

// startOnConsole runs larder in a directory, on a console of its own.
func startOnConsole(t *testing.T, width int16, dir, line string) *console {
	t.Helper()
	check := func(err error) {
		t.Helper()
		sourcetest.Check(t, err)
	}
	toIt, input, err := os.Pipe()
	check(err)
	output, fromIt, err := os.Pipe()
	check(err)
	var pseudo windows.Handle
	check(windows.CreatePseudoConsole(windows.Coord{X: width, Y: 25}, windows.Handle(toIt.Fd()), windows.Handle(fromIt.Fd()), 0, &pseudo))
	attributes, err := windows.NewProcThreadAttributeList(1)
	check(err)
	defer attributes.Delete()
	check(attributes.Update(windows.PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, *(*unsafe.Pointer)(unsafe.Pointer(&pseudo)), unsafe.Sizeof(pseudo)))
	startup := &windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	startup.Cb = uint32(unsafe.Sizeof(*startup))
	program, err := os.Executable()
	check(err)
	text := func(s string) *uint16 {
		p, err := windows.UTF16PtrFromString(s)
		check(err)
		return p
	}
	environ := strings.Join(append(os.Environ(), "LARDER_TEST_INNER=1", consoleVariable+"=1"), "\x00") + "\x00\x00"
	block := utf16.Encode([]rune(environ))
	var started windows.ProcessInformation
	const flags = windows.EXTENDED_STARTUPINFO_PRESENT | windows.CREATE_UNICODE_ENVIRONMENT
	check(windows.CreateProcess(text(program), text(line), nil, nil, false, flags, &block[0], text(dir), &startup.StartupInfo, &started))
	windows.CloseHandle(started.Thread)
	c := &console{process: started.Process}
	go func() {
		chunk := make([]byte, 4096)
		for {
			n, err := output.Read(chunk)
			c.mu.Lock()
			c.output.Write(chunk[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = windows.TerminateProcess(c.process, 1)
		windows.CloseHandle(c.process)
		windows.ClosePseudoConsole(pseudo)
		for _, f := range []io.Closer{toIt, input, fromIt, output} {
			f.Close()
		}
	})
	return c
}

// text is what the console has shown.
func (c *console) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

func (c *console) await(t *testing.T, text string) {
	t.Helper()
	for range 1000 {
		if strings.Contains(c.text(), text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no %q in %q", text, c.text())
}

// status is the exit status, once the program has ended.
func (c *console) status(t *testing.T) int {
	t.Helper()
	_, err := windows.WaitForSingleObject(c.process, 20_000)
	sourcetest.Check(t, err)
	var status uint32
	sourcetest.Check(t, windows.GetExitCodeProcess(c.process, &status))
	return int(status)
}
