package installer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

const (
	onLinux  = "widget 1.0.0 linux_amd64"
	onDarwin = "widget 1.0.0 darwin_arm64"
)

// newLedgerFixture has a package for two platforms, which root requires.
func newLedgerFixture(t *testing.T, edit func(*sources.Package)) *fixture {
	f := newFixture(t)
	f.opts.Platforms = []sources.Platform{platform("linux_amd64"), platform("darwin_arm64")}
	f.source.add(onLinux, edit)
	f.source.add(onDarwin, edit)
	f.require("widget", "")
	return f
}

func (f *fixture) locker() *installer.Locker {
	return &installer.Locker{Installer: installer.New(f.source, f.store, f.source, f.opts)}
}

// remember records the package for Linux in the store, as if from its source.
func (f *fixture) remember(verdict sources.Verdict, evidence *sources.Signed) {
	f.store.known[id(onLinux)] = sources.Stored{
		ID: id(onLinux), H1: h1(onLinux), ZH: zh(onLinux), Proof: proven(id(onLinux), verdict), Signed: evidence,
		Origin: f.source.packages[id(onLinux)].Location.URL, Since: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC),
	}
}

func signedPackage(f *fixture) *sources.Signed {
	p := f.source.packages[id(onLinux)]
	signed(&p)
	return p.Signed
}

// The origin of a package's hashes determines the locked hashes.
func TestLockerHashes(t *testing.T) {
	linux := []sources.Hash{h1(onLinux), zh(onLinux)}
	asked, fetched := "package "+onLinux, "download https://example.test/"+id(onLinux).Path()+".zip\n"
	for _, c := range []struct {
		name   string
		engine sources.Engine
		signed trust.Requirement
		edit   func(*sources.Package)
		prior  func(*fixture)
		how    installer.How
		asked  string
		locked []sources.Hash
	}{
		{name: "fetched, unsigned", how: installer.Fetched, asked: fetched + asked, locked: linux[:1]},
		{name: "fetched, unsigned, for tofu", engine: sources.OpenTofu, how: installer.Fetched, asked: fetched + asked, locked: linux},
		{name: "fetched, signed", edit: signed, how: installer.Fetched, asked: fetched + asked, locked: append(linux, zh(other))},
		{name: "recorded with evidence", prior: func(f *fixture) { f.remember(sources.SelfSigned, signedPackage(f)) },
			how: installer.Remembered, locked: append(linux, zh(other))},
		{name: "recorded without evidence", prior: func(f *fixture) { f.remember(sources.HashOnly, nil) },
			how: installer.Remembered, asked: asked, locked: linux[:1]},
		{name: "recorded without evidence, now signed", edit: signed, prior: func(f *fixture) { f.remember(sources.HashOnly, nil) },
			how: installer.Remembered, asked: asked, locked: append(linux, zh(other))},
		{name: "recorded from a mirror that states no hashes", edit: fromMirror(), prior: func(f *fixture) { f.remember(sources.Unverified, nil) },
			how: installer.Remembered, asked: asked, locked: linux[:1]},
		{name: "recorded, with a signature required", signed: trust.RequireSigned, edit: signed, prior: func(f *fixture) { f.remember(sources.HashOnly, nil) },
			how: installer.Fetched, asked: fetched + asked, locked: append(linux, zh(other))},
		{name: "stated, not sufficient for terraform", edit: stated, how: installer.Fetched, asked: fetched + asked, locked: linux[:1]},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Judge.Options.Engine, f.opts.Judge.Require = c.engine, c.signed
			f.source.add(onLinux, c.edit)
			f.require("widget", "")
			f.lock("widget 1.0.0")
			if c.prior != nil {
				c.prior(f)
			}
			result, err := f.locker().Lock(t.Context(), f.root)
			f.must(err)
			sourcetest.Equal(t, result.Packages[0].How, c.how)
			sourcetest.Equal(t, f.source.log(), c.asked, "asked for")
			sourcetest.Equal(t, f.locked(), lockedAs(c.locked...), "locked")
			sourcetest.Equal(t, f.store.has(), "", "kept")
		})
	}
}

// stated makes the registry state the hashes of the package and of another one.
func stated(p *sources.Package) {
	p.Stated = "h1:stated="
	p.Offered = []sources.Hash{p.Stated, "h1:elsewhere="}
}

// lockedAs returns the result of fixture.locked for the package with the hashes.
func lockedAs(hashes ...sources.Hash) string {
	e := []lockfile.Entry{{Provider: provider("widget"), Version: id(onLinux).Version, Hashes: hashes}}
	text, _ := new(lockfile.File).Update(e, sources.Terraform)
	var words []string
	for _, line := range strings.Split(string(text), "\n") {
		if h, ok := strings.CutPrefix(line, "    \""); ok {
			words = append(words, strings.TrimSuffix(h, "\","))
		}
	}
	return strings.Join(append([]string{"widget 1.0.0"}, words...), " ")
}

