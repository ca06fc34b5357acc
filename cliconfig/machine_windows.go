package cliconfig

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// roamingAppData queries the system, as Terraform does, and ignores APPDATA.
func roamingAppData() string {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_RoamingAppData, 0)
	if err != nil {
		return ""
	}
	return dir
}

// siteDir queries the system, and ignores PROGRAMDATA.
func siteDir() string {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "larder")
}

// Interprets makes a console interpret control sequences, and reports whether it does. On other systems, every
// terminal does.
func Interprets(f *os.File) bool {
	var mode uint32
	console := windows.Handle(f.Fd())
	return windows.GetConsoleMode(console, &mode) == nil &&
		windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
