//go:build unix

package cachedir_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// install does the work of an installer for a new root module: it uses the package in
// the cache or fetches it, and links it.
func install(d *cachedir.Dir, root string, id sources.PackageID) error {
	ctx := context.Background()
	release, err := d.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	s, err := d.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		fmt.Println("fetched")
		s, err = sourcetest.Put(ctx, d, id, delivery(releases[0].zip(&testing.B{})))
	}
	if err != nil {
		return err
	}
	time.Sleep(time.Millisecond)
	module, err := os.MkdirTemp(root+".work", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	target := filepath.Join(module, ".terraform", "providers", filepath.FromSlash(id.Path()))
	if _, err := link(ctx, d, s, target); err != nil {
		return err
	}
	d.Workdir(module, filepath.Join(module, ".terraform", "providers")).Register([]sources.PackageID{id})
	for name, text := range releases[0] {
		if got, err := os.ReadFile(filepath.Join(target, name)); err != nil || string(got) != text {
			return fmt.Errorf("%s is torn: %d bytes, %w", target, len(got), err)
		}
	}
	return nil
}

func childInstall(root string) error {
	d, err := cachedir.Open(root, cachedir.Options{Records: store.Records{Key: testKey}, Link: sources.LinkSymlink})
	if err != nil {
		return err
	}
	for range 8 {
		for _, id := range providers() {
			if err := install(d, root, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// childPrune prunes repeatedly, and prints each package that it removes.
func childPrune(root string) error {
	d, err := cachedir.Open(root, cachedir.Options{Records: store.Records{Key: testKey}})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		p, err := d.PlanPrune(context.Background(), cachedir.Policy{All: true})
		if err != nil {
			return err
		}
		pruned, err := d.Prune(context.Background(), p)
		if err != nil {
			return err
		}
		for range pruned.Packages {
			fmt.Println("pruned")
		}
	}
}

// However often packages are pruned, no install loses a package that it has selected,
// and installs and prunes all finish. Killed prunes leave no files.
func TestPruneRacesInstalls(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "cache")
	check(t, os.MkdirAll(root+".work", 0o755))
	var pruners, installers []process
	for range 2 {
		p := start(t, "prune", root)
		p.ready(t)
		pruners = append(pruners, p)
	}
	for range 4 {
		installers = append(installers, start(t, "install", root))
	}
	fetched := 0
	for _, child := range installers {
		for lines := bufio.NewScanner(child.out); lines.Scan(); fetched++ {
		}
		sourcetest.Equal(t, child.Wait(), nil, "an install failed")
	}
	pruned := 0
	for _, child := range pruners {
		check(t, child.Process.Kill())
		for lines := bufio.NewScanner(child.out); lines.Scan(); pruned++ {
		}
		child.Wait()
	}
	t.Logf("%d fetched, %d pruned", fetched, pruned)
	sourcetest.Expect(t, pruned >= 3 && fetched >= 3, "the two did not meet: %d fetched, %d pruned", fetched, pruned)
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, releases[0])
	v, err := d.Verify(context.Background(), cachedir.VerifyOptions{})
	check(t, err)
	sourcetest.Expect(t, len(v.Findings) == 0, "found %v", v.Findings)
	nothingStaged(t, root)
}
