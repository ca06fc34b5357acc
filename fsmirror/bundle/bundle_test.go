package bundle_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var ctx = context.Background()

// An imported mirror equals the exported one, including its index and evidence.
func TestRoundTrip(t *testing.T) {
	from := mirrored(t, published(t))
	file := created(t, from, createOptions())
	to := filepath.Join(t.TempDir(), "new", "mirror")
	arrivals := mustImport(t, to, file)
	sourcetest.Equal(t, len(arrivals), 4, "packages")
	for _, a := range arrivals {
		if a.How != bundle.Added || a.Report.Verdict != sources.MirrorEvidence || a.Report.Best().KeyID != sourcetest.Publisher().ID() {
			t.Errorf("%s: %s, %s by %q", a.ID, a.How, a.Report.Verdict, a.Report.Best().KeyID)
		}
	}
	alike(t, to, indexed(t, from))
	l := left(t, to)
	sourcetest.Expect(t, len(l) == 0, "left over: %q", l)

	// A second import changes nothing.
	for _, a := range mustImport(t, to, file) {
		sourcetest.Equal(t, a.How, bundle.Known, a.ID)
	}
}

// The same packages produce the same bytes, however they were added to the mirror.
func TestDeterminism(t *testing.T) {
	w := published(t)
	one := mirrored(t, w)
	first := readFile(t, created(t, one, createOptions()))

	other := t.TempDir()
	mustImport(t, other, created(t, mirrored(t, w, "*/1.1.0/*"), createOptions()))
	w.WritePacked(other, "*/0.1.0/*", "*/1.0.0/*")
	w.WriteEvidence(other)
	then := time.Now().Add(-time.Hour)
	path := filepath.Join(other, gadget, "terraform-provider-gadget_0.1.0_linux_amd64.zip")
	check(t, os.Chtimes(path, then, then))
	check(t, os.Chmod(path, 0o600))
	check(t, os.Rename(path, filepath.Join(filepath.Dir(path), "terraform-provider-GADGET_0.1.0_linux_amd64_x.zip")))
	sourcetest.Expect(t, bytes.Equal(first, readFile(t, created(t, indexed(t, other), createOptions()))), "they differ")
}

// An import waits for another process that stores one of its packages, and then looks what the mirror has.
func TestPackagesThatArriveMeanwhile(t *testing.T) {
	t.Parallel() // it waits two seconds
	file, dir := created(t, mirrored(t, published(t)), createOptions()), t.TempDir()
	other := sourcetest.Must(builder.Open(ctx, dir, builder.Options{}))(t)
	_, tx, err := other.Begin(ctx, sourcetest.PackageID(t, gadget, "0.1.0", "linux_amd64"), sources.ToStore) // the first one
	check(t, err)
	opts := importOptions()
	opts.Waiting = func(id sources.PackageID, _ disk.Holder) {
		sourcetest.Equal(t, id.Version.String(), "0.1.0")
		tx.Close()
		mustImport(t, dir, file)
	}
	i := sourcetest.Must(bundle.Import(ctx, file, dir, opts))(t)
	for _, a := range i.Packages {
		sourcetest.Equal(t, a.How, bundle.Known, a.ID.String())
	}
	check(t, other.Close())
}

// An import of thousands of packages has few open files, and two imports don't wait for each other: it locks one package
// at a time.
func TestImportLocksOnePackageAtATime(t *testing.T) {
	file, dir := created(t, mirrored(t, published(t)), createOptions()), t.TempDir()
	opts, most := importOptions(), 0
	opts.Accept = func(all []sources.Stored) error {
		locks := sourcetest.Must(os.ReadDir(filepath.Join(dir, ".larder", "lock")))(t)
		sourcetest.Expect(t, len(all) > 1 && len(locks) == 0, "%d packages, locks %v", len(all), locks)
		return nil
	}
	opts.Report = func(int64, int64) {
		most = max(most, len(sourcetest.Must(os.ReadDir(filepath.Join(dir, ".larder", "lock")))(t)))
	}
	sourcetest.Must(bundle.Import(ctx, file, dir, opts))(t)
	sourcetest.Equal(t, most, 0, "locks while packages are copied")
}

