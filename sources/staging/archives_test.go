package staging_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

func hashOf(text string) sources.Hash { return sources.ZipHash(sha256.Sum256([]byte(text))) }

// nameOf is the name of the archive's file.
func nameOf(text string) string { return strings.TrimPrefix(string(hashOf(text)), "zh:") }

// keep adds an archive that was downloaded at a time.
func (p place) keep(a *staging.Archives, text string, how staging.Sharing) {
	p.Helper()
	check(p.T, p.work.WriteFile("archive", []byte(text), disk.Lazily))
	a.Keep(p.work, "archive", hashOf(text), how)
}

// found returns which of the texts are there.
func (p place) found(a *staging.Archives, texts ...string) string {
	p.Helper()
	var found []string
	for _, text := range texts {
		f, err := a.Find(p.Context(), hashOf(text))
		if err != nil {
			continue
		}
		info, err := f.Stat()
		check(p.T, err)
		data, err := io.ReadAll(io.NewSectionReader(f, 0, info.Size()))
		check(p.T, err)
		check(p.T, f.Close())
		sourcetest.Equal(p.T, string(data), text)
		found = append(found, text)
	}
	return strings.Join(found, " ")
}

func TestArchives(t *testing.T) {
	p := newPlace(t)
	a := staging.ArchivesIn(p.kept, 100)
	sourcetest.Equal(t, p.found(a, "one", "two"), "")
	p.keep(a, "one", staging.ByLink)
	p.keep(a, "two", staging.ByCopy)
	sourcetest.Equal(t, p.found(a, "one", "two"), "one two")
	linked, err := os.Stat(p.kept.Path(nameOf("two")))
	check(t, err)
	original, err := os.Stat(p.work.Path("archive"))
	check(t, err)
	sourcetest.Expect(t, !os.SameFile(linked, original), "a copy shares the file")
	sourcetest.Equal(t, p.found(nil, "one"), "", "without a directory")
	p.keep(nil, "one", staging.ByLink)
}

// Archives are kept up to a size. The oldest ones of other processes are removed for
// new ones, but none of this process.
func TestArchivesHaveALimit(t *testing.T) {
	p := newPlace(t)
	before := staging.ArchivesIn(p.kept, 10)
	for i, text := range []string{"aaaa", "bbbb", "cc", "dd"} {
		p.keep(before, text, staging.ByCopy)
		if text != "dd" {
			check(t, p.kept.Touch(nameOf(text), time.Now().Add(-time.Duration(10-i)*time.Minute)))
		}
	}
	sourcetest.Equal(t, p.found(before, "aaaa", "bbbb", "cc", "dd"), "aaaa bbbb cc")
	a := staging.ArchivesIn(p.kept, 10)
	p.keep(a, "more than 10 bytes", staging.ByLink)
	sourcetest.Equal(t, p.found(a, "aaaa", "bbbb", "cc", "more than 10 bytes"), "aaaa bbbb cc")
	p.keep(a, "eeeee", staging.ByLink)
	sourcetest.Equal(t, p.found(a, "aaaa", "bbbb", "cc", "eeeee"), "cc eeeee")
	p.keep(a, "ffff", staging.ByLink)
	sourcetest.Equal(t, p.found(a, "cc", "eeeee", "ffff"), "eeeee ffff")
	p.keep(a, "gg", staging.ByLink)
	sourcetest.Equal(t, p.found(a, "eeeee", "ffff", "gg"), "eeeee ffff", "removes no download of this process")
}

// Nothing in the directory is trusted.
func TestArchivesAreHashed(t *testing.T) {
	for name, spoil := range map[string]func(p place, file string){
		"changed":   func(p place, file string) { check(p.T, os.WriteFile(file, []byte("other"), 0o600)) },
		"too large": func(p place, file string) { check(p.T, os.Truncate(file, 1<<40)) },
		"link": func(p place, file string) {
			check(p.T, os.Remove(file))
			check(p.T, os.WriteFile(p.work.Path("target"), []byte("text"), 0o600))
			check(p.T, sourcetest.Symlink(p.T, p.work.Path("target"), file))
		},
		"directory": func(p place, file string) {
			check(p.T, os.Remove(file))
			check(p.T, os.Mkdir(file, 0o700))
		},
		"unreadable": func(p place, file string) {
			check(p.T, os.Chmod(file, 0))
			if f, err := os.Open(file); err == nil {
				f.Close()
				p.Skip("this user can read any file")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a := staging.ArchivesIn(p.kept, 100)
			p.keep(a, "text", staging.ByCopy)
			spoil(p, p.kept.Path(nameOf("text")))
			sourcetest.Equal(t, p.found(a, "text"), "")
		})
	}
	p := newPlace(t)
	a := staging.ArchivesIn(p.kept, 100)
	for _, zh := range []sources.Hash{"", "zh:../../etc/passwd", "zh:", "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="} {
		_, err := a.Find(t.Context(), zh)
		sourcetest.Expect(t, err == fs.ErrNotExist, "%s: %v", zh, err)
	}
}

// A directory that cannot be written keeps nothing, and is no error.
func TestArchivesThatCannotBeKept(t *testing.T) {
	sourcetest.SkipOnWindows(t, "an open directory can't be removed")
	p := newPlace(t)
	a := staging.ArchivesIn(p.kept, 100)
	check(t, os.RemoveAll(p.kept.Path(".")))
	p.keep(a, "text", staging.ByLink)
	p.keep(a, "text", staging.ByCopy)
	sourcetest.Equal(t, p.found(a, "text"), "")
}

// Several processes add and remove archives at the same time.
func TestArchivesOfSeveralProcesses(t *testing.T) {
	p := newPlace(t)
	var texts []string
	for i := range 8 {
		texts = append(texts, fmt.Sprintf("archive %d", i))
	}
	done := make(chan bool)
	for n := range 4 {
		work := newPlace(t).work
		go func() {
			defer func() { done <- true }()
			for range 8 {
				a := staging.ArchivesIn(p.kept, 30)
				for _, text := range slices.Concat(texts[n:], texts[:n]) {
					_ = work.WriteFile("archive", []byte(text), disk.Lazily)
					a.Keep(work, "archive", hashOf(text), staging.Sharing(n%2))
					p.found(a, text)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	entries, err := p.kept.ReadDir()
	check(t, err)
	for _, e := range entries {
		sourcetest.Expect(t, len(e.Name()) == 64, "left over: %s", e.Name())
	}
}
