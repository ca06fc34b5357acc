package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// rival is the ID of a user who owns files that larder reads.
const rival = 54321

// A racing machine is one on which another user changes an archive or an interrupted
// download in place all the time, and resets its time.
type racing struct {
	*diskMachine
	good, evil []byte // archives of the same size, with valid checksums
}

const (
	racedSize        = 16 << 20
	goodEnd, evilEnd = "this is a good provider", "this is a evil provider"
)

func newRacing(t *testing.T) racing {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	pack := func(end string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: "terraform-provider-widget_v1.2.0", Method: zip.Store}
		h.SetMode(0o755)
		out, err := w.CreateHeader(h)
		sourcetest.Check(t, err)
		_, err = out.Write(append(make([]byte, racedSize), end...))
		sourcetest.Check(t, errors.Join(err, w.Close()))
		return b.Bytes()
	}
	m := racing{&diskMachine{t: t, dir: sourcetest.MemoryDir(t)}, pack(goodEnd), pack(evilEnd)}
	w := sourcetest.New(t)
	w.Add(widgetDir, "1.2.0", sourcetest.Release{Platforms: []string{ownPlatform}, Archive: m.good})
	for _, assignment := range w.Env() {
		if !strings.HasPrefix(assignment, "TF_CLI_CONFIG_FILE=") {
			m.env = append(m.env, assignment)
		}
	}
	m.mkdir("home")
	m.mkdir("tmp")
	m.write("work/main.tf", requiring("widget 1.2.0"))
	return m
}

// give lets the rival own all files below dir.
func (m racing) give(dir string) {
	m.t.Helper()
	m.must(filepath.WalkDir(m.path(dir), func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(name, rival, rival))
	}))
}

// race lets the rival change the end of an archive, which is all that differs, a while
// after a command begins to read it. The file stays the same one, and so do its times.
func (m racing) race(path string, after time.Duration, do func() ending) ending {
	m.t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	m.must(err)
	defer unix.Close(watch)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	m.must(err)
	defer f.Close()
	info, err := f.Stat()
	m.must(err)
	tail := int64(racedSize)
	show := func(data []byte) {
		_, err := f.WriteAt(data[tail:], tail)
		m.must(errors.Join(err, os.Chtimes(path, info.ModTime(), info.ModTime())))
	}
	_, err = unix.InotifyAddWatch(watch, path, unix.IN_ACCESS)
	m.must(err)
	ctx, stop := context.WithCancel(m.t.Context())
	var rival sync.WaitGroup
	rival.Go(func() {
		events := make([]byte, 4096)
		for ctx.Err() == nil {
			if n, _ := unix.Read(watch, events); n > 0 {
				time.Sleep(after)
				show(m.evil)
				return
			}
		}
	})
	e := do()
	stop()
	rival.Wait()
	show(m.good)
	return e
}

// judged reports whether a command succeeded. No file that it leaves may contain what was
// not judged.
func (m racing) judged(e ending, places ...string) bool {
	m.t.Helper()
	sourcetest.Expect(m.t, e.killed == "" && (e.status == exitDone || e.status == exitFailed), "%s", e)
	for _, place := range places {
		_ = filepath.WalkDir(m.path(place), func(name string, _ fs.DirEntry, _ error) error {
			if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(evilEnd)) {
				m.t.Errorf("%s was not judged: %s", name, e)
			}
			return nil
		})
	}
	return e.status == exitDone
}

// While another user changes an archive, larder uses the bytes that it judged, or none.
func TestRacesForArchives(t *testing.T) {
	m := newRacing(t)
	m.succeeds("mirror sync mirror " + widgetDir + "@1.2.0")
	m.succeeds("--chdir work lock")
	archive := m.path("mirror/" + widgetDir + "/terraform-provider-widget_1.2.0_" + ownPlatform + ".zip")
	m.write("mirror.tfrc", `provider_installation { filesystem_mirror { path = "`+m.path("mirror")+`" } }`)
	m.give("mirror")
	env := []string{"TF_CLI_CONFIG_FILE=" + m.path("mirror.tfrc")}
	for _, c := range []struct {
		name, args string
		places     []string
	}{
		{"install", "--chdir work install --lockfile readonly --require-signed", []string{"work", pluginCache}},
		{"install without a cache", "--chdir work install --no-cache", []string{"work", stateHome}},
		{"mirror sync", "mirror sync copy " + widgetDir + "@1.2.0", []string{"copy"}},
		{"mirror sync --unpacked", "mirror sync copy --unpacked " + widgetDir + "@1.2.0", []string{"copy"}},
		{"bundle create", "bundle create copy.tar --mirror mirror", []string{"copy.tar"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := racing{&diskMachine{t: t, dir: m.dir, env: m.env}, m.good, m.evil}
			run := func() ending {
				for _, place := range []string{"work/.terraform", pluginCache, stateHome, "copy", "copy.tar"} {
					m.remove(place)
				}
				return m.run(c.args, env...)
			}
			e := run()
			sourcetest.Require(t, m.judged(e, c.places...), "it fails without a race: %s", e)
			tries := 4
			if sourcetest.Thorough() {
				tries = 40
			}
			for range tries {
				m.judged(m.race(archive, time.Duration(rand.IntN(50))*time.Millisecond, run), c.places...)
			}
		})
	}
}
