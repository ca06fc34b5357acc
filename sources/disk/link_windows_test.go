package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where there can be no symbolic link, as under Wine, nothing is left.
func TestLinkToADirectory(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	target := t.TempDir()
	if err := os.WriteFile(filepath.Join(target, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Symlink(target, "link"); err != nil {
		if d.Exists("link") || strings.Count(err.Error(), d.Path("link")) == 0 {
			t.Errorf("it is left, or not named: %v", err)
		}
		return
	}
	info, err := d.Lstat("link")
	if err != nil || !IsLink(info.Mode()) {
		t.Errorf("it is no link: %v, %v", info, err)
	}
	if to, err := os.Readlink(d.Path("link")); to != target {
		t.Errorf("it leads to %s, %v", to, err)
	}
	if _, err := os.Stat(d.Path("link/file")); err != nil {
		t.Error(err)
	}
	if err := d.RemoveTree("link"); err != nil || d.Exists("link") {
		t.Errorf("it is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(target, "file")); err != nil {
		t.Errorf("the target is gone: %v", err)
	}
}