// Unsigned hashes are accepted from OpenTofu's registry only, for OpenTofu only, and
// only if no others are recorded.
func TestLockerAcceptsHashesOfRegistry(t *testing.T) {
	const address = "registry.opentofu.org/acme/widget"
	for _, c := range []struct {
		require    trust.Requirement
		remembered sources.Hash
		how        installer.How // empty if it is refused
	}{
		{how: installer.Stated},
		{require: trust.RequireSigned},
		{remembered: "h1:before="},
	} {
		f := newFixture(t)
		f.opts.Judge.Options.Engine, f.opts.Judge.Require = sources.OpenTofu, c.require
		p := must(sources.ParseProvider(address, sources.OpenTofu))
		pkg := sources.Package{
			ID:       sources.PackageID{Provider: p, Version: id(onLinux).Version, Platform: platform("linux_amd64")},
			Location: sources.Location{URL: "https://example.test/widget.zip"}, Filename: "widget.zip",
			Source: "registry", Kind: sources.FromRegistry, Hashes: []sources.Hash{zh(onLinux)},
		}
		stated(&pkg)
		f.source.packages[pkg.ID] = pkg
		f.source.versions[p] = sources.Listing{Versions: []sources.Version{pkg.ID.Version}}
		f.root.Requirements = []sources.Requirement{{Provider: p}}
		f.source.archives[pkg.Location.URL] = onLinux
		if c.remembered != "" {
			f.store.known[pkg.ID] = sources.Stored{ID: pkg.ID, H1: c.remembered}
		}
		result, err := f.locker().Lock(t.Context(), f.root)
		if c.how == "" {
			sourcetest.Expect(t, err != nil && republished(err) == (c.require == trust.RequireNothing), "%+v: got %v", c, err)
			continue
		}
		f.must(err)
		sourcetest.Equal(t, result.Packages[0].How, c.how)
		sourcetest.Equal(t, f.locked(), fmt.Sprintf("widget 1.0.0 h1:elsewhere= h1:stated= %s", zh(onLinux)), "locked")
	}
}

// A package is queried and fetched once, however many root modules require it.
func TestLockerFetchesOnce(t *testing.T) {
	f := newLedgerFixture(t, signed)
	locker := f.locker()
	var wg sync.WaitGroup
	roots := make([]installer.Root, 20)
	for i := range roots {
		roots[i] = f.root
		roots[i].Dir = filepath.Join(f.root.Dir, fmt.Sprint(i))
		f.must(os.Mkdir(roots[i].Dir, 0o755))
		wg.Go(func() {
			_, err := locker.Lock(t.Context(), roots[i])
			sourcetest.Equal(t, err, nil)
		})
	}
	wg.Wait()
	for _, once := range []string{"package " + onLinux, "download https://example.test/" + id(onDarwin).Path() + ".zip"} {
		sourcetest.Equal(t, strings.Count(f.source.log(), once), 1, once)
	}
	for _, root := range roots[1:] {
		f.root = root
		sourcetest.Equal(t, f.locked(), lockedAs(h1(onLinux), h1(onDarwin), zh(onLinux), zh(onDarwin), zh(other)), "locked")
	}
}

// The store keeps packages for the platforms in Keep.
func TestLockerKeepsPackages(t *testing.T) {
	f := newLedgerFixture(t, signed)
	locker := f.locker()
	locker.Keep = []sources.Platform{platform("darwin_arm64")}
	_, err := locker.Lock(t.Context(), f.root)
	f.must(err)
	sourcetest.Equal(t, f.store.has(), onDarwin, "kept")
}

