package builder_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

const (
	widget = "example.test/acme/widget"
	gadget = "example.test/acme/gadget"
	abroad = "испытание.test/acme/widget"
)

// another is the files of a package that differs from those of [depot.stock].
var another = map[string]string{"terraform-provider-widget": "another"}

// A depot publishes packages and delivers them.
type depot struct {
	t      testing.TB
	world  *sourcetest.World
	packed string // a mirror with the archives
}

func newDepot(t testing.TB, ids ...string) *depot {
	t.Helper()
	d := &depot{t: t, world: sourcetest.New(t)}
	d.stock(ids...)
	return d
}

// stock publishes packages, given as HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
func (d *depot) stock(ids ...string) {
	d.t.Helper()
	d.stockWith(nil, ids...)
}

// stockWith publishes packages of a widget with these files.
func (d *depot) stockWith(files map[string]string, ids ...string) {
	d.t.Helper()
	for _, text := range ids {
		id := parseID(d.t, text)
		r := sourcetest.Release{Platforms: []string{id.Platform.String()}, Files: files}
		d.world.Add(id.Provider.String(), id.Version.String(), r)
	}
	d.packed = d.t.TempDir()
	d.world.WritePacked(d.packed)
}

func parseID(t testing.TB, text string) sources.PackageID {
	t.Helper()
	parts := strings.Split(text, "/")
	return sourcetest.PackageID(t, strings.Join(parts[:3], "/"), parts[3], parts[4])
}

var must = sourcetest.Check

func (d *depot) archive(id sources.PackageID) string {
	return filepath.Join(d.packed, filepath.FromSlash(id.Provider.String()), id.Filename())
}

// delivery supplies a package and, unless the depot has none, its evidence. It
// accepts an equal package that is already there.
func (d *depot) delivery(id sources.PackageID) sourcetest.Supply {
	data := sourcetest.ReadFile(d.t, d.archive(id))
	return deliver(data, d.signed(id))
}

func deliver(data []byte, signed *sources.Signed) sourcetest.Supply {
	zh := sources.ZipHash(sha256.Sum256(data))
	return sourcetest.Supply{
		Accept: func(s sources.Stored) bool { return s.ZH == zh && s.Signed != nil },
		Fetch: func(_ context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
			_, err := stage.Write(data)
			by := sources.Provenance{ZH: zh, Filename: "any.zip", Origin: "https://example.test/any.zip", Signed: signed}
			return sourcetest.Supplied{Provenance: by}, err
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return provenBy(signed, zh), nil },
	}
}

// provenBy is what evidence proves about an archive if a registry listed its keys.
func provenBy(signed *sources.Signed, zh sources.Hash) sources.Proof {
	if signed == nil {
		return sources.Proof{Matched: true}
	}
	proof, err := trust.Judge{}.Prove(context.Background(), sources.Provider{}, signed, zh)
	if err != nil {
		return sourcetest.ByRegistryKey // not real evidence
	}
	for i := range proof.Signers {
		proof.Signers[i].From = sources.KeyFromRegistry
	}
	return proof
}

func (d *depot) signed(id sources.PackageID) *sources.Signed {
	dir := d.t.TempDir()
	d.world.WriteEvidence(dir, id.Provider.String()+"/"+id.Version.String()+"/*")
	return sourcetest.Must(evidence.Of(dir, id.Provider, id.Version))(d.t)
}

func open(t testing.TB, dir string, opts builder.Options) *builder.Builder {
	t.Helper()
	if opts.Records == (store.Records{}) {
		key := sourcetest.Must(seal.ParseKey("the secret of all these tests"))(t)
		opts.Records.Key = key // the records are in the mirror
	}
	b := sourcetest.Must(builder.Open(context.Background(), dir, opts))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// sync stores packages in a mirror.
func (d *depot) sync(dir string, opts builder.Options, ids ...string) {
	d.t.Helper()
	b := open(d.t, dir, opts)
	for _, text := range ids {
		id := parseID(d.t, text)
		sourcetest.Must(sourcetest.Put(context.Background(), b, id, d.delivery(id)))(d.t)
	}
	if err := b.Finish(context.Background()); err != nil {
		_, damaged := errors.AsType[*builder.DamagedError](err)
		sourcetest.Expect(d.t, damaged, "%v", err)
	}
	must(d.t, b.Close())
}

// synced returns a mirror with packages, and the depot that they are from.
func synced(t testing.TB, opts builder.Options, ids ...string) (d *depot, dir string) {
	t.Helper()
	d, dir = newDepot(t, ids...), t.TempDir()
	d.sync(dir, opts, ids...)
	return d, dir
}

// files returns the files in a mirror, without .larder.
func files(t testing.TB, dir string) []string {
	t.Helper()
	var all []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case rel == ".larder":
			return fs.SkipDir
		case !e.IsDir():
			all = append(all, filepath.ToSlash(rel))
		}
		return nil
	}))
	return all
}

