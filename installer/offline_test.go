package installer_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// Offline, the newest verified version on this machine is chosen.
func TestChooseOffline(t *testing.T) {
	for _, c := range []struct {
		name        string
		here        string // WHERE TYPE VERSION OS_ARCH VERDICT[!]; "!" is a damaged package
		constraints string
		locked      string // version; the run is then an upgrade
		platforms   string
		want        string // version; empty if there is none
		says        string // part of the warning or the error
	}{
		{"the newest", "stored 1.0.0 linux_amd64 self-signed; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0, the newest verified version on this machine; --offline: fake may have newer ones"},
		{"by version, not by text", "stored 1.9.0 linux_amd64 self-signed; stored 1.10.0 linux_amd64 hash only", "", "", "", "1.10.0", ""},
		{"the constraints", "stored 1.2.0 linux_amd64 self-signed; stored 2.0.0 linux_amd64 self-signed", "~> 1.0", "", "", "1.2.0", `this machine that "~> 1.0" allows; --offline`},
		{"unverified", "stored 1.2.0 linux_amd64 hash only; stored 9.0.0 linux_amd64 unverified", "", "", "", "1.2.0", "; skipped 9.0.0 (unverified); --offline"},
		{"damaged", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0 linux_amd64 self-signed !", "", "", "", "1.2.0", "skipped 1.3.0 (damaged)"},
		{"another platform", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0 darwin_arm64 self-signed", "", "", "", "1.2.0", "skipped 1.3.0 (not for linux_amd64)"},
		{"every platform", "stored 1.2.0 linux_amd64 self-signed; stored 1.2.0 darwin_arm64 self-signed; stored 1.3.0 linux_amd64 self-signed", "", "", "linux_amd64 darwin_arm64", "1.2.0", "skipped 1.3.0 (not for darwin_arm64)"},
		{"a pre-release", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0-rc1 linux_amd64 self-signed", "", "", "", "1.2.0", ""},
		{"a pre-release by name", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0-rc1 linux_amd64 self-signed", "1.3.0-rc1", "", "", "1.3.0-rc1", ""},
		{"never 0.0.0", "stored 0.0.0 linux_amd64 self-signed", "", "", "", "", "this machine has 0.0.0 (not allowed)"},
		{"installed", "installed 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0"},
		{"installed, but unverified", "installed 1.3.0 linux_amd64 unverified; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "skipped 1.3.0 (unverified)"},
		{"installed and damaged, stored and whole", "installed 1.2.0 linux_amd64 self-signed !; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0, the newest verified version on this machine; --offline"},
		{"nothing", "", "~> 1.0", "", "", "", `no version is locked, and choosing a version that matches "~> 1.0" needs the network (--offline)`},
		{"nothing that fits", "stored 1.2.0 linux_amd64 unverified; stored 2.0.0 linux_amd64 self-signed; installed 1.1.0 darwin_arm64 self-signed", "~> 1.0", "", "", "", "this machine has 2.0.0 (not allowed), 1.2.0 (unverified), 1.1.0 (not for linux_amd64)"},
		{"many", many(12), "", "", "", "", "1.3.0 (unverified) and 2 older"},
		{"an upgrade", "stored 1.2.0 linux_amd64 self-signed", "", "1.1.0", "", "1.2.0", "chose 1.2.0"},
		{"no downgrade", "stored 1.2.0 linux_amd64 self-signed", "", "1.3.0", "", "", "widget 1.3.0 linux_amd64 is not on this machine"},
		{"a locked version that is not allowed", "stored 1.2.0 linux_amd64 self-signed", "~> 1.0", "2.3.0", "", "1.2.0", "chose 1.2.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.source.offline = true
			f.require("widget", c.constraints)
			for what := range strings.SplitSeq(c.here, "; ") {
				if what != "" {
					f.put(what)
				}
			}
			if c.locked != "" {
				f.lock("widget " + c.locked)
				f.opts.Upgrade = true
			}
			if c.platforms != "" {
				f.opts.Platforms = nil
				for p := range strings.FieldsSeq(c.platforms) {
					f.opts.Platforms = append(f.opts.Platforms, platform(p))
				}
			}
			result, err := f.install()
			if c.want == "" {
				sourcetest.Require(t, err != nil, "chose %s", outcome(result))
				sourcetest.Expect(t, strings.Contains(err.Error(), c.says), "failed: %v", err)
				return
			}
			f.must(err)
			for _, o := range result.Packages {
				sourcetest.Expect(t, o.Package.ID.Version.String() == c.want && o.Offline, "got %+v", o)
			}
			sourcetest.Expect(t, strings.HasPrefix(f.locked(), "widget "+c.want), "locked %s", f.locked())
			warnings := f.warnings()
			sourcetest.Expect(t, len(warnings) == 1 && strings.Contains(warnings[0], c.says), "warned %q", warnings)
			sourcetest.Expect(t, !strings.Contains(f.source.log(), "package"), "asked %s", f.source.log())
		})
	}
}

// A required signature is required offline, too.
func TestChooseOfflineSigned(t *testing.T) {
	f := newFixture(t)
	f.source.offline, f.opts.Judge.Require = true, trust.RequireSigned
	f.require("widget", "")
	f.put("stored 1.2.0 linux_amd64 hash only")
	_, err := f.install()
	f.failsWith(err, "this machine has 1.2.0 (not signed as required)")
	signed := id("widget 1.1.0 linux_amd64")
	f.source.add("widget 1.1.0 linux_amd64", signedAsPublished)
	f.store.entries[signed] = sources.Stored{
		ID: signed, Dir: "somewhere", H1: h1("widget"), ZH: f.source.packages[signed].Hashes[0],
		Signed: f.source.packages[signed].Signed,
	}
	result, err := f.install()
	f.must(err)
	sourcetest.Equal(t, outcome(result), "widget 1.1.0 linux_amd64: from the cache, self-signed")

	f.root.Lock, f.opts.Judge.Require = &lockfile.File{}, trust.RequireNothing
	delete(f.store.entries, id("widget 1.2.0 linux_amd64"))
	clear(f.store.installed)
	f.opts.Judge.Options.Policy = &policy.Policy{Rules: []policy.Rule{{Setting: policy.TrustedKeys, Layer: policy.User, Keys: []sources.TrustedKeys{{Providers: sources.Pattern{Host: "*", Namespace: "*", Type: "*"}, Keys: []sources.Fingerprint{"0123456789ABCDEF0123456789ABCDEF01234567"}}}}}}
	_, err = f.install()
	f.failsWith(err, "this machine has 1.1.0 (signed by ")
}

// signedAsPublished signs a package with a key that its registry listed.
func signedAsPublished(p *sources.Package) {
	signed(p)
	for i, key := range p.Signed.Keys {
		p.Signed.Keys[i] = key.AsListed(true)
	}
}

// many returns stored packages of versions 1.1.0 to 1.N.0.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("stored 1.%d.0 linux_amd64 unverified", i+1))
	}
	return strings.Join(all, "; ")
}

// put puts a package into the store or the working directory: WHERE VERSION OS_ARCH VERDICT[ !].
func (f *fixture) put(what string) {
	f.t.Helper()
	where, rest, _ := strings.Cut(what, " ")
	version, rest, _ := strings.Cut(rest, " ")
	platform, verdict, _ := strings.Cut(rest, " ")
	verdict, damaged := strings.CutSuffix(verdict, " !")
	id := id("widget " + version + " " + platform)
	s := sources.Stored{ID: id, Dir: "somewhere", H1: h1(fmt.Sprint(id))}
	index := slices.Index(sources.Texts(sourcetest.AllVerdicts), verdict)
	sourcetest.Require(f.t, index >= 0, "unknown verdict %q", verdict)
	s.Proof = proven(id, sourcetest.AllVerdicts[index])
	if damaged {
		s.Differs = h1("before")
	}
	if where == "installed" {
		f.store.installed[filepath.Join(f.root.DataDir, "providers", filepath.FromSlash(id.Path()))] = s
		return
	}
	f.store.entries[id] = s
}

// warnings returns the texts of all warnings.
func (f *fixture) warnings() []string { return f.told(acquire.Warned) }

// told returns the texts of the events of a step.
func (f *fixture) told(step acquire.Step) (all []string) {
	for _, e := range f.events {
		if e.Step == step {
			all = append(all, e.Text)
		}
	}
	return all
}

// A selection for the cache follows the same rules, for any number of versions.
func TestSelectOffline(t *testing.T) {
	f := newFixture(t)
	f.source.offline = true
	for _, what := range []string{"stored 1.0.0 linux_amd64 hash only", "stored 1.1.0 linux_amd64 unverified", "stored 1.2.0 linux_amd64 self-signed", "stored 1.3.0 linux_amd64 self-signed"} {
		f.put(what)
	}
	for _, c := range []struct {
		opts installer.SelectOptions
		want string
	}{
		{installer.SelectOptions{}, "widget 1.3.0 linux_amd64"},
		{installer.SelectOptions{Newest: 2}, "widget 1.2.0 linux_amd64, widget 1.3.0 linux_amd64"},
		{installer.SelectOptions{All: true}, "widget 1.0.0 linux_amd64, widget 1.2.0 linux_amd64, widget 1.3.0 linux_amd64"},
	} {
		in := f.installer()
		selected, err := in.Select(t.Context(), []installer.Want{want("main.tf", "widget")}, c.opts)
		f.must(err)
		sourcetest.Equal(t, selection(selected), c.want)
		filled, err := in.Fill(t.Context(), selected, installer.FillOptions{})
		f.must(err)
		for _, got := range filled {
			sourcetest.Expect(t, got.Outcome.How == installer.FromStore && got.Outcome.Offline, "got %+v", got)
		}
	}
}
