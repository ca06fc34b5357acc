package cliconfig

import "golang.org/x/sys/windows"

// roamingAppData asks the system, as Terraform does: APPDATA does not count.
func roamingAppData() string {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_RoamingAppData, 0)
	if err != nil {
		return ""
	}
	return dir
}
