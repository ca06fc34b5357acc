package installer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

func TestChoice(t *testing.T) {
	const offered = "1.0.0 1.5.0 2.0.0 2.1.0-beta1"
	cases := []struct {
		name, offered, constraints, locked string
		upgrade                            bool
		want                               string // a version, or part of an error
		asked                              bool
	}{
		{"newest", offered, "", "", false, "2.0.0", true},
		{"newest that is allowed", offered, "< 2.0.0", "", false, "1.5.0", true},
		{"pre-release by name", offered, "2.1.0-beta1", "", false, "2.1.0-beta1", true},
		{"none is allowed", offered, ">= 3", "", false, `no version matches ">= 3.0.0"`, true},
		{"nothing but a pre-release", "1.0.0-rc1", "", "", false, "only pre-releases are available: 1.0.0-rc1", true},
		{"nothing", "", "", "", false, "no versions are available", true},
		{"locked", offered, "", "1.5.0", false, "1.5.0", true},
		{"locked, to be upgraded", offered, "", "1.5.0", true, "2.0.0", true},
		{"locked and refused", offered, "~> 1.0", "2.0.0", false, `selects 2.0.0, which does not match "~> 1.0"`, false},
		{"locked, refused, to be upgraded", offered, "~> 1.0", "2.0.0", true, "1.5.0", true},
		{"locked and gone", offered, "", "1.2.0", false, "version 1.2.0, which the dependency lock file selects, is no longer available", true},
		{"locked pre-release", offered, "", "2.1.0-beta1", false, "selects 2.1.0-beta1", false},
		{"locked pre-release by name", offered, "2.1.0-beta1", "2.1.0-beta1", false, "2.1.0-beta1", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.source.versions[provider("widget")] = sources.Listing{}
			for _, v := range strings.Fields(c.offered) {
				f.source.add("widget "+v+" linux_amd64", nil)
			}
			f.require("widget", c.constraints)
			if c.locked != "" {
				f.lock("widget " + c.locked)
			}
			f.opts.Upgrade = c.upgrade
			plan, planErr := f.plan()
			result, err := f.install()
			sourcetest.Equal(t, fmt.Sprint(planErr), fmt.Sprint(err), "error of the plan")
			sourcetest.Expect(t, err != nil || plan.Version == result.Packages[0].Package.ID.Version, "planned %s", plan.Version)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = result.Packages[0].Package.ID.Version.String()
			}
			sourcetest.Expect(t, got == c.want || err != nil && strings.Contains(got, c.want), "got %s, want %s", got, c.want)
			sourcetest.Equal(t, len(f.source.asked) > 0, c.asked, "asked", f.source.asked)
		})
	}
}

// Errors have distinct types, and hints.
func TestChoiceErrors(t *testing.T) {
	f := newFixture(t)
	f.require("gadget", "")
	_, err := f.install()
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	sourcetest.Expect(t, slices.Contains(sources.Hints(err), "the provider is required by main.tf:3"),
		"hints %q", sources.Hints(err))

	f = newFixture(t)
	f.source.add("widget 1.0.0 linux_amd64", nil)
	f.require("widget", ">= 2")
	_, err = f.install()
	none, ok := errors.AsType[*installer.NoVersionError](err)
	sourcetest.Expect(t, ok && len(none.Offered) == 1, "no version: got %v", err)
	for i := range 20 { // a hostile source lists many, so the error keeps few
		f.source.add(fmt.Sprintf("widget 1.%d.1 linux_amd64", i), nil)
	}
	_, err = f.install()
	none, ok = errors.AsType[*installer.NoVersionError](err)
	sourcetest.Expect(t, ok && len(none.Offered) == 5 && strings.Contains(err.Error(), "(offered: 1.19.1, 1.18.1, 1.17.1, 1.16.1, 1.15.1 and 16 older)"), "got %v", err)

	f.lock("widget 1.0.0")
	_, err = f.install()
	conflict, ok := errors.AsType[*installer.LockConflictError](err)
	sourcetest.Expect(t, ok && !conflict.Gone, "conflict: got %v", err)
	f.root.Requirements = nil
	f.require("widget", "")
	f.source.versions[provider("widget")] = sources.Listing{}
	_, err = f.install()
	conflict, ok = errors.AsType[*installer.LockConflictError](err)
	sourcetest.Expect(t, ok && conflict.Gone, "gone: got %v", err)

	f = newFixture(t)
	outage := errors.New("no answer")
	f.source.fails[provider("widget")] = outage
	f.require("widget", "")
	_, err = f.install()
	sourcetest.Expect(t, errors.Is(err, outage) && !errors.Is(err, sources.ErrNotFound), "outage: got %v", err)

	f = newFixture(t)
	f.opts.Platforms = []sources.Platform{platform("plan9_arm")}
	f.source.add("widget 1.0.0 linux_amd64", nil)
	f.require("widget", "")
	_, err = f.install()
	pkg, ok := errors.AsType[*sources.PackageError](err)
	sourcetest.Expect(t, ok && errors.Is(err, sources.ErrNoPlatform) && pkg.ID.Platform.OS == "plan9", "no platform: got %v", err)
}