func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o644))
}

// A client reads a network mirror from its directory as engines do, independently of
// the code that writes it. It returns the URLs of the packages that it found.
func client(dir string) (found []string, err error) {
	indexes, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*", "index.json"))
	for _, index := range indexes {
		var doc struct{ Versions map[string]struct{} }
		if err := readJSON(index, &doc); err != nil {
			return nil, err
		}
		for version := range doc.Versions {
			urls, err := archives(filepath.Join(filepath.Dir(index), version+".json"))
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", version, index, err)
			}
			for _, u := range urls {
				rel, _ := filepath.Rel(dir, u)
				found = append(found, filepath.ToSlash(rel))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// finds checks how many packages a client finds.
func finds(t testing.TB, dir string, want int) {
	t.Helper()
	found, err := client(dir)
	sourcetest.Expect(t, err == nil && len(found) == want, "a client finds %q, %v", found, err)
}

func readJSON(path string, doc any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, doc)
	}
	return err
}

// archives reads the archives and the evidence that a version's document names.
func archives(path string) (found []string, err error) {
	var doc struct {
		Archives map[string]struct {
			URL    string
			Hashes []string
		}
		Larder struct {
			Evidence *struct {
				URL    string
				SHA256 map[string]string
			}
		}
	}
	if err := readJSON(path, &doc); err != nil {
		return nil, err
	}
	for platform, a := range doc.Archives {
		u, err := url.Parse(a.URL)
		if err != nil {
			return nil, err
		}
		archive := filepath.Join(filepath.Dir(path), filepath.FromSlash(u.Path))
		data, err := os.ReadFile(archive)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		want := []string{fmt.Sprintf("zh:%x", sha256.Sum256(data))}
		if h1, err := dirhash.HashZip(archive, dirhash.Hash1); err == nil {
			want = append(want, h1)
		}
		slices.Sort(want)
		if !slices.Equal(a.Hashes, want) {
			return nil, fmt.Errorf("%s is %v, and should be %v", platform, a.Hashes, want)
		}
		found = append(found, archive)
	}
	if e := doc.Larder.Evidence; e != nil {
		for name, want := range e.SHA256 {
			u, err := url.Parse(e.URL + name)
			if err != nil {
				return nil, err
			}
			data, err := os.ReadFile(filepath.Join(filepath.Dir(path), filepath.FromSlash(u.Path)))
			if got := fmt.Sprintf("%x", sha256.Sum256(data)); err != nil || got != want {
				return nil, fmt.Errorf("evidence: %s is %s, %v, and should be %s", name, got, err, want)
			}
		}
	}
	return found, nil
}

func TestPut(t *testing.T) {
	_, dir := synced(t, builder.Options{}, widget+"/1.0.0/linux_amd64", widget+"/1.0.0/darwin_arm64", widget+"/2.0.0/linux_amd64", "example.test/acme/gadget/1.0.0/linux_amd64")
	want := []string{
		"example.test/acme/gadget/1.0.0.json", "example.test/acme/gadget/index.json",
		"example.test/acme/gadget/terraform-provider-gadget_1.0.0_linux_amd64.zip",
		"example.test/acme/widget/1.0.0.json", "example.test/acme/widget/2.0.0.json", "example.test/acme/widget/index.json",
		"example.test/acme/widget/terraform-provider-widget_1.0.0_darwin_arm64.zip",
		"example.test/acme/widget/terraform-provider-widget_1.0.0_linux_amd64.zip",
		"example.test/acme/widget/terraform-provider-widget_2.0.0_linux_amd64.zip",
	}
	sourcetest.EqualSlices(t, files(t, dir), want, "files are")
	finds(t, dir, 4)
	if _, err := os.Stat(filepath.Join(dir, ".larder", "unsettled")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is not settled: %v", err)
	}

	b := open(t, dir, builder.Options{})
	defer b.Close()
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	s, err := b.Get(t.Context(), id)
	if err != nil || s.Report.Verdict != sources.SelfSigned || s.Signed == nil || s.Origin != "https://example.test/any.zip" {
		t.Errorf("it has %+v, %v", s, err)
	}
	_, err = b.Get(t.Context(), parseID(t, widget+"/3.0.0/linux_amd64"))
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "what is not there")
}

