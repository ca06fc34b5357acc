package staging_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

const first, second = sources.Hash("zh:first"), sources.Hash("zh:second")

var check = sourcetest.Check

// A place has the directories of a cache or a mirror.
type place struct {
	*testing.T
	work, kept *disk.Dir
}

func newPlace(t *testing.T) place {
	open := func() *disk.Dir {
		d := sourcetest.Must(disk.Open(t.TempDir()))(t)
		t.Cleanup(func() { d.Close() })
		return d
	}
	return place{t, open(), open()}
}

func (p place) stage() *staging.Stage {
	return staging.New(p.work, p.kept, "key", "the test", nil, nil)
}

// download writes text to a stage and ends the stage.
func (p place) download(want sources.Hash, note, text string, interrupted bool) {
	p.Helper()
	s := p.stage()
	if want != "" {
		_, _, err := s.Resume(want)
		check(p.T, err)
	}
	check(p.T, s.Begin(note))
	sourcetest.Must(io.WriteString(s, text))(p.T)
	s.End(interrupted)
}

// holds checks the files in a directory, given as NAME=CONTENTS.
func holds(t *testing.T, d *disk.Dir, want ...string) {
	t.Helper()
	entries := sourcetest.Must(d.ReadDir())(t)
	var got []string
	for _, e := range entries {
		data := sourcetest.ReadFile(t, d.Path(e.Name()))
		got = append(got, e.Name()+"="+string(data))
	}
	sourcetest.Expect(t, slices.Equal(got, want), "%s holds %q, want %q", d.Path("."), got, want)
}

// resumes checks what the next download can resume.
func (p place) resumes(s *staging.Stage, want sources.Hash, text, note string) {
	p.Helper()
	held, gotNote, err := s.Resume(want)
	check(p.T, err)
	var got []byte
	if held != nil {
		got = sourcetest.Must(io.ReadAll(held))(p.T)
	}
	sourcetest.Expect(p, string(got) == text && gotNote == note,
		"resumed %q with note %q, want %q with %q", got, gotNote, text, note)
}

func TestDownload(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	check(t, s.Begin("")) // the file does not exist yet
	for _, text := range []string{"wrong", "right"} {
		sourcetest.Must(io.WriteString(s, text))(t)
		if text == "wrong" {
			check(t, s.Begin(""))
		}
	}
	f := sourcetest.Must(s.File())(t)
	text := sourcetest.Must(io.ReadAll(io.NewSectionReader(f, 0, 100)))(t)
	sourcetest.Equal(t, string(text), "right", "the file holds")
	check(t, s.Move(p.kept, "archive", 0o644))
	s.End(false)
	holds(t, p.work)
	holds(t, p.kept, "archive=right")
}

func TestMoveAfterResume(t *testing.T) {
	p := newPlace(t)
	p.download(first, "note", "ab", true)
	s := p.stage()
	p.resumes(s, first, "ab", "note")
	sourcetest.Must(io.WriteString(s, "cd"))(t)
	check(t, s.Move(p.work, "archive", 0o644))
	s.End(false)
	holds(t, p.work, "archive=abcd")
	holds(t, p.kept)
}

func TestInterruptedDownloadsAreResumed(t *testing.T) {
	p := newPlace(t)
	for _, text := range []string{"", "a", "ab", "abc"} {
		s := p.stage()
		note := ""
		if text != "" {
			note = "validator\nof two lines"
		}
		p.resumes(s, first, text, note)
		if text == "" {
			check(t, s.Begin("validator\nof two lines"))
		}
		sourcetest.Must(io.WriteString(s, string("abcd"[len(text)])))(t)
		s.End(true)
	}
	holds(t, p.work)
	holds(t, p.kept, "key=abcd", "key.note=zh:first\nvalidator\nof two lines")
	p.download(first, "", "", false)
	holds(t, p.kept)
}

func TestDownloadsThatAreNotKept(t *testing.T) {
	for name, download := range map[string]func(place){
		"completed":           func(p place) { p.download(first, "note", "abc", false) },
		"nothing arrived":     func(p place) { p.download(first, "note", "", true) },
		"no note":             func(p place) { p.download(first, "", "abc", true) },
		"unknown archive":     func(p place) { p.download("", "note", "abc", true) },
		"nothing was written": func(p place) { p.stage().End(true) },
		"reset": func(p place) {
			s := p.stage()
			p.resumes(s, first, "", "")
			check(p.T, s.Begin("note"))
			check(p.T, s.Begin(""))
			sourcetest.Must(io.WriteString(s, "abc"))(p.T)
			s.End(true)
		},
		"a write failed": func(p place) {
			s := p.stage()
			p.resumes(s, first, "", "")
			check(p.T, s.Begin("note"))
			sourcetest.Must(io.WriteString(s, "abc"))(p.T)
			breakFile(p.T, s)
			s.End(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			download(p)
			holds(t, p.work)
			holds(t, p.kept)
		})
	}
}

