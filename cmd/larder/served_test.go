package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// A servedMirror is a mirror that larder made from a registry, as a directory and behind a web
// server.
type servedMirror struct {
	*machineOnline
	dir string
}

func newServedMirror(t *testing.T, release sourcetest.Release, judge trust.Judge) *servedMirror {
	t.Helper()
	m := &servedMirror{newMachine(t, 0, 0), t.TempDir()}
	release.Platforms = []string{"darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"}
	m.add(widgetDir, release)
	m.options.Judge = judge
	m.world.Mirror.ServeDir(m.dir)
	m.sync()
	return m
}

// sync makes the directory a mirror of what the registry has for two platforms.
func (m *servedMirror) sync() {
	m.t.Helper()
	b, err := builder.Open(m.t.Context(), m.dir, builder.Options{Judge: m.options.Judge})
	m.must(err)
	opts := m.options
	opts.Judge.Require = trust.RequireNothing
	opts.Platforms = append(opts.Platforms, sources.Platform{OS: "darwin", Arch: "arm64"})
	fetcher := installer.NewFetcher(registry.New(m.client, registry.Options{}), b, m.client, opts)
	selected, err := fetcher.Select(m.t.Context(), []installer.Want{{Requirement: sources.Requirement{Provider: m.providers[0]}}}, installer.SelectOptions{})
	m.must(err)
	_, err = fetcher.Fill(m.t.Context(), selected, installer.FillOptions{RequirePlatforms: true})
	m.must(errors.Join(err, b.Finish(m.t.Context()), b.Close()))
}

// installServed installs from the web server with an empty cache. It returns the verdict and the lock file.
func (m *servedMirror) installServed() (sources.Verdict, string, error) {
	m.t.Helper()
	mirror, err := netmirror.New(m.client, "https://mirror.test/providers/", netmirror.Options{})
	m.must(err)
	result, err := m.installFrom(m.t.Context(), mirror, m.base)
	if err != nil {
		return 0, "", err
	}
	return result.Packages[0].Package.Report.Verdict, m.read(lockfile.Name), nil
}

// Whatever a server does to evidence, no package gets a better verdict than its archive
// deserves. Evidence that contradicts the archive ends the installation, where possible
// before the archive is requested.
func TestServedEvidenceThatIsWrong(t *testing.T) {
	const (
		evidenceDir = ".larder/evidence/" + widgetDir + "/1.0.0/"
		document    = widgetDir + "/1.0.0.json"
	)
	other := newServedMirror(t, sourcetest.Release{Signer: sourcetest.Stranger(), Files: map[string]string{"terraform-provider-widget": "evil"}}, trust.Judge{})
	edit := func(m *servedMirror, name string, edit func(string) string) {
		m.write(filepath.Join(m.dir, name), edit(m.read(filepath.Join(m.dir, name))))
	}
	replace := func(m *servedMirror, name string) {
		edit(m, name, func(string) string { return m.read(filepath.Join(other.dir, name)) })
	}
	index := func(m *servedMirror) { // as its owner would who knows nothing of what was there
		m.remove(filepath.Join(m.dir, ".larder", "known"))
		b, err := builder.Open(m.t.Context(), m.dir, builder.Options{Paranoid: true})
		m.must(err)
		m.must(errors.Join(b.Finish(m.t.Context()), b.Close()))
	}
	for _, test := range []struct {
		name     string
		change   func(*servedMirror)
		verdict  sources.Verdict
		err      string // empty if it installs with the verdict
		archives int    // requests
	}{
		{"nothing", func(*servedMirror) {}, sources.SignedByHashiCorp, "", 1},
		{"keys swapped on the server alone", func(m *servedMirror) { replace(m, evidenceDir+"keys.json") }, sources.HashOnly, "", 1},
		{"keys swapped", func(m *servedMirror) { replace(m, evidenceDir+"keys.json"); index(m) }, 0, "signed by the unknown key", 0},
		{"no keys", func(m *servedMirror) {
			edit(m, evidenceDir+"keys.json", func(string) string { return "[]" })
			index(m)
		}, 0, "signed by the unknown key", 0},
		{"signature of another release", func(m *servedMirror) { replace(m, evidenceDir+"SHA256SUMS.sig"); index(m) }, 0, "checking the mirror's signed checksums: checksums: ", 0},
		{"checksums of another release", func(m *servedMirror) { replace(m, evidenceDir+"SHA256SUMS"); index(m) }, 0, "not among the signed checksums", 0},
		{"a line added to the checksums", func(m *servedMirror) {
			edit(m, evidenceDir+"SHA256SUMS", func(s string) string { return s + strings.Repeat("0", 64) + "  x.zip\n" })
			index(m)
		}, 0, "checking the mirror's signed checksums: checksums: ", 0},
		{"another archive, with its own hashes", func(m *servedMirror) {
			replace(m, widgetDir+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			index(m)
		}, 0, "not among the signed checksums", 0},
		{"another archive, with the genuine hashes", func(m *servedMirror) {
			replace(m, widgetDir+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
		}, 0, "not among the signed checksums", 2},
		{"another archive, with the genuine zh: and its own h1:", func(m *servedMirror) {
			h1 := m.read(filepath.Join(other.dir, document))
			h1 = h1[strings.LastIndex(h1, `"h1:`):]
			h1 = h1[:strings.Index(h1, ",")]
			edit(m, document, func(s string) string {
				at := strings.LastIndex(s, `"h1:`)
				return s[:at] + h1 + s[at+strings.Index(s[at:], ","):]
			})
			replace(m, widgetDir+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
		}, 0, "not among the signed checksums", 2},
		{"another archive, with the other publisher's evidence", func(m *servedMirror) {
			for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "keys.json", "origin"} {
				replace(m, evidenceDir+name)
			}
			replace(m, widgetDir+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			replace(m, document)
		}, sources.MirrorEvidence, "", 1},
		{"another archive, with its evidence and the genuine keys", func(m *servedMirror) {
			for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig"} {
				replace(m, evidenceDir+name)
			}
			replace(m, widgetDir+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			index(m)
		}, 0, "signed by the unknown key", 0},
		{"evidence not named", func(m *servedMirror) {
			edit(m, document, func(s string) string { return strings.Replace(s, `"larder"`, `"other"`, 1) })
		}, sources.HashOnly, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newServedMirror(t, sourcetest.Release{}, trust.Judge{Options: trust.Options{HashiCorpKey: sourcetest.Publisher().Fingerprint()}})
			test.change(m)
			m.world.Mirror.Forget()
			verdict, lock, err := m.installServed()
			switch {
			case test.err == "" && (err != nil || verdict != test.verdict):
				t.Errorf("got %s, %v", verdict, err)
			case test.err == "" && test.verdict == sources.HashOnly && strings.Contains(lock, "zh:"):
				t.Errorf("locked %s", lock)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("got %s, %v, want %s", verdict, err, test.err)
			}
			sourcetest.Equal(t, len(m.world.Mirror.Requests(sourcetest.Archive)), test.archives, "archives were requested")
		})
	}
}
