package cliconfig_test

import (
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The directories of configuration are those of the system, as engines have it, whatever APPDATA is.
func TestDirectoriesOfWindows(t *testing.T) {
	m := cliconfig.This()
	sourcetest.Expect(t, filepath.IsAbs(m.AppData) && filepath.IsAbs(m.SiteDir), "they are %q and %q", m.AppData, m.SiteDir)
	t.Setenv("APPDATA", t.TempDir())
	sourcetest.Equal(t, cliconfig.This().AppData, m.AppData)
}