// A bundle that tar unpacks is a mirror.
func TestTarReadsIt(t *testing.T) {
	w := published(t)
	w.Add("bücher.test/a-rather-long-namespace-indeed-a-rather-long-one/a-type-with-a-long-name-as-well",
		"1.2.3-and-a-prerelease-that-is-longer-than-other-prereleases.4711+and.the.number.of.the.build.for.good.measure",
		sourcetest.Release{Platforms: []string{"linux_amd64"}})
	from := mirrored(t, w)
	file := created(t, from, createOptions())
	out, err := exec.Command("tar", "tf", file).Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("there is no tar")
	}
	check(t, err)
	first, _, _ := strings.Cut(string(out), "\n")
	sourcetest.Equal(t, first, ".larder/bundle.json", "begins with")
	to := t.TempDir()
	check(t, exec.Command("tar", "xf", file, "-C", to).Run())
	alike(t, to, from)
	p, err := fsmirror.New(to, fsmirror.Options{}).Package(ctx, sourcetest.PackageID(t, widget, "1.0.0", "linux_arm64"))
	sourcetest.Expect(t, err == nil && p.Signed != nil, "%+v, %v", p, err)
	m := sourcetest.Must(bundle.ParseManifest(readFile(t, filepath.Join(to, ".larder/bundle.json"))))(t)
	sourcetest.Expect(t, bytes.Equal(m.Text(), described(t, to).Text()), "the manifest is another than that of the mirror")
	mustImport(t, t.TempDir(), file)
}

// A delta contains the packages that the receiver lacks, and requires those that it
// has.
func TestDeltas(t *testing.T) {
	w := published(t)
	sender := mirrored(t, w)
	receiver := t.TempDir()
	mustImport(t, receiver, created(t, mirrored(t, w, "*/1.0.0/*"), createOptions()))

	first := created(t, sender, since(described(t, receiver)))
	b := sourcetest.Must(bundle.Open(first))(t)
	check(t, b.Close())
	if n, base := len(b.Manifest.Packages), len(b.Manifest.Base); n != 2 || base != 2 {
		t.Errorf("%d packages on a base of %d", n, base)
	}

	// The second delta requires the first.
	w.Add(widget, "2.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}})
	second := created(t, mirrored(t, w), since(b.Manifest))

	for _, dry := range []bool{true, false} {
		o := importOptions()
		o.ReadOnly = dry
		before := tree(t, receiver)
		_, err := bundle.Import(ctx, second, receiver, o)
		for _, want := range []string{second + " requires this package", gadget + " 0.1.0 linux_amd64: ", widget + " 1.1.0 linux_amd64: "} {
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "no %q in %v", want, err)
		}
		sourcetest.Expect(t, maps.Equal(before, tree(t, receiver)) && len(left(t, receiver)) == 0, "something changed")
	}
	mustImport(t, receiver, first)
	mustImport(t, receiver, second)
	alike(t, receiver, indexed(t, mirrored(t, w)))

	// If there are no new packages, there is no bundle.
	file := filepath.Join(t.TempDir(), "b.tar")
	c, err := bundle.Create(ctx, mirrored(t, w), file, since(described(t, receiver)))
	sourcetest.Expect(t, err == nil && c.Manifest.Empty(), "%v, %v", c, err)
	_, err = os.Stat(file)
	sourcetest.ErrorIs(t, err, os.ErrNotExist)
}

// A base with other contents is not accepted.
func TestOtherBase(t *testing.T) {
	w := published(t)
	sender := mirrored(t, w)
	delta := created(t, sender, since(described(t, mirrored(t, w, "*/1.0.0/*"))))
	other := published(t)
	other.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}, Files: provider("other", "")})
	_, err := bundle.Import(ctx, delta, mirrored(t, other, "*/1.0.0/*"), importOptions())
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "b.tar requires zh:"), "%v", err)
}

// A package that the receiver has without the sender's evidence is sent again.
func TestPackageWithNewEvidenceIsSent(t *testing.T) {
	w := published(t)
	receiver := t.TempDir()
	w.WritePacked(receiver)
	arrivals := mustImport(t, receiver, created(t, mirrored(t, w), since(described(t, receiver))))
	for _, a := range arrivals {
		sourcetest.Expect(t, a.How == bundle.Known && a.Report.Verdict == sources.MirrorEvidence, "%s: %s, %s", a.ID, a.How, a.Report.Verdict)
	}
	alike(t, receiver, indexed(t, mirrored(t, w)))
}

