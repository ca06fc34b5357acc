//go:build !windows

package ui

import "os"

// commandsTerminal reports whether a terminal understands what terminals do.
func commandsTerminal(*os.File) bool { return true }