// breakFile makes the next write to the stage fail.
func breakFile(t *testing.T, s *staging.Stage) {
	t.Helper()
	f := sourcetest.Must(s.File())(t)
	other := sourcetest.Must(os.Open(f.Name()))(t)
	defer other.Close()
	working := *f
	*f = *other
	_, err := io.WriteString(s, "d")
	sourcetest.Expect(t, err != nil, "the write succeeded")
	*f = working
}

func TestDownloadsThatCannotBeResumedStartOver(t *testing.T) {
	for name, spoil := range map[string]func(p place){
		"note lost":       func(p place) { check(p.T, p.kept.Remove("key.note")) },
		"note empty":      func(p place) { check(p.T, p.kept.WriteFile("key.note", nil, disk.Lazily)) },
		"another archive": func(p place) { check(p.T, p.kept.WriteFile("key.note", []byte("zh:other\nnote"), disk.Lazily)) },
		"huge note": func(p place) {
			note := "zh:first\n" + strings.Repeat("x", 4<<10)
			check(p.T, p.kept.WriteFile("key.note", []byte(note), disk.Lazily))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.download(first, "note", "abc", true)
			spoil(p)
			s := p.stage()
			p.resumes(s, first, "", "")
			check(t, s.Begin("note"))
			sourcetest.Must(io.WriteString(s, "x"))(t)
			s.End(true)
			holds(t, p.kept, "key=x", "key.note=zh:first\nnote")
		})
	}
}

// If a stage is resumed again, it holds only the last archive.
func TestResumeReplacesWhatTheStageHolds(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	sourcetest.Must(io.WriteString(s, "not to be kept"))(t)
	p.resumes(s, first, "", "")
	holds(t, p.work)
	check(t, s.Begin("note"))
	sourcetest.Must(io.WriteString(s, "abc"))(t)
	p.resumes(s, second, "", "")
	check(t, s.Begin("note"))
	sourcetest.Must(io.WriteString(s, "x"))(t)
	s.End(true)
	holds(t, p.kept, "key=x", "key.note=zh:second\nnote")
}

func TestWithoutADirectoryNothingIsKept(t *testing.T) {
	p := newPlace(t)
	s := staging.New(p.work, nil, "key", "the test", nil, nil)
	p.resumes(s, first, "", "")
	check(t, s.Begin("note"))
	sourcetest.Must(io.WriteString(s, "abc"))(t)
	s.End(true)
	holds(t, p.work)
}

func TestLinksInTheDirectoryAreRejected(t *testing.T) {
	p := newPlace(t)
	canary := filepath.Join(t.TempDir(), "canary")
	check(t, os.WriteFile(canary, []byte("canary"), 0o644))
	check(t, sourcetest.Symlink(t, canary, p.kept.Path("key")))
	s := p.stage()
	var stray *disk.StrayError
	_, _, err := s.Resume(first)
	sourcetest.Expect(t, errors.As(err, &stray), "got %v, want a StrayError", err)
	check(t, s.Begin(""))
	sourcetest.Must(io.WriteString(s, "abc"))(t)
	s.End(true)
	holds(t, p.work)
	text, _ := os.ReadFile(canary)
	sourcetest.Equal(t, string(text), "canary", "written through the link")
}

func TestSpool(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	one := sourcetest.Must(s.Spool(100))(t)
	two := sourcetest.Must(s.Spool(100))(t)
	sourcetest.Must(one.WriteAt([]byte("abc"), 2))(t)
	buf := make([]byte, 3)
	_, err := one.ReadAt(buf, 2)
	sourcetest.Expect(t, string(buf) == "abc", "read %q, %v", buf, err)
	check(t, one.Close())
	check(t, two.Close())
	holds(t, p.work)
}

func TestSweep(t *testing.T) {
	p := newPlace(t)
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": 24*time.Hour + time.Second, "old.note": 25 * time.Hour, "new": 24 * time.Hour, "dir": 48 * time.Hour} {
		if name == "dir" {
			d := sourcetest.Must(p.kept.Mkdir(name))(t)
			d.Close()
		} else {
			check(t, p.kept.WriteFile(name, nil, disk.Lazily))
		}
		check(t, os.Chtimes(p.kept.Path(name), now.Add(-age), now.Add(-age)))
	}
	check(t, staging.Sweep(p.kept, now, nil))
	for name, want := range map[string]bool{"old": false, "old.note": false, "new": true, "dir": true} {
		_, err := os.Lstat(p.kept.Path(name))
		sourcetest.Expect(t, errors.Is(err, fs.ErrNotExist) != want, "%s: there: %t", name, !want)
	}
}