// The locked hashes and the stored package must match.
func TestLockerContradictions(t *testing.T) {
	foreign := zh("another release")
	for _, c := range []struct {
		name   string
		engine sources.Engine
		edit   func(*sources.Package)
		locked []sources.Hash
		want   []sources.Hash // after locking; nil if it is refused
	}{
		{name: "a hash of each", edit: signed, locked: []sources.Hash{zh(onLinux)},
			want: []sources.Hash{h1(onLinux), h1(onDarwin), zh(onLinux), zh(onDarwin), zh(other)}},
		{name: "another archive", edit: signed, locked: []sources.Hash{foreign}},
		{name: "another archive in a mirror", edit: fromMirror(), locked: []sources.Hash{foreign}},
		{name: "other contents, of an unknown platform", edit: fromMirror(), locked: []sources.Hash{"h1:other="},
			want: []sources.Hash{h1(onLinux), h1(onDarwin), "h1:other="}},
		{name: "other locked hashes stay", edit: signed, locked: []sources.Hash{zh(other), foreign, "h9:x"},
			want: []sources.Hash{h1(onLinux), h1(onDarwin), zh(onLinux), zh(onDarwin), zh(other), foreign, "h9:x"}},
		{name: "only the archive of another platform", edit: fromMirror(), locked: []sources.Hash{h1(onLinux), zh(onLinux)},
			want: []sources.Hash{h1(onLinux), h1(onDarwin), zh(onLinux)}},
		{name: "the archive of another platform, and an unknown one", edit: fromMirror(), locked: []sources.Hash{zh(onLinux), foreign}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newLedgerFixture(t, c.edit)
			f.lock("widget 1.0.0", c.locked...)
			before := f.locked()
			_, err := f.locker().Lock(t.Context(), f.root)
			if c.want == nil {
				mismatch, ok := errors.AsType[*acquire.HashMismatchError](err)
				sourcetest.Expect(t, ok && mismatch.By != "", "got %v", err)
				sourcetest.Equal(t, f.locked(), before, "locked")
				return
			}
			f.must(err)
			sourcetest.Equal(t, f.locked(), lockedAs(c.want...), "locked")
		})
	}
}

// A republished release is reported and not recorded.
func TestLockerRefusesRepublished(t *testing.T) {
	f := newLedgerFixture(t, signed)
	f.remember(sources.SelfSigned, nil)
	was := f.store.known[id(onLinux)]
	p := f.source.packages[id(onLinux)]
	p.Hashes = []sources.Hash{zh("republished")}
	key := sourcetest.Stranger()
	sums := fmt.Appendf(nil, "%s  %s\n", strings.TrimPrefix(string(zh("republished")), "zh:"), p.Filename)
	p.Signed = &sources.Signed{Sums: sums, Signature: key.Sign(sums), Keys: []sources.Key{{Armor: key.Armor()}}}
	f.source.packages[id(onLinux)] = p
	f.source.archives[p.Location.URL] = "republished"

	_, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.Expect(t, republished(err) && strings.Contains(err.Error(), key.ID()), "got %v", err)
	sourcetest.Equal(t, f.store.known[id(onLinux)].H1, was.H1, "remembered")
	sourcetest.Equal(t, f.locked(), "")
}

// If a record cannot be read, the package may have changed, and is refused.
func TestLockerRequiresReadableRecords(t *testing.T) {
	f := newLedgerFixture(t, signed)
	f.store.recallErr = &fs.PathError{Op: "read", Path: "record", Err: syscall.EIO}
	_, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.ErrorIs(t, err, syscall.EIO)
	sourcetest.Equal(t, f.locked(), "")
}

// If a lock file has the hashes of the republished release, it is accepted for that
// file, and refused for others.
func TestLockerAcceptsLockedRepublished(t *testing.T) {
	f := newLedgerFixture(t, nil)
	f.remember(sources.HashOnly, nil)
	known := f.store.known[id(onLinux)]
	known.H1, known.ZH = "h1:before=", zh("before")
	f.store.known[id(onLinux)] = known
	locker := f.locker()
	_, err := locker.Lock(t.Context(), f.root)
	sourcetest.Expect(t, republished(err), "nothing is locked: %v", err)
	f.lock("widget 1.0.0", zh(onLinux), zh(onDarwin))
	_, err = locker.Lock(t.Context(), f.root)
	f.must(err)
	sourcetest.Equal(t, f.locked(), lockedAs(h1(onLinux), h1(onDarwin), zh(onLinux), zh(onDarwin)), "locked")
}

// Offline, the error lists all missing packages and the places that require them.
func TestLockerOffline(t *testing.T) {
	for missing, locked := range map[string]bool{"linux_amd64 darwin_arm64": false, "darwin_arm64": true} {
		f := newLedgerFixture(t, signed)
		f.source.offline = true
		if locked {
			f.lock("widget 1.0.0")
			f.remember(sources.SelfSigned, signedPackage(f))
		}
		_, err := f.locker().Lock(t.Context(), f.root)
		sourcetest.Equal(t, len(sources.Hints(err)) > 0, true, "hints")
		for _, p := range f.opts.Platforms {
			sourcetest.Equal(t, strings.Contains(err.Error(), p.String()), strings.Contains(missing, p.String()), missing, err)
		}
	}
}

func republished(err error) bool {
	_, ok := errors.AsType[*acquire.RepublishedError](err)
	return ok
}
