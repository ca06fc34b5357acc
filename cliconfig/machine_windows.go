package cliconfig

import (
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
