package staging_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

const arrival = "the archive"

// A downloader is one process that requires the archive.
type downloader struct {
	place
	*staging.Stage
}

// arrivalsAt returns a process with its own store, and with the arrivals in a directory.
func arrivalsAt(t *testing.T, dir string) downloader {
	t.Helper()
	p := newPlace(t)
	a := staging.ArrivalsIn(dir, func(sources.PackageID, disk.Holder) {})
	t.Cleanup(a.Close)
	return downloader{p, staging.New(p.work, p.kept, "key", "the test", nil, a)}
}

// recent returns what Recent finds, or "" if the process is to download the archive.
func (d downloader) recent(ctx context.Context) string {
	d.Helper()
	f, err := d.Stage.Recent(ctx, hashOf(arrival))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	check(d.T, err)
	return string(text)
}

// later calls recent in the background.
func (d downloader) later() <-chan string {
	found := make(chan string, 1)
	go func() { found <- d.recent(d.T.Context()) }()
	return found
}

func (d downloader) write(text string) {
	d.Helper()
	_, err := io.WriteString(d.Stage, text)
	check(d.T, err)
}

// left returns the names of the files that the arrivals have left.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Processes that wait for an archive have the bytes of the one that downloads it.
func TestArrivals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "arriving")
	one, two, three := arrivalsAt(t, dir), arrivalsAt(t, dir), arrivalsAt(t, dir)
	sourcetest.Equal(t, one.recent(t.Context()), "")
	second, third := two.later(), three.later()
	one.write(arrival[:5])
	staging.AwaitWaiting(t, dir, hashOf(arrival))
	one.write(arrival[5:])
	one.Arrived()
	sourcetest.Equal(t, <-second, arrival)
	sourcetest.Equal(t, <-third, arrival)
	two.Drop()
	one.Drop()
	three.End(false)
	sourcetest.Equal(t, len(left(t, dir)), 0, left(t, dir))

	// The first of the next processes downloads it again: nothing is kept.
	four := arrivalsAt(t, dir)
	sourcetest.Equal(t, four.recent(t.Context()), "")
	four.End(false)
}

// If the process that downloads fails, one that waits takes its turn.
func TestArrivalFails(t *testing.T) {
	dir := t.TempDir()
	one, two, three := arrivalsAt(t, dir), arrivalsAt(t, dir), arrivalsAt(t, dir)
	sourcetest.Equal(t, one.recent(t.Context()), "")
	second := two.later()
	staging.AwaitWaiting(t, dir, hashOf(arrival))
	one.write("the arch")
	one.End(true)
	sourcetest.Equal(t, <-second, "")
	third := three.later()
	staging.AwaitWaiting(t, dir, hashOf(arrival))
	two.write(arrival)
	two.Drop() // with Arrived, or without
	sourcetest.Equal(t, <-third, arrival)
	three.Drop()
	sourcetest.Equal(t, len(left(t, dir)), 0, left(t, dir))
}

// A process doesn't wait for one that receives nothing, and uses no bytes but those with the hash.
func TestArrivalStalls(t *testing.T) {
	staging.SetSilence(t, 100*time.Millisecond)
	dir := t.TempDir()
	one, two := arrivalsAt(t, dir), arrivalsAt(t, dir)
	sourcetest.Equal(t, one.recent(t.Context()), "")
	sourcetest.Equal(t, two.recent(t.Context()), "")
	two.write(arrival)
	two.Arrived()
	two.Drop()
	one.End(false)

	one, two = arrivalsAt(t, dir), arrivalsAt(t, dir)
	sourcetest.Equal(t, one.recent(t.Context()), "")
	second := two.later()
	staging.AwaitWaiting(t, dir, hashOf(arrival))
	one.write("another archive")
	one.Arrived()
	sourcetest.Equal(t, <-second, "")
	one.End(false)
	two.End(false)
	sourcetest.Equal(t, len(left(t, dir)), 0, left(t, dir))
}

// A wait ends with its context. Without a directory, every process downloads.
func TestArrivalsNeverFail(t *testing.T) {
	dir := t.TempDir()
	one, two := arrivalsAt(t, dir), arrivalsAt(t, dir)
	sourcetest.Equal(t, one.recent(t.Context()), "")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := two.Recent(ctx, hashOf(arrival))
	sourcetest.Expect(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	two.End(false)
	one.End(false)

	file := filepath.Join(dir, "file")
	check(t, os.WriteFile(file, nil, 0o644))
	for range 2 {
		three := arrivalsAt(t, file)
		_, err = three.Recent(t.Context(), hashOf(arrival))
		sourcetest.ErrorIs(t, err, fs.ErrNotExist)
		three.write(arrival)
		three.Arrived()
		three.Drop()
	}
}