const widget = "widget 1.0.0 linux_amd64"

// The new lock file is the one that the engine would have written.
func TestLocks(t *testing.T) {
	hw, zw, zo := string(h1(widget)), string(zh(widget)), string(zh(other))
	everything := strings.Join(sorted(hw, zw, zo), " ")
	tofu := sources.OpenTofu
	cases := []struct {
		name        string
		engine      sources.Engine
		publish     func(*sources.Package)
		locked      []sources.Hash // nil: no block
		stored      sources.Verdict
		inStore     bool
		engineCache bool
		want        string // the hashes
		left        bool   // the file is unchanged, including out-of-date constraints
	}{
		{name: "unsigned", publish: fromMirror(), want: hw},
		{name: "signed", publish: signed, want: everything},
		{name: "registry without signature", want: hw},
		{name: "mirror with hashes", publish: fromMirror(h1(widget), zh(widget), zh(other)), want: hw},
		{name: "mirror with evidence", publish: evidence, want: everything},
		{name: "tofu: unsigned", engine: tofu, publish: fromMirror(), want: hw},
		{name: "tofu: signed", engine: tofu, publish: signed, want: everything},
		{name: "tofu: mirror with hashes", engine: tofu, publish: fromMirror(h1(widget), zh(other)), want: hw},
		{name: "tofu: mirror with the archive's hash", engine: tofu, publish: fromMirror(h1(widget), zh(widget)), want: hw + " " + zw},

		{name: "locked hashes stay", publish: fromMirror(), locked: []sources.Hash{"h1:old=", zh(widget), "zh:00"}, want: strings.Join(sorted("h1:old=", hw, zw, "zh:00"), " ")},
		{name: "hashes of unknown schemes are removed", publish: fromMirror(), locked: []sources.Hash{"h2:x", zh(widget)}, want: hw + " " + zw},
		{name: "locked without hashes", publish: signed, locked: []sources.Hash{}, want: everything},

		{name: "from the store, signed", inStore: true, stored: sources.SelfSigned, publish: signed, locked: []sources.Hash{h1(widget)}, want: everything},
		{name: "from the store, hash only", inStore: true, stored: sources.HashOnly, publish: signed, locked: []sources.Hash{h1(widget)}, want: hw, left: true},
		{name: "from the engine's cache", inStore: true, stored: sources.SelfSigned, publish: signed, locked: []sources.Hash{h1(widget)}, engineCache: true, want: hw, left: true},
		{name: "from the engine's cache, by archive", inStore: true, stored: sources.SelfSigned, publish: signed, locked: []sources.Hash{zh(widget)}, engineCache: true, want: everything},
		{name: "from the store, nothing locked", inStore: true, stored: sources.SelfSigned, publish: signed, want: everything},
		{name: "from the engine's cache, unknown schemes", inStore: true, publish: signed, locked: []sources.Hash{h1(widget), "h9:x"}, engineCache: true, want: hw},
		{name: "tofu: from the engine's cache, unknown schemes", engine: tofu, inStore: true, publish: signed, locked: []sources.Hash{h1(widget), "h9:x"}, engineCache: true, want: hw + " h9:x", left: true},
		{name: "tofu: from the store", engine: tofu, inStore: true, stored: sources.Unverified, publish: fromMirror(), locked: []sources.Hash{h1(widget)}, want: hw, left: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Judge.Options.Engine, f.opts.EngineCache = c.engine, c.engineCache
			f.source.add(widget, c.publish)
			if c.inStore {
				var evidence *sources.Signed
				if c.stored == sources.SelfSigned {
					evidence = f.source.packages[id(widget)].Signed
				}
				f.store.keep(widget, c.stored, evidence)
			}
			f.require("widget", "~> 1.0")
			if c.locked != nil {
				f.lock("widget 1.0.0", c.locked...)
			}
			want := "widget 1.0.0 (~> 1.0) " + c.want
			if c.left {
				want = "widget 1.0.0 " + c.want
			}
			result := sourcetest.Must(f.install())(t)
			sourcetest.Equal(t, f.locked(), want)
			sourcetest.Expect(t, result.Lock.Written != c.left, "written: %t", result.Lock.Written)
		})
	}
}

