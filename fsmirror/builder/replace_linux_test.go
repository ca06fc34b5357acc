package builder_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// If the replacement of a package fails, the old package stays in place.
func TestFailedReplacementRestoresTheOldPackage(t *testing.T) {
	d, dir := synced(t, builder.Options{Unpacked: true}, widget+"/1.0.0/linux_amd64")
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	before := files(t, dir)
	b := open(t, dir, builder.Options{Unpacked: true, Warn: func(err error) { t.Log(err) }})
	del := d.delivery(id)
	del.Accept = func(sources.Stored) bool { return false }
	del.Judge = func(sources.Contents) (sources.Proof, error) {
		// A mount point cannot be renamed.
		made, err := filepath.Glob(filepath.Join(dir, ".larder", "tmp", "*", "*", "terraform-provider-*"))
		if err != nil || len(made) != 1 {
			t.Fatal(made, err)
		}
		made[0] = filepath.Dir(made[0])
		if err := syscall.Mount(made[0], made[0], "", syscall.MS_BIND, ""); err != nil {
			t.Skip("cannot mount: ", err)
		}
		t.Cleanup(func() { must(t, syscall.Unmount(made[0], syscall.MNT_DETACH)) })
		return sourcetest.ByRegistryKey, nil
	}
	_, err := sourcetest.Put(t.Context(), b, id, del)
	sourcetest.Expect(t, err != nil, "it was replaced")
	after := files(t, dir)
	sourcetest.Expect(t, len(before) == 1 && len(after) == 1 && before[0] == after[0], "files were %q and are %q", before, after)
	s, err := b.Get(t.Context(), id)
	sourcetest.Expect(t, err == nil && s.Report.Verdict == sources.SelfSigned && s.Signed != nil, "it has %+v, %v", s, err)
	must(t, b.Close())
}
