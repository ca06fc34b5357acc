//go:build unix

package cachedir_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Records of files that another user owns are not used, because that user can change
// the files and reset the times.
func TestFilesOfOtherUsersAreHashed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	root, target := t.TempDir(), filepath.Join(t.TempDir(), filepath.FromSlash(widget.Path()))
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, widgetFiles)
	path := filepath.Join(root, filepath.FromSlash(widget.Path()), executable)
	check(t, os.Chown(path, 54321, 54321))
	s, err := d.Get(context.Background(), widget)
	check(t, err)
	sourcetest.Expect(t, s.Report.Verdict == sources.SelfSigned && s.Differs == "", "unchanged: got %+v", s)
	mode, err := link(context.Background(), d, s, target)
	check(t, err)
	if mode != sources.LinkCopy && mode != sources.LinkReflink {
		t.Errorf("the working directory has a %s, which the other user can change", mode)
	}
	alter(t, path, "evil program")
	if s, err = d.Get(context.Background(), widget); err != nil || s.Report.Verdict != sources.Unverified || s.Differs == "" {
		t.Errorf("changed: got %+v, %v", s, err)
	}
}
