package staging_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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
		d, err := disk.Open(t.TempDir())
		check(t, err)
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
	_, err := io.WriteString(s, text)
	check(p.T, err)
	s.End(interrupted)
}

// holds checks the files in a directory, given as NAME=CONTENTS.
func holds(t *testing.T, d *disk.Dir, want ...string) {
	t.Helper()
	entries, err := d.ReadDir()
	check(t, err)
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
		got, err = io.ReadAll(held)
		check(p.T, err)
	}
	sourcetest.Expect(p, string(got) == text && gotNote == note,
		"resumed %q with note %q, want %q with %q", got, gotNote, text, note)
}

func TestDownload(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	check(t, s.Begin("")) // the file does not exist yet
	for _, text := range []string{"wrong", "right"} {
		_, err := io.WriteString(s, text)
		check(t, err)
		if text == "wrong" {
			check(t, s.Begin(""))
		}
	}
	f, err := s.File()
	check(t, err)
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	check(t, err)
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
	_, err := io.WriteString(s, "cd")
	check(t, err)
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
		_, err := io.WriteString(s, string("abcd"[len(text)]))
		check(t, err)
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
			_, err := io.WriteString(s, "abc")
			check(p.T, err)
			s.End(true)
		},
		"a write failed": func(p place) {
			s := p.stage()
			p.resumes(s, first, "", "")
			check(p.T, s.Begin("note"))
			_, err := io.WriteString(s, "abc")
			check(p.T, err)
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
	f, err := s.File()
	check(t, err)
	other, err := os.Open(f.Name())
	check(t, err)
	defer other.Close()
	working := *f
	*f = *other
	_, err = io.WriteString(s, "d")
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
			_, err := io.WriteString(s, "x")
			check(t, err)
			s.End(true)
			holds(t, p.kept, "key=x", "key.note=zh:first\nnote")
		})
	}
}

// If a stage is resumed again, it holds only the last archive.
func TestResumeReplacesWhatTheStageHolds(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	_, err := io.WriteString(s, "not to be kept")
	check(t, err)
	p.resumes(s, first, "", "")
	holds(t, p.work)
	check(t, s.Begin("note"))
	_, err = io.WriteString(s, "abc")
	check(t, err)
	p.resumes(s, second, "", "")
	check(t, s.Begin("note"))
	_, err = io.WriteString(s, "x")
	check(t, err)
	s.End(true)
	holds(t, p.kept, "key=x", "key.note=zh:second\nnote")
}

func TestWithoutADirectoryNothingIsKept(t *testing.T) {
	p := newPlace(t)
	s := staging.New(p.work, nil, "key", "the test", nil, nil)
	p.resumes(s, first, "", "")
	check(t, s.Begin("note"))
	_, err := io.WriteString(s, "abc")
	check(t, err)
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
	_, err = io.WriteString(s, "abc")
	check(t, err)
	s.End(true)
	holds(t, p.work)
	text, _ := os.ReadFile(canary)
	sourcetest.Equal(t, string(text), "canary", "written through the link")
}

func TestSpool(t *testing.T) {
	p := newPlace(t)
	s := p.stage()
	one, err := s.Spool()
	check(t, err)
	two, err := s.Spool()
	check(t, err)
	_, err = one.WriteAt([]byte("abc"), 2)
	check(t, err)
	buf := make([]byte, 3)
	_, err = one.ReadAt(buf, 2)
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
			d, err := p.kept.Mkdir(name)
			check(t, err)
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
	err := s.Expect(math.MaxInt64)
	hints := sources.Hints(err)
	sourcetest.Expect(t, disk.IsFull(err) && strings.Contains(hints[0], "free some space for the test"), "got %v", err)
}
