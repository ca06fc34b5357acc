package installer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
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
			result := sourcetest.Must(f.locker().Lock(t.Context(), f.root))(t)
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
	sourcetest.Must(locker.Lock(t.Context(), f.root))(t)
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
	signWith(key, &p, p.Filename)
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
	sourcetest.Must(locker.Lock(t.Context(), f.root))(t)
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

const (
	onWindows = "widget 1.0.0 windows_amd64"
	onPlan9   = "widget 1.0.0 plan9_386"
)

// signedAll signs the archives of these packages together as the publisher.
func signedAll(packages ...string) func(*sources.Package) {
	return func(p *sources.Package) {
		var files []any
		for _, text := range packages {
			files = append(files, id(text).Filename(), zh(text))
		}
		p.Signed = evidenceBy(sourcetest.Publisher(), files...)
	}
}

// newUnknownFixture has a package for three platforms, and signed checksums for a
// fourth, which the registry lacks. The root module requires it, and is locked on
// Linux.
func newUnknownFixture(t *testing.T) *fixture {
	f := newFixture(t)
	edit := signedAll(onLinux, onDarwin, onWindows, onPlan9)
	for _, text := range []string{onLinux, onDarwin, onWindows} {
		f.source.add(text, edit)
	}
	f.require("widget", "")
	return f
}

func (f *fixture) evidence() *sources.Signed {
	var p sources.Package
	signedAll(onLinux, onDarwin, onWindows, onPlan9)(&p)
	return p.Signed
}

// foreignArchive and foreignContents are invented hashes.
const foreignContents = sources.Hash("h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")

var foreignArchive = zh("invented")

// unknown returns "LINE HASH" and the properties of each unknown hash.
func unknown(r *installer.Result) string {
	names := map[sources.Hash]string{
		foreignContents: "contents", foreignArchive: "archive", h1(onDarwin): "darwin", h1(onWindows): "windows",
	}
	var all []string
	for _, u := range r.Unknown {
		text := fmt.Sprintf("%d %s", u.Line, names[u.Hash])
		if u.Refused {
			text += " refused"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestUnknownHashes(t *testing.T) {
	h := func(hashes ...sources.Hash) []sources.Hash { return hashes }
	genuine := h(h1(onLinux), zh(onLinux), zh(onDarwin), zh(onWindows), zh(onPlan9))
	with := func(more ...sources.Hash) []sources.Hash { return slices.Concat(genuine, more) }
	remembered := func(text string, verdict sources.Verdict, signed bool) func(*fixture) {
		return func(f *fixture) {
			known := sources.Stored{ID: id(text), H1: h1(text), ZH: zh(text), Proof: proven(id(text), verdict)}
			if signed {
				known.Signed = f.evidence()
			}
			f.store.known[id(text)] = known
		}
	}
	onLinuxKnown := remembered(onLinux, sources.SelfSigned, true)
	fromRegistry := "download linux_amd64, package linux_amd64"
	for _, c := range []struct {
		name   string
		locked []sources.Hash // on lines from 5 on
		prior  func(*fixture)
		strict bool
		want   string
		asked  string
	}{
		{name: "complete and genuine", locked: genuine, asked: fromRegistry},
		{name: "only from the cache", locked: genuine, prior: onLinuxKnown},
		{name: "invented", locked: with(foreignContents, foreignArchive), want: "11 archive", asked: fromRegistry},
		{name: "invented, only from the cache", locked: with(foreignContents, foreignArchive), prior: onLinuxKnown, want: "11 archive"},
		{name: "altered", locked: h(h1(onLinux), zh(onLinux), foreignArchive), prior: onLinuxKnown, want: "7 archive"},
		{name: "twice in the file", locked: with(foreignArchive, foreignArchive), prior: onLinuxKnown, want: "10 archive"},
		{name: "genuine, of another platform", locked: with(h1(onDarwin)), prior: onLinuxKnown},
		{name: "unknown schemes", locked: with("h9:x", "zz:"), prior: onLinuxKnown},
		{name: "strict, invented", locked: with(foreignContents, foreignArchive), strict: true, want: "10 contents, 11 archive", asked: fromRegistry},
		{name: "strict, of another platform", locked: with(h1(onDarwin)), prior: onLinuxKnown, strict: true, want: "10 darwin"},
		{name: "strict, of another recorded platform", locked: with(h1(onDarwin), foreignContents), strict: true, want: "11 contents", prior: func(f *fixture) {
			onLinuxKnown(f)
			remembered(onDarwin, sources.SelfSigned, true)(f)
		}},
		{name: "strict, of another platform that was only imported", locked: with(h1(onDarwin)), strict: true, want: "10 darwin", prior: func(f *fixture) {
			onLinuxKnown(f)
			remembered(onDarwin, sources.HashOnly, false)(f)
		}},

		{name: "no signed checksums are known", locked: with(foreignContents), asked: fromRegistry, prior: func(f *fixture) {
			for pid, p := range f.source.packages {
				fromMirror(h1(onLinux))(&p)
				p.Signed = nil
				f.source.packages[pid] = p
			}
		}},
		{name: "signed checksums in the store", locked: with(foreignArchive), want: "10 archive", asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, onLinux)
			f.kept = f.evidence()
		}},
		{name: "signed checksums in the store, altered", locked: with(foreignArchive), asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, onLinux)
			f.kept = f.evidence()
			f.kept.Sums = append(f.kept.Sums, "# altered\n"...)
		}},
		{name: "signed checksums in the store, of other archives", locked: h(h1(onLinux), zh(onDarwin), zh("repacked"), foreignArchive), asked: fromRegistry, prior: func(f *fixture) {
			unsigned(f, "repacked")
			f.kept = f.evidence()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newUnknownFixture(t)
			f.lock("widget 1.0.0", c.locked...)
			if c.prior != nil {
				c.prior(f)
			}
			if f.kept != nil {
				f.store.evidence = map[sources.Version]*sources.Signed{id(onLinux).Version: f.kept}
			}
			locker := &installer.Locker{Installer: installer.New(f.source, f.store, f.source, f.opts), Strict: c.strict}
			result := sourcetest.Must(locker.Lock(t.Context(), f.root))(t)
			sourcetest.Equal(t, unknown(result), c.want, "unknown")
			sourcetest.Equal(t, asked(f), c.asked, "asked for")
			want := slices.Sorted(slices.Values(append(c.locked, result.Lock.Entries[0].Hashes...)))
			lock, ds := lockfile.Read(f.lockPath())
			f.must(ds.Err())
			now, _ := lock.Entry(provider("widget"))
			slices.Sort(now.Hashes)
			sourcetest.EqualSlices(t, slices.Compact(now.Hashes), slices.Compact(want), "locked")
		})
	}
}

