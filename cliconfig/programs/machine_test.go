package programs_test

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mattn/go-shellwords"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

const (
	terraform = sources.Terraform
	tofu      = sources.OpenTofu
)

// A disk has files by their absolute paths.
type disk struct{ fstest.MapFS }

func (d disk) ReadFile(_ context.Context, path string, _ int64) ([]byte, error) {
	return d.MapFS.ReadFile(path[1:])
}
func (d disk) ReadDir(path string) ([]fs.DirEntry, error) { return d.MapFS.ReadDir(path[1:]) }
func (d disk) Stat(path string) (fs.FileInfo, error)      { return d.MapFS.Stat(path[1:]) }
func (d disk) Lstat(path string) (fs.FileInfo, error)     { return d.MapFS.Lstat(path[1:]) }

func linux(files map[string]string, environ ...string) cliconfig.Machine {
	d := disk{fstest.MapFS{}}
	for path, content := range files {
		d.MapFS[path[1:]] = &fstest.MapFile{Data: []byte(content)}
	}
	return cliconfig.Machine{GOOS: "linux", Environ: environ, Home: "/home/me", CacheHome: "/home/me/.cache", WorkDir: "/start", Files: d}
}

// A quoted word is read again as the same word.
func FuzzQuoteShell(f *testing.F) {
	f.Add(`-a "b c" 'd' e\ f "" $(g) ; & (`)
	f.Fuzz(func(t *testing.T, word string) {
		word = strings.ToValidUTF8(word, "�") // which the library makes of other bytes
		words, err := shellwords.Parse("x " + programs.QuoteShell(word) + " y")
		sourcetest.Require(t, err == nil && slices.Equal(words, []string{"x", word, "y"}), "got %q, %v", words, err)
	})
}
