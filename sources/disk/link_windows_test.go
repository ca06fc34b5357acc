package disk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/windows"
)

// The places in the data of a junction contain the two names.
func TestJunctionData(t *testing.T) {
	data, err := junctionData(`C:\Users\Zoë\cache\`)
	if err != nil {
		t.Fatal(err)
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint16(data[at:])) }
	const names = 16
	text := func(at int) string {
		var units []uint16
		for i := range number(at+2) / 2 {
			units = append(units, uint16(number(names+number(at)+2*i)))
		}
		if end := names + number(at) + number(at+2); number(end) != 0 {
			t.Errorf("no zero at %d", end)
		}
		return string(utf16.Decode(units))
	}
	if tag := binary.LittleEndian.Uint32(data); tag != windows.IO_REPARSE_TAG_MOUNT_POINT {
		t.Errorf("tag %x", tag)
	}
	if number(4) != len(data)-8 {
		t.Errorf("length %d of %d bytes", number(4), len(data))
	}
	if got := text(8); got != `\??\C:\Users\Zoë\cache` {
		t.Errorf("opened is %q", got)
	}
	if got := text(12); got != `C:\Users\Zoë\cache` {
		t.Errorf("shown is %q", got)
	}
}

// Where there can be neither a symbolic link nor a junction, as under Wine, nothing is left.
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
