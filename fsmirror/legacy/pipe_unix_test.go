//go:build unix

package legacy_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pipe that replaces a file after the search does not block.
func TestPipesAreRefused(t *testing.T) {
	for _, name := range []string{"terraform-provider-a_v1.0.0", "terraform-provider-a_1.0.0_linux_amd64.zip"} {
		t.Run(name, func(t *testing.T) {
			content := linux
			if filepath.Ext(name) == ".zip" {
				content = "terraform-provider-a_v1.0.0=" + linux
			}
			path := filepath.Join(write(t, map[string]string{name: content}), name)
			found := find(t, legacy.Options{Prefix: "example.com/b", Platform: sources.Platform{OS: "linux", Arch: "amd64"}}, path)
			if len(found.Candidates) != 1 {
				t.Fatal(told("", found))
			}
			check(t, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)))
			c := found.Candidates[0]
			_, err := c.Put(t.Context(), &shelf{}, sources.Proof{})
			sourcetest.Expect(t, errors.Is(err, disk.ErrNotRegular), "Put: got %v, want ErrNotRegular", err)
		})
	}
}
