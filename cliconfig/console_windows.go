package cliconfig

import (
	"os"

	"golang.org/x/sys/windows"
)

// Interprets makes a console interpret control sequences, and reports whether it does. On other systems, every
// terminal does.
func Interprets(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	return windows.GetConsoleMode(console, &mode) == nil &&
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