func TestFinish(t *testing.T) {
	const zip = "terraform-provider-widget_1.0.0_linux_amd64.zip"
	for _, tt := range []struct {
		name    string
		arrange func(t *testing.T, d *depot, dir string)
		want    []string // names of documents
		found   int      // number of packages that a client finds
	}{
		{"bare archives", func(t *testing.T, d *depot, dir string) {}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"documents of another program", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, widget, "1.0.0.json"), `{"archives":{"linux_amd64":{"url":"`+zip+`","hashes":["h1:aaaa"]}}}`)
			write(t, filepath.Join(dir, widget, "index.json"), `{"versions":{"1.0.0":{}}}`)
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"removed versions", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, widget, "0.9.0.json"), `{"archives":{}}`)
			write(t, filepath.Join(dir, widget, "index.json"), `{"versions":{"0.9.0":{}}}`)
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"invalid documents", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, widget, "0.9.0.json"), `{`)
			write(t, filepath.Join(dir, widget, "1.0.0.json"), `[]`)
			write(t, filepath.Join(dir, widget, "index.json"), ``)
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"a removed provider", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, "example.test/acme/gadget/index.json"), `{"versions":{"1.0.0":{}}}`)
			write(t, filepath.Join(dir, "example.test/acme/gadget/1.0.0.json"), `{"archives":{"linux_amd64":{"url":"gone.zip"}}}`)
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"unrelated files", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, "src/app/pages/index.json"), `{"title":"home"}`)
			write(t, filepath.Join(dir, "src/app/pages/1.0.0.json"), `{"notes":[]}`)
		}, []string{widget + "/1.0.0.json", widget + "/index.json", "src/app/pages/1.0.0.json", "src/app/pages/index.json"}, 1},
		{"a name in another case", func(t *testing.T, d *depot, dir string) {
			must(t, os.Rename(filepath.Join(dir, widget, zip), filepath.Join(dir, widget, "Terraform-Provider-Widget_1.0.0_Linux_AMD64.ZIP")))
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"a provider in another case", func(t *testing.T, d *depot, dir string) {
			must(t, os.Rename(filepath.Join(dir, "example.test", "acme"), filepath.Join(dir, "example.test", "ACME")))
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"an invalid archive", func(t *testing.T, d *depot, dir string) {
			write(t, filepath.Join(dir, widget, "terraform-provider-widget_2.0.0_linux_amd64.zip"), "junk")
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
		{"a host that is not ASCII", func(t *testing.T, d *depot, dir string) {
			d.world.Add(abroad, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}})
			d.world.WritePacked(dir, abroad+"/*")
		}, []string{
			widget + "/1.0.0.json", widget + "/index.json",
			"xn--80akhbyknj4f.test/acme/widget/1.0.0.json", "xn--80akhbyknj4f.test/acme/widget/index.json",
			abroad + "/1.0.0.json", abroad + "/index.json",
		}, 3},
		{"unpacked packages", func(t *testing.T, d *depot, dir string) {
			d.world.Add("example.test/acme/gadget", "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}})
			d.world.WriteUnpacked(dir, "example.test/acme/gadget/*")
			write(t, filepath.Join(dir, "example.test/acme/gadget/index.json"), `{"versions":{}}`)
		}, []string{widget + "/1.0.0.json", widget + "/index.json"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, dir := newDepot(t, widget+"/1.0.0/linux_amd64"), t.TempDir()
			d.world.WritePacked(dir)
			tt.arrange(t, d, dir)
			d.sync(dir, builder.Options{})
			got := slices.DeleteFunc(files(t, dir), func(name string) bool { return !strings.HasSuffix(name, ".json") })
			sourcetest.EqualSlices(t, got, tt.want, "documents are")
			finds(t, dir, tt.found)
		})
	}
}

// An archive with the same size and modification time, but other contents, is read.
func TestChangedInPlace(t *testing.T) {
	d, dir := synced(t, builder.Options{}, widget+"/1.0.0/linux_amd64", widget+"/1.1.0/linux_amd64")
	archive := filepath.Join(dir, widget, "terraform-provider-widget_1.0.0_linux_amd64.zip")
	info := sourcetest.Must(os.Stat(archive))(t)
	other := sourcetest.ReadFile(t, filepath.Join(dir, widget, "terraform-provider-widget_1.1.0_linux_amd64.zip"))
	other = append(other, make([]byte, max(0, int(info.Size())-len(other)))...)
	must(t, os.WriteFile(archive, other, 0o644))
	must(t, os.Chtimes(archive, info.ModTime(), info.ModTime()))
	for range 2 { // reading it does not record it
		b := open(t, dir, builder.Options{})
		s, err := b.Get(t.Context(), parseID(t, widget+"/1.0.0/linux_amd64"))
		sourcetest.Expect(t, err != nil || s.Differs != "" && s.Report.Verdict == sources.Unverified,
			"it is taken for what was stored: %+v", s)
		_, leftOut, err := b.Index(t.Context(), false, false)
		must(t, err)
		sourcetest.Expect(t, len(leftOut) == 1, "left out of the index: %v, want it", leftOut)
		b.Close()
	}
	d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
	b := open(t, dir, builder.Options{})
	defer b.Close()
	s, err := b.Get(t.Context(), parseID(t, widget+"/1.0.0/linux_amd64"))
	sourcetest.Expect(t, err == nil && s.Differs == "", "it was not replaced: %+v, %v", s, err)
}

// stamps returns the modification times of all files, including those in .larder. It
// omits the lock file, because each process writes to it.
func stamps(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "mirror.lock" {
			return err
		}
		info, err := e.Info()
		all = append(all, fmt.Sprint(path, info.ModTime()))
		return err
	}))
	return all
}