// A bundle that contradicts a mirror does not replace packages or evidence in it.
func TestConflicts(t *testing.T) {
	w := published(t)
	from := mirrored(t, w, "*/1.0.0/linux_amd64")
	file := created(t, from, createOptions())
	zip := filepath.Join(widget, "terraform-provider-widget_1.0.0_linux_amd64.zip")
	other := sourcetest.New(t)
	other.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64", "linux_arm64"}, Files: provider("other", "one"), Signer: sourcetest.Stranger()})
	with := func(write func(dir string, only ...string), only string) (dir string) {
		dir = t.TempDir()
		write(dir, only)
		return dir
	}
	tests := []struct {
		name string
		dir  string
		want string // in the error; empty if there is none
		how  bundle.How
	}{
		{"another, signed", mirrored(t, other), "the mirror's signed checksums do not cover this package", ""},
		{"another, signed and alone", mirrored(t, other, "*/linux_amd64"), "the mirror's signed checksums do not cover this package", ""},
		{"another, unsigned", with(other.WritePacked, "*/linux_amd64"), "and the mirror has zh:", ""},
		{"another, unpacked", with(other.WriteUnpacked, "*/linux_amd64"), "and the mirror has it unpacked, as h1:", ""},
		{"the same, unpacked", with(w.WriteUnpacked, "*/1.0.0/linux_amd64"), "", bundle.Added},
		{"evidence for another platform", mirrored(t, w, "*/1.0.0/linux_arm64"), "", bundle.Added},
		{"damaged", func() string {
			dir := mirrored(t, w, "*/1.0.0/*")
			check(t, os.WriteFile(filepath.Join(dir, zip), []byte("no archive"), 0o644))
			return dir
		}(), "", bundle.Replaced},
		{"replaced by another", func() string {
			dir := mirrored(t, w, "*/1.0.0/*")
			other.WritePacked(dir, "*/linux_amd64")
			return dir
		}(), "and the mirror has zh:", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := tree(t, test.dir)
			arrivals, err := bundle.Import(ctx, file, test.dir, importOptions())
			if test.want != "" {
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "got %v", err)
				sourcetest.Expect(t, maps.Equal(before, tree(t, test.dir)) && len(left(t, test.dir)) == 0, "something changed")
				return
			}
			check(t, err)
			sourcetest.Equal(t, arrivals.Packages[0].How, test.how)
			sourcetest.Equal(t, tree(t, test.dir)[zip], tree(t, from)[zip], "not the bundle's archive")
		})
	}
}

// Evidence that was sent with a later package also applies to packages in the mirror.
func TestNewerEvidence(t *testing.T) {
	w := published(t)
	first, later := mirrored(t, w, "*/1.1.0/*"), mirrored(t, w, "*/1.1.0/*")
	w.Add(widget, "1.1.0", sourcetest.Release{Platforms: []string{"linux_arm64"}})
	w.WritePacked(later, "*/1.1.0/linux_arm64")
	w.WriteEvidence(later, "*/1.1.0/*")
	arrivals := mustImport(t, first, created(t, later, since(described(t, first))))
	sourcetest.Equal(t, len(arrivals), 1, arrivals)
	alike(t, indexed(t, first), indexed(t, later))
	s, err := there(t, first).Get(ctx, sourcetest.PackageID(t, widget, "1.1.0", "linux_amd64"))
	sourcetest.Expect(t, err == nil && s.Signed != nil, "%+v, %v", s, err)
}

// An interrupted import leaves nothing, and the next one imports everything.
func TestInterrupted(t *testing.T) {
	from := mirrored(t, published(t))
	file := created(t, from, createOptions())
	to := t.TempDir()
	stopped, stop := context.WithCancel(ctx)
	opts := importOptions()
	opts.Report = func(done, _ int64) {
		if done > 4000 {
			stop()
		}
	}
	_, err := bundle.Import(stopped, file, to, opts)
	sourcetest.ErrorIs(t, err, context.Canceled)
	sourcetest.Expect(t, len(tree(t, to)) == 0, "something is visible")
	mustImport(t, to, file)
	alike(t, to, indexed(t, from))
	sourcetest.Equal(t, len(left(t, to)), 0, "left over")
}