func sorted(all ...string) []string {
	slices.Sort(all)
	return all
}

// Fetch requires no root module. If hashes from before are given, the package must
// match one.
func TestFetch(t *testing.T) {
	cases := []struct {
		name    string
		before  []sources.Hash
		stored  bool // already stored
		how     installer.How
		verdict sources.Verdict
		refused bool
	}{
		{name: "nothing known", how: installer.Fetched, verdict: sources.SelfSigned},
		{name: "the same archive", before: []sources.Hash{zh(widget)}, how: installer.Fetched, verdict: sources.SelfSigned},
		{name: "the same contents", before: []sources.Hash{h1(widget), zh("packed otherwise")}, how: installer.Fetched, verdict: sources.SelfSigned},
		{name: "there again", before: []sources.Hash{h1(widget)}, stored: true, how: installer.FromStore, verdict: sources.HashOnly},
		{name: "another archive", before: []sources.Hash{zh("before")}, refused: true},
		{name: "other contents", before: []sources.Hash{h1("before"), zh("before")}, refused: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.source.add(widget, signed)
			if c.stored {
				f.store.keep(widget, sources.HashOnly, nil)
			}
			got, err := installer.New(f.source, f.store, f.source, f.opts).Fetch(t.Context(), id(widget), c.before)
			if c.refused {
				mismatch, ok := errors.AsType[*acquire.HashMismatchError](err)
				sourcetest.Expect(t, ok && mismatch.By != "" && f.store.has() == "", "got %v, and %q is there", err, f.store.has())
				return
			}
			f.must(err)
			sourcetest.Equal(t, fmt.Sprint(got.How, got.Package.Report.Verdict, f.store.has()),
				fmt.Sprint(c.how, c.verdict, widget))
			sourcetest.Equal(t, len(f.store.installed), 0, "linked")
			sourcetest.Expect(t, !strings.Contains(f.source.log(), "versions"), "asked for %s", f.source.log())
		})
	}
	f := newFixture(t)
	_, err := installer.New(f.source, f.store, f.source, f.opts).Fetch(t.Context(), id(widget), nil)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound, "a package in no source")
}