// A lost record costs a rehash, but not the verification of the package.
func TestLostRecords(t *testing.T) {
	_, dir := synced(t, builder.Options{}, widget+"/1.0.0/linux_amd64")
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	for _, damage := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.WriteFile(path, []byte("{"), 0o644) },
		func(path string) error { return os.WriteFile(path, []byte(`{"format":9,"packed":{}}`), 0o644) },
	} {
		must(t, damage(filepath.Join(dir, ".larder", "ledger", "all.json")))
		b := open(t, dir, builder.Options{})
		s, err := b.Get(t.Context(), id)
		sourcetest.Expect(t, err == nil && s.Report.Verdict == sources.MirrorEvidence && s.Signed != nil, "it has %+v, %v", s, err)
		must(t, b.Close())
	}
}

// An unpacked package that is read again still has its signed checksum.
func TestUnpackedPackagesReadAgain(t *testing.T) {
	_, dir := synced(t, builder.Options{Unpacked: true}, widget+"/1.0.0/linux_amd64")
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	b := open(t, dir, builder.Options{Unpacked: true, Paranoid: true})
	defer b.Close()
	s, err := b.Get(t.Context(), id)
	sourcetest.Expect(t, err == nil && s.Report.Verdict == sources.SelfSigned && s.Signed != nil && s.ZH != "",
		"it has %+v, %v", s, err)
	sourcetest.EqualSlices(t, files(t, dir), []string{widget + "/1.0.0/linux_amd64/terraform-provider-widget_v1.0.0"}, "files are")
}

func TestManyAtOnce(t *testing.T) {
	var ids []string
	for v := range 5 {
		for _, platform := range []string{"linux_amd64", "darwin_arm64"} {
			ids = append(ids, fmt.Sprintf("%s/1.%d.0/%s", widget, v, platform))
		}
	}
	d, dir := newDepot(t, ids...), t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			b := open(t, dir, builder.Options{})
			var puts sync.WaitGroup
			for _, text := range slices.Concat(ids, ids) {
				id := parseID(t, text)
				del := d.delivery(id)
				puts.Go(func() {
					_, err := sourcetest.Put(context.Background(), b, id, del)
					sourcetest.Equal(t, err, nil)
				})
			}
			puts.Go(func() { // while they write
				sourcetest.Equal(t, b.Finish(context.Background()), nil)
			})
			puts.Wait()
			sourcetest.Equal(t, errors.Join(b.Finish(context.Background()), b.Close()), nil)
		})
	}
	wg.Wait()
	finds(t, dir, len(ids))
}

