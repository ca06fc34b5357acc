//go:build !linux

package sourcetest

import "os"

// tell prints text to the terminal. "go test" discards all output of packages whose
// tests succeed, unless it runs with -v.
func tell(text string) {
	if terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		_, _ = terminal.WriteString(text)
		_ = terminal.Close()
	}
}
