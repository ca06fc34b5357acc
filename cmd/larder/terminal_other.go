//go:build !windows

package main

import "os"

// commandsTerminal reports whether a terminal understands what terminals do.
func commandsTerminal(*os.File) bool { return true }
