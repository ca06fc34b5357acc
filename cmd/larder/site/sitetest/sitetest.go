// Package sitetest opens sites for tests. They use no setting of the machine that runs the tests, and no program on
// PATH.
package sitetest

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/rogpeppe/go-internal/txtar"
)

// Open returns a site with the files of a txtar archive in its working directory, and what it shows. The files
// terraformrc and larder.hcl are its CLI configuration and Larder's own file.
func Open(t testing.TB, files string, opts site.Options) (*site.Site, *bytes.Buffer) {
	t.Helper()
	base := site.Resolve(t.TempDir())
	dir, user := filepath.Join(base, "work"), filepath.Join(base, "user")
	sourcetest.Check(t, txtar.Write(txtar.Parse([]byte(files+"-- .git/HEAD --\n")), dir))
	machine := cliconfig.This()
	machine.Environ = nil
	for name, variable := range map[string]string{"terraformrc": "TF_CLI_CONFIG_FILE", "larder.hcl": "LARDER_CONFIG"} {
		if path := filepath.Join(dir, name); site.Exists(path) {
			machine.Environ = append(machine.Environ, variable+"="+path)
		}
	}
	machine.Home, machine.WorkDir, machine.SiteDir = user, dir, ""
	machine.CacheHome, machine.StateHome = filepath.Join(user, "cache"), filepath.Join(user, "state")
	machine.ConfigDirs = []string{filepath.Join(user, "config")}
	var shown bytes.Buffer
	return site.Open(machine, dir, opts, report.New(&shown, &shown)), &shown
}

// Root is [Open] for the root module in the working directory.
func Root(t testing.TB, files string, opts site.Options) (*site.Root, *bytes.Buffer) {
	t.Helper()
	s, shown := Open(t, files, opts)
	m, err := s.Here(t.Context())
	sourcetest.Check(t, err)
	return m, shown
}

// Text returns the text of an error with its hints, or "".
func Text(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(append([]string{err.Error()}, sources.Hints(err)...), "; ")
}
