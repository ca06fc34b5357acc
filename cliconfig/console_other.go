//go:build !windows

package cliconfig

import "os"

// Interprets reports whether a terminal interprets control sequences. On Windows, it makes a console do so.
func Interprets(*os.File) bool { return true }
