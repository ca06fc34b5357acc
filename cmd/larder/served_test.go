package main

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// A servedMirror is a mirror that larder made from a registry, as a directory and behind a web
// server.
type servedMirror struct {
	*testing.T
	world  *sourcetest.World
	client *fetch.Client
	dir    string
	opts   installer.Options
}

const servedProvider = "example.test/acme/widget"

func newServedMirror(t *testing.T, release sourcetest.Release, opts installer.Options) *servedMirror {
	t.Helper()
	w := sourcetest.New(t)
	m := &servedMirror{T: t, world: w, client: fetch.New(fetch.Options{Transport: w.Client().Transport}), dir: t.TempDir(), opts: opts}
	release.Platforms = []string{"darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"}
	w.Add(servedProvider, "1.0.0", release)
	w.Mirror.ServeDir(m.dir)
	m.sync(m.registry(), m.dir)
	return m
}

func (m *servedMirror) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *servedMirror) provider() sources.Provider {
	p, err := sources.ParseProvider(servedProvider, sources.Terraform)
	m.must(err)
	return p
}

func (m *servedMirror) registry() sources.Source { return registry.New(m.client, registry.Options{}) }

func (m *servedMirror) network() sources.Source {
	mirror, err := netmirror.New(m.client, "https://mirror.test/providers/", netmirror.Options{})
	m.must(err)
	return sources.NewMulti([]sources.Method{{Source: mirror}})
}

// sync makes dir a mirror of what a source has for two platforms.
func (m *servedMirror) sync(from sources.Source, dir string) {
	m.Helper()
	b, err := builder.Open(m.Context(), dir, builder.Options{Judge: m.opts.Judge})
	m.must(err)
	opts := m.opts
	opts.Judge.Require = trust.RequireNothing
	opts.Platforms = []sources.Platform{{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}}
	fetcher := installer.NewFetcher(from, b, m.client, opts)
	selected, err := fetcher.Select(m.Context(), []installer.Want{{Requirement: sources.Requirement{Provider: m.provider()}}}, installer.SelectOptions{})
	m.must(err)
	_, err = fetcher.Fill(m.Context(), selected, installer.FillOptions{RequirePlatforms: true})
	m.must(errors.Join(err, b.Finish(m.Context()), b.Close()))
}

// install installs from a source with an empty cache. It returns the verdict and the
// lock file.
func (m *servedMirror) install(from sources.Source) (sources.Verdict, string, error) {
	m.Helper()
	dir := m.TempDir()
	cache, err := cachedir.Open(filepath.Join(dir, "cache"), cachedir.Options{Judge: m.opts.Judge})
	m.must(err)
	defer cache.Close()
	opts := m.opts
	opts.Platforms = []sources.Platform{{OS: "linux", Arch: "amd64"}}
	result, err := installer.New(from, cache, m.client, opts).Install(m.Context(), installer.Root{
		Dir: dir, DataDir: filepath.Join(dir, ".terraform"), Lock: &lockfile.File{},
		Requirements: []sources.Requirement{{Provider: m.provider()}},
	})
	if err != nil {
		return 0, "", err
	}
	lock, err := os.ReadFile(filepath.Join(dir, lockfile.Name))
	m.must(err)
	return result.Packages[0].Package.Report.Verdict, string(lock), nil
}

// fingerprint returns the fingerprint of a test's key, a packet of less than 192 bytes.
func fingerprint(k *sourcetest.Key) sources.Fingerprint {
	packet := k.Binary()
	body := packet[2 : 2+int(packet[1])]
	return sources.Fingerprint(fmt.Sprintf("%X", sha1.Sum(append([]byte{0x99, 0, byte(len(body))}, body...))))
}

// Whatever a server does to evidence, no package gets a better verdict than its archive
// deserves. Evidence that contradicts the archive ends the installation, where possible
// before the archive is requested.
func TestServedEvidenceThatIsWrong(t *testing.T) {
	const (
		evidenceDir = ".larder/evidence/" + servedProvider + "/1.0.0/"
		document    = servedProvider + "/1.0.0.json"
	)
	other := newServedMirror(t, sourcetest.Release{Signer: sourcetest.Stranger(), Files: map[string]string{"terraform-provider-widget": "evil"}}, installer.Options{})
	edit := func(m *servedMirror, name string, edit func(string) string) {
		data, err := os.ReadFile(filepath.Join(m.dir, name))
		m.must(err)
		m.must(os.WriteFile(filepath.Join(m.dir, name), []byte(edit(string(data))), 0o644))
	}
	replace := func(m *servedMirror, name string) {
		edit(m, name, func(string) string {
			data, err := os.ReadFile(filepath.Join(other.dir, name))
			m.must(err)
			return string(data)
		})
	}
	index := func(m *servedMirror) { // as its owner would who knows nothing of what was there
		m.must(os.RemoveAll(filepath.Join(m.dir, ".larder", "known")))
		b, err := builder.Open(m.Context(), m.dir, builder.Options{Paranoid: true})
		m.must(err)
		m.must(errors.Join(b.Finish(m.Context()), b.Close()))
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
			replace(m, servedProvider+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			index(m)
		}, 0, "not among the signed checksums", 0},
		{"another archive, with the genuine hashes", func(m *servedMirror) {
			replace(m, servedProvider+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
		}, 0, "not among the signed checksums", 2},
		{"another archive, with the genuine zh: and its own h1:", func(m *servedMirror) {
			data, err := os.ReadFile(filepath.Join(other.dir, document))
			m.must(err)
			h1 := string(data[strings.LastIndex(string(data), `"h1:`):])
			h1 = h1[:strings.Index(h1, ",")]
			edit(m, document, func(s string) string {
				at := strings.LastIndex(s, `"h1:`)
				return s[:at] + h1 + s[at+strings.Index(s[at:], ","):]
			})
			replace(m, servedProvider+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
		}, 0, "not among the signed checksums", 2},
		{"another archive, with the other publisher's evidence", func(m *servedMirror) {
			for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "keys.json", "origin"} {
				replace(m, evidenceDir+name)
			}
			replace(m, servedProvider+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			replace(m, document)
		}, sources.MirrorEvidence, "", 1},
		{"another archive, with its evidence and the genuine keys", func(m *servedMirror) {
			for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig"} {
				replace(m, evidenceDir+name)
			}
			replace(m, servedProvider+"/terraform-provider-widget_1.0.0_linux_amd64.zip")
			index(m)
		}, 0, "signed by the unknown key", 0},
		{"evidence not named", func(m *servedMirror) {
			edit(m, document, func(s string) string { return strings.Replace(s, `"larder"`, `"other"`, 1) })
		}, sources.HashOnly, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newServedMirror(t, sourcetest.Release{}, installer.Options{Options: acquire.Options{Judge: trust.Judge{Options: trust.Options{HashiCorpKey: fingerprint(sourcetest.Publisher())}}}})
			test.change(m)
			m.world.Mirror.Forget()
			verdict, lock, err := m.install(m.network())
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