// An old download is not swept while it is being resumed.
func TestResumeRenewsTheDownload(t *testing.T) {
	p := newPlace(t)
	p.download(first, "note", "abc", true)
	check(t, p.kept.Touch("key", time.Now().Add(-48*time.Hour)))
	s := p.stage()
	p.resumes(s, first, "abc", "note")
	check(t, staging.Sweep(p.kept, time.Now(), nil))
	s.End(true)
	holds(t, p.kept, "key=abc", "key.note=zh:first\nnote")
}

// The observer learns what is in the file after each write, and that the download begins again before the file is cut.
func TestObserver(t *testing.T) {
	p := newPlace(t)
	p.download(first, "note", "abc", true)
	var seen []string
	refused := error(nil)
	s := staging.New(p.work, p.kept, "key", "the test", nil, func(now sources.Arriving) error {
		text, _ := os.ReadFile(now.Path)
		seen = append(seen, fmt.Sprintf("%s %d/%d", text, now.Done, now.Size))
		return refused
	})
	p.resumes(s, first, "abc", "note")
	check(t, s.Expect(4))
	write := func(text string) error {
		_, err := io.WriteString(s, text)
		return err
	}
	check(t, write("d"))
	check(t, s.Begin("other"))
	check(t, write("xy"))
	sourcetest.EqualSlices(t, seen, []string{"abc 3/4", "abcd 4/4", "abcd 0/0", "xy 2/0"}, "what the observer has seen")
	refused = errors.New("too large")
	sourcetest.ErrorIs(t, write("z"), refused)
	s.End(true)
	holds(t, p.kept)
}

// An archive for which there is no space is refused before its first byte.
func TestExpectMoreThanTheDiskHas(t *testing.T) {
	p := newPlace(t)
	s := staging.New(p.work, nil, "key", "the test", nil, func(sources.Arriving) error { panic("it was not refused") })
	defer s.End(false)
	err := s.Expect(1 << 60)
	hints := sources.Hints(err)
	sourcetest.Expect(t, disk.IsFull(err) && strings.Contains(hints[0], "free some space for the test"), "got %v", err)
}

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
		info := sourcetest.Must(f.Stat())(p.T)
		data := sourcetest.Must(io.ReadAll(io.NewSectionReader(f, 0, info.Size())))(p.T)
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
	linked := sourcetest.Must(os.Stat(p.kept.Path(nameOf("two"))))(t)
	original := sourcetest.Must(os.Stat(p.work.Path("archive")))(t)
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
	entries := sourcetest.Must(p.kept.ReadDir())(t)
	for _, e := range entries {
		sourcetest.Expect(t, len(e.Name()) == 64, "left over: %s", e.Name())
	}
}

// A small archive is a file only if it is kept: because its download was interrupted, or among the recent ones.
func TestSmallArchivesStayInMemory(t *testing.T) {
	p := newPlace(t)
	begin := func(size int64) *staging.Stage {
		s := p.stage()
		s.Memory = true
		p.resumes(s, first, "", "")
		check(t, s.Begin("note"))
		check(t, s.Expect(size))
		sourcetest.Must(io.WriteString(s, "ab"))(t)
		return s
	}
	contents := func(s *staging.Stage) string {
		r, size, err := s.Contents()
		check(t, err)
		return string(sourcetest.Must(io.ReadAll(io.NewSectionReader(r, 0, size)))(t))
	}
	s := begin(3)
	sourcetest.Must(io.WriteString(s, "c"))(t)
	sourcetest.Equal(t, contents(s), "abc", "in memory")
	s.Drop()
	holds(t, p.work)
	holds(t, p.kept)
	s = begin(3)
	sourcetest.Must(io.WriteString(s, "cd"))(t)
	sourcetest.Equal(t, contents(s), "abcd", "more than was expected")
	holds(t, p.kept, "key=abcd", "key.note=zh:first\nnote")
	s.End(false)
	holds(t, p.kept)
	begin(3).End(true)
	holds(t, p.kept, "key=ab", "key.note=zh:first\nnote")
	p.download(first, "", "", false)
	for range 3 { // together more than the memory for all
		s := begin(4 << 20)
		t.Cleanup(func() { s.End(false) }) // Windows doesn't remove open files
	}
	holds(t, p.kept, "key=ab", "key.note=zh:first\nnote")
}
