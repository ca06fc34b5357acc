//go:build !windows

package ui

import "os"

// commandsTerminal reports whether a terminal interprets control sequences.
func commandsTerminal(*os.File) bool { return true }