func TestCreateRefuses(t *testing.T) {
	w := published(t)
	t.Run("nothing", func(t *testing.T) {
		_, err := bundle.Create(ctx, t.TempDir(), filepath.Join(t.TempDir(), "b"), createOptions())
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "no packed packages"), "%v", err)
	})
	t.Run("evidence for another package", func(t *testing.T) {
		dir := mirrored(t, w)
		other := sourcetest.New(t)
		other.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}, Files: provider("other", "one")})
		other.WritePacked(dir)
		_, err := bundle.Create(ctx, dir, filepath.Join(t.TempDir(), "b"), createOptions())
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "not among the signed checksums"), "%v", err)
	})
	t.Run("changed after it was described", func(t *testing.T) {
		dir := indexed(t, mirrored(t, w))
		path := filepath.Join(dir, widget, "terraform-provider-widget_1.1.0_linux_amd64.zip")
		data := readFile(t, path)
		info := sourcetest.Must(os.Stat(path))(t)
		data[len(data)/2] ^= 1
		check(t, os.WriteFile(path, data, 0o644))
		check(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		out := t.TempDir()
		_, err := bundle.Create(ctx, dir, filepath.Join(out, "b"), createOptions())
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "widget_1.1.0_linux_amd64.zip"), "%v", err)
		entries, _ := os.ReadDir(out)
		sourcetest.Expect(t, len(entries) == 0, "left %v", entries)
	})
	t.Run("what the caller refuses", func(t *testing.T) {
		refused, asked := errors.New("refused"), 0
		opts := createOptions()
		opts.Accept = func(all []sources.Stored) error { asked = len(all); return refused }
		dir := mirrored(t, w)
		_, err := bundle.Create(ctx, dir, filepath.Join(t.TempDir(), "b"), opts)
		sourcetest.Expect(t, errors.Is(err, refused) && asked > 0, "asked about %d packages: %v", asked, err)
	})
}

// plainMirror creates a mirror without a world, because creating its keys would slow
// down fuzzing.
func plainMirror(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0-rc1"} {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		w := sourcetest.Must(z.Create("terraform-provider-widget"))(t)
		_, err := w.Write([]byte(version))
		check(t, errors.Join(err, z.Close()))
		path := filepath.Join(dir, widget, "terraform-provider-widget_"+version+"_linux_amd64.zip")
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	return dir
}

// A valid manifest that is written and parsed again is the same.
func FuzzManifest(f *testing.F) {
	m := described(f, plainMirror(f))
	f.Add(m.Text())
	delta := m.Since(&bundle.Receiver{Manifest: bundle.Manifest{Packages: m.Packages[:1]}})
	f.Add(delta.Text())
	f.Add(bundle.Manifest{}.Text())
	m.Payload = gathered(f, workspace(f))
	f.Add(m.Text())
	for mutant := range sourcetest.Mutants(m.Text()) {
		f.Add(mutant)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := bundle.ParseManifest(data)
		if err != nil {
			return
		}
		again, err := bundle.ParseManifest(m.Text())
		sourcetest.Expect(t, err == nil && bytes.Equal(m.Text(), again.Text()) && m.ID() == again.ID(),
			"%v\n%s\n%s", err, m.Text(), again.Text())
	})
}

// Every valid bundle can be imported, and a bundle of the resulting mirror is the
// same.
func FuzzBundle(f *testing.F) {
	good := readFile(f, created(f, plainMirror(f), createOptions()))
	sourcetest.AddSeeds[[]byte](f, string(good))
	for hostile := range hostileTars(f, good) {
		f.Add(hostile)
	}
	f.Add(good[:len(good)-512])
	all := unpackTar(f, good)
	all[1], all[2] = all[2], all[1]
	f.Add(packTar(f, all))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := fileOf(t, data)
		b, err := bundle.Open(file)
		if err != nil {
			return
		}
		check(t, b.Close())
		if len(b.Manifest.Base) > 0 || len(b.Manifest.Packages) == 0 || len(b.Manifest.Payload) > 0 {
			return
		}
		to := t.TempDir()
		if _, err := bundle.Import(ctx, file, to, importOptions()); err != nil {
			sourcetest.Expect(t, len(tree(t, to)) == 0, "refused, and something is there")
			return
		}
		sourcetest.Expect(t, bytes.Equal(data, readFile(t, created(t, to, createOptions()))), "it makes another bundle")
	})
}

// The format is stable, including long names, non-ASCII names and archives beyond
// 8 GiB.
func TestLayoutStays(t *testing.T) {
	m := bundle.Manifest{Packages: []bundle.Package{
		{
			ID: sourcetest.PackageID(t, "bücher.test/acme/widget", "1.0.0", "linux_amd64"), Size: 9 << 30,
			ZH: sources.ZipHash([32]byte{1}), H1: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		},
		{
			ID: sourcetest.PackageID(t, widget, "1.0.0-a-prerelease-of-which-nobody-could-say-it-is-short-as-it-goes-on-and-on-and-on-and-on-and-on-and-on", "linux_amd64"), Size: 1,
			ZH: sources.ZipHash([32]byte{2}), H1: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		},
	}}
	headers, size, err := bundle.Headers(m)
	check(t, err)
	if got, want := hexOf(sum(string(headers))), "9a80de6d4de1661e93928d5baac62caf3b1b26e9f4044960a2b07e4dd84bfbc8"; got != want || size != 9_663_682_560 {
		t.Errorf("got %s and %d bytes", got, size)
	}
}
