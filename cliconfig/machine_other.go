//go:build !windows

package cliconfig

import (
	"os"
	"runtime"
)

func roamingAppData() string { return "" }

// siteDir is where administrators of the system put the configuration of programs that they install.
func siteDir() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/larder"
	case "freebsd":
		return "/usr/local/etc/larder"
	}
	return "/etc/larder"
}

// Interprets reports whether a terminal interprets control sequences. On Windows, it makes a console do so.
func Interprets(*os.File) bool { return true }