// unsigned offers the package for Linux in a mirror without signed checksums, with
// the text as its archive.
func unsigned(f *fixture, text string) {
	p := f.source.packages[id(onLinux)]
	fromMirror(zh(text))(&p)
	p.Signed = nil
	f.source.packages[id(onLinux)] = p
	f.source.archives[p.Location.URL] = text
}

// asked returns the requests, by platform.
func asked(f *fixture) string {
	var all []string
	for _, line := range f.source.asked {
		line = strings.TrimSuffix(strings.Replace(line, "https://example.test/", "", 1), ".zip")
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '/' })
		all = append(all, words[0]+" "+words[len(words)-1])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// The unknown hashes of a refused lock file are reported too.
func TestUnknownHashesOfARefusedProvider(t *testing.T) {
	f := newUnknownFixture(t)
	f.lock("widget 1.0.0", foreignContents, foreignArchive)
	result, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.Expect(t, err != nil, "not refused")
	sourcetest.Equal(t, unknown(result), "6 archive refused")
}

// An upgrade locks the new version for the platforms of the old one's h1: hashes, as far
// as these can be told without fetching packages.
func TestUpgradeKeepsPlatforms(t *testing.T) {
	const newLinux, newDarwin = "widget 1.1.0 linux_amd64", "widget 1.1.0 darwin_arm64"
	stated := func(p *sources.Package) { // as network mirrors do
		p.Kind = sources.FromNetwork
		p.Hashes = append(p.Hashes, h1("widget "+p.ID.Version.String()+" "+p.ID.Platform.String()))
	}
	for _, c := range []struct {
		name  string
		edit  func(*sources.Package)
		had   []sources.Hash
		known string // package with a record
		lacks string // package that the source lacks
		want  []sources.Hash
		warns string
	}{
		{"recorded", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, onDarwin, "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"stated by a mirror", stated, []sources.Hash{h1(onLinux), h1(onDarwin)}, "", "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"fetched", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, "", "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"of no package", signed, []sources.Hash{h1(onLinux), h1("nothing")}, "", "", []sources.Hash{h1(newLinux)}, "of 1.0.0 for platforms that are unknown here (1); to lock 1.1.0 for those, name each with --platform"},
		{"as many as requested", signed, []sources.Hash{h1(onLinux)}, "", "", []sources.Hash{h1(newLinux)}, ""},
		{"another platform than the requested one", signed, []sources.Hash{h1(onDarwin)}, onDarwin, "", []sources.Hash{h1(newLinux), h1(newDarwin)}, ""},
		{"no longer there", signed, []sources.Hash{h1(onLinux), h1(onDarwin)}, onDarwin, newDarwin, []sources.Hash{h1(newLinux)}, "a hash of 1.0.0 for darwin_arm64, but none of 1.1.0: there is no such package"},
		{"no signed checksums", nil, []sources.Hash{zh(onLinux), zh(onDarwin)}, "", "", []sources.Hash{h1(newLinux)}, "there are no signed checksums of 1.1.0"},
		{"no hashes", signed, nil, "", "", []sources.Hash{h1(newLinux)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newLedgerFixture(t, c.edit)
			f.source.add(newLinux, c.edit)
			f.source.add(newDarwin, c.edit)
			f.opts.Upgrade, f.opts.Platforms = true, f.opts.Platforms[:1]
			f.lock("widget 1.0.0", c.had...)
			if c.known != "" {
				f.store.known[id(c.known)] = sources.Stored{ID: id(c.known), H1: h1(c.known), Proof: sources.Proof{Matched: true}}
			}
			if c.lacks != "" {
				delete(f.source.packages, id(c.lacks))
			}
			sourcetest.Must(f.locker().Lock(t.Context(), f.root))(t)
			var got []sources.Hash
			for _, word := range strings.Fields(f.locked()) {
				if h := sources.Hash(word); h.Scheme() == sources.H1 {
					got = append(got, h)
				}
			}
			sourcetest.EqualSlices(t, got, sources.SortHashes(c.want), f.locked())
			all := strings.Join(f.warnings(), "\n")
			sourcetest.Expect(t, strings.Contains(all, c.warns) && (c.warns != "" || all == ""), "warned %q", all)
		})
	}
}

const wanted = "widget 1.0.0 linux_amd64"

// A bundled package is one in a bundle.
type bundled struct {
	sources.Package
	sources.Payload
}

// inBundle returns a package in a bundle, with an archive of this text and valid evidence.
func inBundle(text string) bundled {
	p := sources.Package{ID: id(wanted), Hashes: []sources.Hash{zh(text)}, Filename: "widget.zip", Source: "bundle.tar", Kind: sources.FromFilesystem}
	signed(&p)
	return bundled{p, sources.Payload{Arriving: strings.NewReader(text)}}
}

func (b bundled) into(f *fixture) (installer.Outcome, error) {
	return installer.New(nil, f.store, nil, f.opts).Import(f.t.Context(), b.Package, b.Payload, nil)
}

// A package in a bundle is verified like that of a mirror.
func TestImport(t *testing.T) {
	mine := sources.Stored{ID: id(wanted), H1: h1(wanted), ZH: zh(wanted), Filename: "widget.zip", Proof: sources.Proof{Matched: true}}
	for _, test := range []struct {
		name  string
		known func(*sources.Stored)
		edit  func(*bundled)
		want  string // verdict, or the error
	}{
		{"signed", nil, nil, "signed, key from the mirror"},
		{"not signed", nil, func(b *bundled) { b.Signed = nil }, "hash only"},
		{"evidence is forged", nil, func(b *bundled) { b.Signed.Signature = []byte("forged") }, "bad signature"},
		{"evidence is for others", nil, func(b *bundled) { b.Signed = inBundle("another").Signed }, "not among the signed checksums"},
		{"known", func(*sources.Stored) {}, nil, "signed, key from the mirror"},
		{"another is known", func(s *sources.Stored) { s.H1, s.ZH = h1("another"), zh("another") }, nil, "republished"},
		{"other contents of the same archive", func(s *sources.Stored) { s.H1 = h1("another") }, nil, "as verified before"},
		{"damaged", nil, func(b *bundled) { b.Arriving = strings.NewReader("another") }, "should be zh:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			if test.known != nil {
				known := mine
				test.known(&known)
				f.store.known[id(wanted)] = known
			}
			from := inBundle(wanted)
			if test.edit != nil {
				test.edit(&from)
			}
			foreseen := installer.New(nil, f.store, nil, f.opts).Foresee(t.Context(), from.Package, zh(wanted), nil)
			o, err := from.into(f)
			if err != nil {
				sourcetest.Expect(t, strings.Contains(err.Error(), test.want) && f.store.has() == "",
					"got %v, stored %s", err, f.store.has())
				return
			}
			sourcetest.Equal(t, o.Package.Report.Verdict.String(), test.want)
			sourcetest.Equal(t, foreseen.Report.Verdict.String(), test.want)
			sourcetest.Equal(t, string(o.How)+o.Package.Origin, string(installer.Imported)+"bundle.tar")
		})
	}
}

func TestImportKeepsStoredPackage(t *testing.T) {
	f := newFixture(t)
	f.store.keep(wanted, sources.SelfSigned, nil)
	from := inBundle(wanted)
	from.Arriving = iotest.ErrReader(errors.New("read"))
	o, err := from.into(f)
	sourcetest.Expect(t, err == nil && o.How == installer.WasStored && o.Package.Report.Verdict == sources.SelfSigned,
		"got %+v, %v", o, err)
}