// If a signature is required, local packages must have one too. What was proved about a package
// counts, even if its evidence is lost or damaged since.
func TestRequireSignedOfStoredPackages(t *testing.T) {
	for _, where := range []string{"installed", "in the store"} {
		for what, stored := range map[string]struct {
			verdict  sources.Verdict
			evidence func(*sources.Package)
			suffices bool
		}{
			"key not listed":      {sources.MirrorEvidence, signed, true},
			"self-signed":         {sources.SelfSigned, signed, true},
			"without evidence":    {sources.SelfSigned, func(*sources.Package) {}, true},
			"hash only":           {sources.HashOnly, func(*sources.Package) {}, false},
			"another's evidence":  {sources.SelfSigned, signedFor("gadget 1.0.0 linux_amd64"), false},
			"an older one's":      {sources.SelfSigned, signedFor("widget 0.9.0 linux_amd64"), false},
			"a broken signature":  {sources.SelfSigned, func(p *sources.Package) { signed(p); p.Signed.Signature[20] ^= 1 }, true},
			"other signed hashes": {sources.SelfSigned, func(p *sources.Package) { p.Hashes = []sources.Hash{zh("other")}; signed(p) }, true},
		} {
			f := newFixture(t)
			f.opts.Judge.Require = trust.RequireSigned
			f.source.add(widget, signed)
			p := sources.Package{ID: id(widget), Filename: id(widget).Filename(), Hashes: []sources.Hash{zh(widget)}}
			stored.evidence(&p)
			if p.Signed != nil {
				p.Signed.Keys[0] = p.Signed.Keys[0].AsListed(stored.verdict == sources.SelfSigned)
			}
			f.store.keep(widget, stored.verdict, p.Signed)
			if where == "installed" {
				f.store.installed[f.target()] = f.store.entries[id(widget)]
				delete(f.store.entries, id(widget))
			}
			f.require("widget", "")
			f.lock("widget 1.0.0", h1(widget))
			result := sourcetest.Must(f.install())(t)
			want := sources.SelfSigned
			if stored.suffices {
				want = stored.verdict
			}
			sourcetest.Equal(t, result.Packages[0].Package.Report.Verdict, want, where, what)
			sourcetest.Equal(t, strings.Contains(f.source.log(), "download"), !stored.suffices, where, what)
		}
	}
}

// Sources are not queried for locked packages that are on this machine.
func TestQueriesOnlyForMissingPackages(t *testing.T) {
	cases := []struct {
		name              string
		locked            []sources.Hash
		stored, installed string
		upgrade           bool
		how               installer.How
		asked             string
	}{
		{"installed", []sources.Hash{h1(widget)}, "", widget, false, installer.WasInstalled, ""},
		{"installed, to be upgraded", []sources.Hash{h1(widget)}, "", widget, true, installer.WasInstalled, "versions widget"},
		{"installed, its archive locked", []sources.Hash{zh(widget)}, widget, widget, false, installer.FromStore, ""},
		{"installed, nothing locked", nil, "", widget, false, installer.Fetched, "download https://example.test/example.test/acme/widget/1.0.0/linux_amd64.zip\npackage widget 1.0.0 linux_amd64\nversions widget"},
		{"another package is installed", []sources.Hash{h1(widget)}, widget, "gadget 1.0.0 linux_amd64", false, installer.FromStore, ""},
		{"stored", []sources.Hash{h1(widget)}, widget, "", false, installer.FromStore, ""},
		{"stored, nothing locked", nil, widget, "", false, installer.FromStore, "package widget 1.0.0 linux_amd64\nversions widget"},
		{"nowhere", []sources.Hash{h1(widget)}, "", "", false, installer.Fetched, "download https://example.test/example.test/acme/widget/1.0.0/linux_amd64.zip\npackage widget 1.0.0 linux_amd64\nversions widget"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Upgrade = c.upgrade
			f.source.add(widget, nil)
			if c.stored != "" {
				f.store.keep(c.stored, sources.HashOnly, nil)
			}
			if c.installed != "" {
				f.store.installed[f.target()] = sources.Stored{ID: id(widget), H1: h1(c.installed), ZH: zh(c.installed)}
			}
			f.require("widget", "")
			if c.locked != nil {
				f.lock("widget 1.0.0", c.locked...)
			}
			result := sourcetest.Must(f.install())(t)
			sourcetest.Equal(t, result.Packages[0].How, c.how)
			sourcetest.Equal(t, f.source.log(), c.asked, "asked for")
			sourcetest.Equal(t, f.store.installed[f.target()].H1, h1(widget), "installed is")
		})
	}
}

