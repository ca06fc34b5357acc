package datadir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Get runs only in the user's own repository.
func TestCheckRepository(t *testing.T) {
	for _, test := range []struct {
		name, has string // the files above and in a/b, the root module
		refused   string
	}{
		{"no repository", "a/HEAD a/refs/x", ""},
		{"git", ".git/HEAD", ""},
		{"git in the root module", "HEAD objects/x a/b/.git/HEAD", ""},
		{"a worktree in a bare repository", "HEAD objects/x refs/x a/.git", ""},
		{"Mercurial", ".hg/hgrc", ""},
		{"git in Mercurial", ".hg/hgrc a/.git/HEAD", ""},
		{"a bare repository", ".git/HEAD a/b/HEAD a/b/objects/x", "a/b is a bare Git repository"},
		{"a bare repository above", ".git/HEAD a/HEAD a/objects/x", "a is a bare Git repository"},
		{"its objects elsewhere", ".git/HEAD a/HEAD a/commondir", "a is a bare Git repository"},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			for _, name := range append(strings.Fields(test.has), "a/b/main.tf") {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755))
				check(t, os.WriteFile(filepath.Join(top, name), nil, 0o644))
			}
			link := filepath.Join(t.TempDir(), "link")
			check(t, sourcetest.Symlink(t, filepath.Join(top, "a/b"), link))
			for _, dir := range []string{filepath.Join(top, "a/b"), link} {
				err := datadir.CheckRepository(dir)
				ok := test.refused == "" && err == nil ||
					test.refused != "" && err != nil && strings.Contains(err.Error(), test.refused) && len(sources.Hints(err)) == 1
				sourcetest.Expect(t, ok, "%s: %v", dir, err)
			}
		})
	}
}
