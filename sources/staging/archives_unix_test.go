//go:build unix

package staging_test

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

// Archives that another user owns or can write to are not used: that user can change them after they were hashed, and reset
// the time.
func TestArchivesOfOtherUsers(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"owned":    func(path string) error { return os.Chown(path, 54321, 54321) },
		"writable": func(path string) error { return os.Chmod(path, 0o666) },
	} {
		p := newPlace(t)
		a := staging.ArchivesIn(p.kept, 100)
		p.keep(a, "one", staging.ByLink)
		sourcetest.Equal(t, p.found(a, "one"), "one")
		if err := spoil(p.kept.Path(nameOf("one"))); err == nil { // only root can give files away
			sourcetest.Equal(t, p.found(a, "one"), "", what)
		}
	}
}

// An interrupted download that others can write to, or reach by another name, is not
// resumed. The new download is another file: the old one may still be open elsewhere.
func TestDownloadsOfOthersAreNotResumed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p place, path string) error
		root  bool // only root can do that
		note  bool // the file may be used again, without its contents
	}{
		"group can write": {spoil: func(_ place, path string) error {
			return errors.Join(os.Chown(path, -1, 54321), os.Chmod(path, 0o664))
		}, root: true},
		"others can write":    {spoil: func(_ place, path string) error { return os.Chmod(path, 0o646) }},
		"second name":         {spoil: func(p place, path string) error { return os.Link(path, p.work.Path("hardlink")) }},
		"another user's":      {spoil: func(_ place, path string) error { return os.Chown(path, 54321, 54321) }, root: true},
		"note can be written": {spoil: func(_ place, path string) error { return os.Chmod(path+".note", 0o666) }, note: true},
		"another user's note": {spoil: func(_ place, path string) error { return os.Chown(path+".note", 54321, 54321) }, root: true, note: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			p := newPlace(t)
			p.download(first, "note", "ab", true)
			path := p.kept.Path("key")
			check(t, c.spoil(p, path))
			other, err := os.OpenFile(path, os.O_WRONLY, 0) // of the other user
			check(t, err)
			defer other.Close()
			s := p.stage()
			p.resumes(s, first, "", "")
			check(t, s.Begin("note"))
			sourcetest.Must(io.WriteString(s, "abcd"))(t)
			if !c.note {
				sourcetest.Must(other.WriteAt([]byte("X"), 0))(t)
			}
			f := sourcetest.Must(s.File())(t)
			text := sourcetest.Must(io.ReadAll(io.NewSectionReader(f, 0, 100)))(t)
			sourcetest.Equal(t, string(text), "abcd")
			info := sourcetest.Must(f.Stat())(t)
			sourcetest.Expect(t, disk.Own(info), "others can change the new file: %v", info.Mode())
			s.End(true)
			p.resumes(p.stage(), first, "abcd", "note")
		})
	}
}

// In a directory that others may write to, the name of a download can lead to another file.
func TestMoveOfReplacedDownload(t *testing.T) {
	p := newPlace(t)
	p.download(first, "note", "ab", true)
	s := p.stage()
	p.resumes(s, first, "ab", "note")
	check(t, os.Rename(p.kept.Path("key"), p.kept.Path("mine")))
	check(t, os.WriteFile(p.kept.Path("key"), []byte("evil"), 0o644))
	sourcetest.ErrorIs(t, s.Move(p.work, "archive", 0o644), disk.ErrChanged)
	holds(t, p.work)
}