func (f *fixture) target() string {
	return filepath.Join(f.root.DataDir, "providers", filepath.FromSlash(id(widget).Path()))
}

func TestReadOnlyLock(t *testing.T) {
	cases := []struct {
		name, locked string
		hashes       []sources.Hash
		mode         installer.LockMode
		err, warning string // frozen, the warning is an error, too
	}{
		{"complete", "widget 1.0.0", []sources.Hash{h1(widget)}, "", "", ""},
		{"lacks a hash", "widget 1.0.0", []sources.Hash{zh(widget)}, "", "", "of example.test/acme/widget would change"},
		{"lacks all hashes", "widget 1.0.0", nil, "", "", "of example.test/acme/widget would change"},
		{"has an additional provider", "gadget 1.0.0", nil, "", "example.test/acme/gadget would be removed", ""},
		{"does not exist", "", nil, "", "example.test/acme/widget would be added", ""},
	}
	for _, frozen := range cases {
		frozen.mode, frozen.err, frozen.warning = installer.LockFrozen, frozen.err+frozen.warning, ""
		cases = append(cases, frozen)
	}
	for _, c := range cases {
		t.Run(strings.TrimSpace(c.name+" "+string(c.mode)), func(t *testing.T) {
			f := newFixture(t)
			f.root.LockMode = cmp.Or(c.mode, installer.LockReadOnly)
			f.source.add(widget, nil)
			f.require("widget", "")
			if c.locked != "" {
				f.lock(c.locked, c.hashes...)
			}
			before, _ := os.ReadFile(f.lockPath())
			result, err := f.install()
			changed, refused := errors.AsType[*installer.LockChangedError](err)
			switch {
			case refused != (c.err != "") || !refused && err != nil:
				t.Errorf("got %v", err)
			case refused && !strings.Contains(changed.Change.String(), c.err):
				t.Errorf("got %v, want %s", err, c.err)
			case !strings.Contains(strings.Join(result.Warnings, "\n"), c.warning) || c.warning == "" && len(result.Warnings) > 0:
				t.Errorf("warnings %q, want %s", result.Warnings, c.warning)
			case f.store.installed[f.target()].ID != id(widget):
				t.Error("it is not installed")
			}
			after, _ := os.ReadFile(f.lockPath())
			sourcetest.Expect(t, string(after) == string(before) && !result.Lock.Written, "the lock file is now\n%s", after)
		})
	}
}

// Where an engine runs elsewhere, the store has the packages, and the lock file their hashes.
func TestElsewhere(t *testing.T) {
	f := newFixture(t)
	f.root.Elsewhere = true
	f.source.add(widget, signed)
	f.require("widget", "")
	result := sourcetest.Must(f.install())(t)
	sourcetest.Equal(t, outcome(result), widget+": fetched, self-signed")
	sourcetest.Expect(t, len(f.store.installed) == 0 && strings.Contains(f.store.has(), "widget"), "installed %v, stored\n%s", f.store.installed, f.store.has())
	sourcetest.Expect(t, strings.Contains(f.locked(), string(h1(widget))), "locked is\n%s", f.locked())

	f.root.Lock, _ = lockfile.Read(result.Lock.Path)
	result = sourcetest.Must(f.install())(t)
	sourcetest.Equal(t, outcome(result), widget+": already installed, self-signed")
}

func TestCancel(t *testing.T) {
	f := newFixture(t)
	f.opts.Slots = acquire.NewSlots(1)
	f.source.wait = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	f.opts.Report = func(e acquire.Event) {
		if e.Step == acquire.Fetching {
			cancel()
		}
	}
	f.source.add(widget, nil)
	f.source.add("gadget 1.0.0 linux_amd64", nil)
	f.require("widget", "")
	f.require("gadget", "")
	result, err := installer.New(f.source, f.store, f.source, f.opts).Install(ctx, f.root)
	sourcetest.ErrorIs(t, err, context.Canceled)
	sourcetest.Equal(t, outcome(result)+f.locked()+f.store.has(), "", "installed, locked and stored")
}