// A writer waits for another one only if that stores the same package, and is told who it is. The index then has what
// both have stored.
func TestWritersOfAPackageExcludeEachOther(t *testing.T) {
	t.Parallel()
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/1.0.0/darwin_arm64"}
	one, two := parseID(t, ids[0]), parseID(t, ids[1])
	d, dir := newDepot(t, ids...), t.TempDir()
	first := open(t, dir, builder.Options{})
	_, tx, err := first.Begin(t.Context(), one, sources.ToStore)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var waited sources.PackageID
	second := open(t, dir, builder.Options{Waiting: func(id sources.PackageID, h disk.Holder) {
		sourcetest.Equal(t, h.PID, os.Getpid())
		waited = id
		cancel()
	}})
	_, err = sourcetest.Put(t.Context(), second, two, d.delivery(two))
	must(t, errors.Join(err, second.Finish(t.Context())))
	_, _, err = second.Begin(ctx, one, sources.ToStore)
	sourcetest.Expect(t, errors.Is(err, context.Canceled) && waited == one, "got %v, having waited for %s", err, waited)
	tx.Close()
	unsettled := func() bool { return slices.Contains(files(t, filepath.Join(dir, ".larder")), "unsettled") }
	sourcetest.Expect(t, !unsettled(), "the first one has changed nothing")
	_, err = sourcetest.Put(t.Context(), first, one, d.delivery(one))
	sourcetest.Expect(t, unsettled(), "the change of the first one may be lost")
	must(t, errors.Join(err, second.Finish(t.Context())))
	sourcetest.Expect(t, !unsettled(), "the second one has not finished for both")
	must(t, errors.Join(first.Close(), second.Close()))
	finds(t, dir, 2)
	sourcetest.Expect(t, open(t, dir, builder.Options{ReadOnly: true}).Indexed(one), "it is not in the index")
}

// A process surveys only the providers whose packages it has stored, unless another one has unfinished changes, before
// its own or after them.
func TestFinishStored(t *testing.T) {
	ids := []string{widget + "/1.0.0/linux_amd64", gadget + "/1.0.0/linux_amd64", gadget + "/1.1.0/linux_amd64", gadget + "/1.2.0/linux_amd64"}
	d, dir := newDepot(t, ids...), t.TempDir()
	first, second := open(t, dir, builder.Options{}), open(t, dir, builder.Options{})
	put := func(b *builder.Builder, i int) {
		id := parseID(t, ids[i])
		sourcetest.Must(sourcetest.Put(t.Context(), b, id, d.delivery(id)))(t)
	}
	put(first, 0)
	must(t, first.Finish(t.Context()))
	document := filepath.Join(dir, filepath.FromSlash(widget), "index.json")
	has := func() bool { _, err := os.Stat(document); return err == nil }
	steps := []struct {
		before, after []int // what the second process stores
		whole         bool
	}{{}, {before: []int{2}, whole: true}, {after: []int{3}, whole: true}, {}}
	for i, step := range steps {
		must(t, os.Remove(document))
		for _, other := range step.before {
			put(second, other)
		}
		must(t, os.RemoveAll(filepath.Join(dir, filepath.FromSlash(gadget), "terraform-provider-gadget_1.0.0_linux_amd64.zip")))
		put(first, 1)
		for _, other := range step.after {
			put(second, other)
		}
		must(t, first.FinishStored(t.Context()))
		sourcetest.Equal(t, has(), step.whole, strconv.Itoa(i))
		for _, stored := range slices.Concat([]int{1}, step.before, step.after) {
			sourcetest.Expect(t, first.Indexed(parseID(t, ids[stored])), "step %d: %s is not in the index", i, ids[stored])
		}
		unsettled := slices.Contains(files(t, filepath.Join(dir, ".larder")), "unsettled")
		sourcetest.Expect(t, !unsettled, "step %d is unfinished", i)
		must(t, first.Finish(t.Context()))
	}
	must(t, errors.Join(first.Close(), second.Close()))
}

func TestHostsWithAPort(t *testing.T) {
	sourcetest.SkipOnWindows(t, "names have no colons")
	const ported = "example.test:8443/acme/widget/1.0.0/linux_amd64"
	if err := os.Mkdir(filepath.Join(t.TempDir(), "a:b"), 0o755); err != nil {
		t.Skip(err)
	}
	_, dir := synced(t, builder.Options{}, ported)
	finds(t, dir, 1)
}

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

func TestStore(t *testing.T)         { runStore(t, false) }
func TestUnpackedStore(t *testing.T) { runStore(t, true) }

func runStore(t *testing.T, unpacked bool) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return open(t, dir, builder.Options{Unpacked: unpacked, Judge: sourcetest.Verdicts{}, Warn: func(err error) { t.Log(err) }})
	})
}
