//go:build unix

package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestLetExecute(t *testing.T) {
	const name = "terraform-provider-widget"
	for _, test := range []struct {
		was, want os.FileMode
		lost      bool
	}{
		{0o555, 0o555, false},
		{0o755, 0o755, false},
		{0o444, 0o555, true},
		{0o644, 0o755, true},
		{0o640, 0o750, true}, // users who cannot read the file cannot execute it
		{0o600, 0o700, true},
	} {
		for _, platform := range []sources.Platform{{OS: "linux", Arch: "arm64"}, {OS: "windows", Arch: "amd64"}} {
			id := sourcetest.Must(sources.ParsePackageID("example.test/acme/widget", "1.0.0", platform.String()))(t)
			root := t.TempDir()
			dir := filepath.Join(root, filepath.FromSlash(id.Path()))
			file := filepath.Join(dir, name)
			sourcetest.Check(t, errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, nil, 0o600), os.Chmod(file, test.was)))
			lost, want := test.lost, test.want
			if platform.OS == "windows" {
				lost, want = false, test.was
			}
			err := archive.CheckExecutable(dir, name, id)
			sourcetest.Equal(t, errors.Is(err, archive.ErrNotExecutable), lost, test.was, err)
			if lost {
				sourcetest.Check(t, archive.LetExecute(root, name, id))
			}
			info := sourcetest.Must(os.Stat(file))(t)
			sourcetest.Equal(t, info.Mode(), want, test.was, platform)
		}
	}
}

// Links are not followed: their targets may be any files of this user.
func TestLetExecuteFollowsNoLinks(t *testing.T) {
	const name = "terraform-provider-widget"
	id := sourcetest.Must(sources.ParsePackageID("example.test/acme/widget", "1.0.0", "linux_arm64"))(t)
	path := filepath.FromSlash(id.Path())
	for _, link := range []string{filepath.Join(path, name), path, filepath.Dir(path)} {
		root, elsewhere := t.TempDir(), t.TempDir()
		rest := sourcetest.Must(filepath.Rel(link, filepath.Join(path, name)))(t)
		file := filepath.Join(elsewhere, "target", rest)
		sourcetest.Check(t, errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644),
			os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o755), sourcetest.Symlink(t, filepath.Join(elsewhere, "target"), filepath.Join(root, link)),
		))
		sourcetest.ErrorIs(t, archive.LetExecute(root, name, id), archive.ErrNotExecutable, link)
		info := sourcetest.Must(os.Stat(file))(t)
		sourcetest.Equal(t, info.Mode(), os.FileMode(0o644), link)
	}
}