// An archive that changes while it is read is refused.
func TestLocalArchiveThatChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "widget.zip")
	f := newFixture(t)
	f.must(os.WriteFile(file, []byte(widget), 0o644))
	f.source.add(widget, func(p *sources.Package) {
		p.Kind, p.Hashes, p.Location = sources.FromFilesystem, nil, sources.Location{Archive: file}
	})
	f.opts.Report = func(e acquire.Event) {
		if e.Step == acquire.Verified {
			f.must(os.WriteFile(file, []byte(widget+"!"), 0o644))
		}
	}
	f.require("widget", "")
	_, err := f.install()
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "changed while it was read"), "got %v", err)
	sourcetest.Equal(t, f.store.has(), "", "it is stored all the same")
}

// A local archive that is too large for a package is not read.
func TestLocalArchiveThatIsTooLarge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "widget.zip")
	for _, dryRun := range []bool{false, true} {
		f := newFixture(t)
		f.must(os.WriteFile(file, nil, 0o644))
		f.must(os.Truncate(file, 1<<43)) // sparse; reading it would take an hour
		f.source.add(widget, func(p *sources.Package) {
			p.Kind, p.Hashes, p.Location = sources.FromFilesystem, nil, sources.Location{Archive: file}
		})
		f.store.entries[id(widget)] = sources.Stored{ID: id(widget), ZH: zh(widget)}
		f.root.DryRun = dryRun
		f.require("widget", "")
		_, err := f.install()
		sourcetest.Expect(t, errors.Is(err, archive.ErrLimit) && strings.Contains(err.Error(), file),
			"dry run %t: got %v", dryRun, err)
	}
}

// Warnings of sources are reported.
func TestWarnings(t *testing.T) {
	f := newFixture(t)
	f.source.add(widget, func(p *sources.Package) { p.Warnings = []string{"about the package"} })
	f.source.versions[provider("widget")] = sources.Listing{
		Versions: f.source.versions[provider("widget")].Versions, Warnings: []string{"about the provider"},
	}
	f.require("widget", "")
	sourcetest.Must(f.install())(t)
	sourcetest.EqualSlices(t, f.warnings(), []string{"about the provider", "about the package"})
}

// OpenTofu accepts the hashes of its own registry without a signature if there are no
// keys, unless signatures are enforced.
func TestLocksHashesFromOpenTofuRegistry(t *testing.T) {
	tofu := must(sources.ParseProvider("acme/widget", sources.OpenTofu))
	pid := sources.PackageID{Provider: tofu, Version: id(widget).Version, Platform: id(widget).Platform}
	own := []string{string(h1(widget)), string(zh(widget))}
	cases := []struct {
		name             string
		kind             sources.Kind
		engine           sources.Engine
		listed, enforced bool // SHA256SUMS; signatures
		want             []string
	}{
		{"offered", sources.FromRegistry, sources.OpenTofu, false, false, append(own, "h1:offered=")},
		{"offered and listed", sources.FromRegistry, sources.OpenTofu, true, false, append(own, "h1:offered=", string(zh(other)))},
		{"listed by a mirror", sources.FromFilesystem, sources.OpenTofu, true, false, append(own, "h1:offered=")},
		{"enforced", sources.FromRegistry, sources.OpenTofu, false, true, own},
		{"enforced, without keys", sources.FromRegistry, sources.OpenTofu, true, true, nil},
		{"to terraform", sources.FromRegistry, sources.Terraform, false, false, own[:1]},
		{"to terraform, without keys", sources.FromRegistry, sources.Terraform, true, false, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Judge.Options = trust.Options{Engine: c.engine, EnforceGPGValidation: c.enforced}
			f.source.versions[tofu] = sources.Listing{Versions: []sources.Version{pid.Version}}
			f.source.archives["u"] = widget
			pkg := sources.Package{
				ID: pid, Kind: c.kind, Location: sources.Location{URL: "u"}, Filename: "widget.zip",
				Hashes: []sources.Hash{zh(widget)}, Offered: []sources.Hash{"h1:offered="},
			}
			if c.listed {
				signed(&pkg)
				pkg.Signed.Keys = nil
			}
			f.source.packages[pid] = pkg
			f.root.Requirements = []sources.Requirement{{Provider: tofu}}
			_, err := f.install()
			if c.want == nil {
				sourcetest.Expect(t, err != nil && f.locked() == "", "got %v, locked %s", err, f.locked())
				return
			}
			f.must(err)
			sourcetest.Equal(t, f.locked(), "widget 1.0.0 "+strings.Join(sorted(slices.Clone(c.want)...), " "))
		})
	}
}

