package run

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Without PATH, get has only the directory before it: an empty element would be the current directory.
func TestPathOfGet(t *testing.T) {
	for _, environ := range [][]string{nil, {"PATH="}, {"PATH=/usr/bin"}} {
		s := &site.Site{Machine: cliconfig.Machine{Environ: environ}}
		path, done, err := (&execution{Installation: job.Installation{Site: s}}).withoutMercurial()
		sourcetest.Check(t, err)
		done()
		sourcetest.Expect(t, !slices.Contains(filepath.SplitList(path), ""), "%q: PATH is %s", environ, path)
	}
}
