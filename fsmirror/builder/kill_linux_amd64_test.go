package builder_test

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

// Tests start this test binary again as a writer that they can kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BUILDER_TEST_MIRROR"); dir != "" {
		if err := writePackages(dir, os.Getenv("BUILDER_TEST_FROM")); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run())
}

// killed are the packages that the killed process writes: one that replaces another,
// a new one, and one of a host that is not ASCII. The process also removes one.
var killed = []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64", abroad + "/1.0.0/linux_amd64"}

// writePackages stores the packages of another mirror in dir, and removes one.
func writePackages(dir, from string) (err error) {
	ctx := context.Background()
	archives, err := disk.Make(dir + ".archives")
	if err != nil {
		return err
	}
	defer archives.Close()
	b, err := builder.Open(ctx, dir, builder.Options{Archives: staging.ArchivesIn(archives, 1<<20)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, text := range killed {
		id := parseID(fatal{}, text)
		archive, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(id.Provider.String()), id.Filename()))
		if err != nil {
			return err
		}
		signed, err := evidence.Of(from, id.Provider, id.Version)
		if err != nil {
			return err
		}
		if _, err := sourcetest.Put(ctx, b, id, deliver(archive, signed)); err != nil {
			return err
		}
	}
	if err := b.Finish(ctx); err != nil {
		return err
	}
	plan, err := b.PlanPrune(ctx, builder.Policy{KeepLast: 1})
	if err == nil {
		_, err = b.Prune(ctx, plan)
	}
	return err
}

// A fatal is a testing.TB outside of a test.
type fatal struct{ testing.TB }

func (fatal) Helper()        {}
func (fatal) Fatal(v ...any) { panic(v) }

func writer(dir, from string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BUILDER_TEST_MIRROR="+dir, "BUILDER_TEST_FROM="+from)
	return cmd
}

// before returns a mirror in its state before the process writes to it, and the
// mirror that the process takes packages from.
func before(t *testing.T) (old *depot, from string) {
	t.Helper()
	old = newDepot(t, widget+"/1.0.0/linux_amd64", gadget+"/1.0.0/linux_amd64")
	fresh := newDepot(t)
	fresh.stockWith(another, killed...)
	fresh.world.WriteEvidence(fresh.packed)
	return old, fresh.packed
}

// A writer is killed before each change that it makes to the file system, in a
// separate run for each. Clients that read the mirror then find no inconsistent files,
// and the next writer repairs it.
func TestKilledAtEveryStep(t *testing.T) {
	old, from := before(t)
	write := func(step int) (changes, complete int) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		must(t, err)
		old.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64", gadget+"/1.0.0/linux_amd64")
		changes, err = sourcetest.KillAt(writer(dir, from), step)
		if errors.Is(err, syscall.EPERM) {
			t.Skip("tracing processes is not permitted")
		}
		sourcetest.Require(t, err == nil, "step %d: %v", step, err)
		_, err = client(dir)
		sourcetest.Require(t, err == nil, "step %d: a client: %v", step, err)
		complete = archivesIn(t, dir+".archives", step)
		err = writePackages(dir, from)
		sourcetest.Require(t, err == nil, "step %d: the next: %v", step, err)
		mended(t, dir, step)
		must(t, os.RemoveAll(dir))
		return changes, complete
	}
	changes, complete := write(0)
	sourcetest.Require(t, changes >= 20, "only %d steps were seen", changes)
	sourcetest.Equal(t, complete, 1, "archives of recent downloads; all packages have the same")
	for _, step := range sourcetest.Sample(t, changes, 6) {
		write(step)
	}
}

// archivesIn returns how many archives of recent downloads there are. Each must be complete.
func archivesIn(t *testing.T, dir string, step int) (complete int) {
	t.Helper()
	entries, _ := os.ReadDir(dir) // not created yet
	for _, e := range entries {
		sum, _, err := disk.HashFile(t.Context(), filepath.Join(dir, e.Name()), 1<<30)
		must(t, err)
		if len(e.Name()) == 64 {
			sourcetest.Require(t, e.Name() == hex.EncodeToString(sum[:]), "step %d: %s is incomplete", step, e.Name())
			complete++
		}
	}
	return complete
}

// mended checks that a mirror is in the same state as without the kill.
func mended(t *testing.T, dir string, step int) {
	t.Helper()
	v, err := open(t, dir, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
	sourcetest.Require(t, err == nil && len(v.Findings) == 0 && v.Unvouched <= 0, "step %d: %+v, %v", step, v, err)
	found, err := client(dir)
	if err != nil || len(found) != 4 { // the new ones that stay, one of them in two directories, and the unchanged one
		t.Fatalf("step %d: a client finds %q, %v", step, found, err)
	}
	left, err := os.ReadDir(filepath.Join(dir, ".larder", "tmp"))
	sourcetest.Require(t, err == nil && len(left) == 0, "step %d: left are %v, %v", step, left, err)
}