// A swappedStore is a store in which another program changes packages for a while,
// between verification and linking.
type swappedStore struct {
	*fakeStore
	until time.Time
}

func (s swappedStore) Workdir(_, providers string) sources.Workdir {
	return swappedWorkdir{fakeWorkdir{s.fakeStore, providers}, s.until}
}

type swappedWorkdir struct {
	fakeWorkdir
	until time.Time
}

func (w swappedWorkdir) Link(ctx context.Context, s sources.Stored) (sources.LinkMode, error) {
	if time.Now().Before(w.until) {
		return "", sources.ErrSwapped
	}
	return w.fakeWorkdir.Link(ctx, s)
}

// Terraform may take a while to unpack over packages in a cache, and several
// processes even longer. Larder waits for them, but not forever.
func TestWaitsWhilePackagesChange(t *testing.T) {
	for _, c := range []struct {
		lasts time.Duration
		fails bool
	}{{20 * time.Second, false}, {time.Hour, true}} {
		f := newFixture(t)
		f.source.add("widget 1.0.0 linux_amd64", nil)
		f.require("widget", "")
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			store := swappedStore{f.store, begun.Add(c.lasts)}
			_, err := installer.New(f.source, store, f.source, f.opts).Install(t.Context(), f.root)
			if !c.fails {
				sourcetest.Check(t, err)
				return
			}
			sourcetest.ErrorIs(t, err, sources.ErrSwapped)
			sourcetest.Expect(t, time.Since(begun) < time.Minute, "it took %s", time.Since(begun))
			hints := strings.Join(sources.Hints(err), "\n")
			sourcetest.Expect(t, strings.Contains(hints, "terraform init"), "hints: %s", hints)
		})
	}
}

const mac = "widget 1.0.0 darwin_arm64"

// releaseForTwo creates a signed release for two platforms. The recorded archive for
// the other one is was, with evidence if evident is set.
func releaseForTwo(t *testing.T, was sources.Hash, evident bool) *fixture {
	f := newFixture(t)
	f.source.add(widget, func(p *sources.Package) {
		p.Signed = evidenceBy(sourcetest.Publisher(), p.Filename, p.Hashes[0], "other.zip", zh(other), id(mac).Filename(), zh(mac))
	})
	before := sources.Stored{ID: id(mac), H1: h1("before"), ZH: was}
	if evident {
		p := sources.Package{Filename: id(mac).Filename(), Hashes: []sources.Hash{cmp.Or(was, zh(mac))}}
		signed(&p)
		before.Signed = p.Signed
	}
	f.store.known[id(mac)] = before
	f.require("widget", "")
	return f
}

// A package of a republished release is refused also if the store has it, in a dry run, and while locking.
func TestRepublishedForAnotherPlatformElsewhere(t *testing.T) {
	for _, dryRun := range []bool{false, true} {
		f := releaseForTwo(t, zh("another"), true)
		f.root.DryRun = dryRun
		f.store.keep(widget, sources.HashOnly, nil)
		_, err := f.install()
		sourcetest.Expect(t, err != nil, "installed; dry run %t", dryRun)
	}
	f := releaseForTwo(t, zh("another"), true)
	f.store.known[id(widget)] = sources.Stored{ID: id(widget), H1: h1(widget), ZH: zh(widget), Proof: sources.Proof{Matched: true}}
	_, err := f.locker().Lock(t.Context(), f.root)
	sourcetest.Expect(t, err != nil, "locked")
}
