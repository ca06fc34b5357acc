package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestTortureMirror runs processes that store and remove packages of one mirror at the same time. In every other round,
// some of them are killed, and in every third round none removes anything. No document ever names a missing file. If no
// process is killed, the mirror is complete when all have ended, and otherwise after the next run.
func TestTortureMirror(t *testing.T) {
	t.Parallel()
	k := newRack(t, options{seed: sourcetest.Seed(), size: 1 << 20})
	for round := range len(sourcetest.Sample(t, 30, 3)) {
		k.dir = t.TempDir()
		k.mirrorRound(t, round%2 == 1, round%3 != 0)
		k.must(os.RemoveAll(k.dir))
	}
}

func (k *rack) mirrorRound(t *testing.T, kills, removes bool) {
	const root = "root"
	k.world.Registry.Forget()
	k.prepare(root, "")
	var running, watching sync.WaitGroup
	for range 6 {
		names := slices.Clone(k.opts.providers)
		k.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		args := []string{"mirror", "sync", "../mirror", "--quiet"}
		for _, name := range names[:1+k.random.IntN(len(names))] {
			args = append(args, address(name)+"@1.0.0")
		}
		sync, remove := k.command(root, k.larder, args...), k.command(root, "true")
		if removes {
			remove = k.command(root, k.larder, "mirror", "remove", "../mirror", address(names[0])+"@1.0.0")
		}
		kill, pause := time.Duration(k.random.IntN(400))*time.Millisecond, time.Duration(k.random.IntN(100))*time.Millisecond
		run := func(p *process) error {
			sourcetest.Check(t, p.cmd.Start())
			if kills {
				defer time.AfterFunc(kill, func() { _ = p.cmd.Process.Kill() }).Stop()
			}
			return p.cmd.Wait()
		}
		running.Go(func() {
			time.Sleep(pause)
			if err := run(sync); err != nil && !kills {
				t.Errorf("%v: %v\n%s", sync.cmd.Args, err, &sync.out)
			}
			_ = run(remove) // another process may have removed it
		})
	}
	over := make(chan struct{})
	watching.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			err := k.mirrorFits()
			for try := 0; err != nil && try < 3; try++ { // it reads the documents before it looks for the files
				err = k.mirrorFits()
			}
			sourcetest.Check(t, err)
		}
	})
	running.Wait()
	close(over)
	watching.Wait()
	if !kills && !removes {
		sourcetest.Expect(t, float64(k.sent())/float64(k.sizeOfAll()) <= 1, "%d bytes were sent", k.sent())
	}
	if !kills {
		k.must(k.mirrorSettled("tmp/*", "partial/*", "unsettled", "lock/*"))
	}
	for range 2 { // the second run removes what others have left of interrupted downloads
		k.must(k.command(root, k.larder, "mirror", "sync", "../mirror", "--quiet").finish())
	}
	k.must(errors.Join(k.mirrored(), k.mirrorSettled("tmp/*", "partial/*", "unsettled")))
}

// sizeOfAll is the size of all archives in the mirror.
func (k *rack) sizeOfAll() (size int64) {
	for _, name := range k.opts.providers {
		if info, err := os.Stat(k.archive("mirror", name)); err == nil {
			size += info.Size()
		}
	}
	return size
}

// mirrorSettled returns an error if the mirror has problems, or files of an interrupted run.
func (k *rack) mirrorSettled(temporary ...string) error {
	var errs []error
	for _, left := range temporary {
		if all, _ := filepath.Glob(filepath.Join(k.dir, "mirror/.larder", left)); len(all) > 0 {
			errs = append(errs, fmt.Errorf("left over: %q", all))
		}
	}
	return errors.Join(append(errs, k.command("root", k.larder, "mirror", "verify", "../mirror").finish())...)
}
