package main

import (
	"errors"
	"path/filepath"
	"regexp"
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
	want := []installer.Want{{Requirement: sources.Requirement{Provider: m.providers[0]}}}
	selected, err := fetcher.Select(m.t.Context(), want, installer.SelectOptions{})
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
		evidence        = ".larder/evidence/" + widgetDir + "/1.0.0/"
		archive         = widgetDir + "/terraform-provider-widget_1.0.0_linux_amd64.zip"
		document        = widgetDir + "/1.0.0.json"
		keys, signature = evidence + "keys.json", evidence + "SHA256SUMS.sig"
		sums, origin    = evidence + "SHA256SUMS", evidence + "origin"

		unknownKey, unsigned = "signed by the unknown key", "not among the signed checksums"
		badSums              = "checking the mirror's signed checksums: checksums: "
	)
	evil := map[string]string{"terraform-provider-widget": "evil"}
	other := newServedMirror(t, sourcetest.Release{Signer: sourcetest.Stranger(), Files: evil}, trust.Judge{})
	type steps []func(*servedMirror)
	edit := func(name string, edit func(string) string) func(*servedMirror) {
		return func(m *servedMirror) { m.write(filepath.Join(m.dir, name), edit(m.read(filepath.Join(m.dir, name)))) }
	}
	replace := func(name string) func(*servedMirror) {
		return edit(name, func(string) string { return other.read(filepath.Join(other.dir, name)) })
	}
	index := func(m *servedMirror) { // as its owner would who knows nothing of what was there
		m.remove(filepath.Join(m.dir, ".larder", "known"))
		b, err := builder.Open(m.t.Context(), m.dir, builder.Options{Paranoid: true})
		m.must(err)
		m.must(errors.Join(b.Finish(m.t.Context()), b.Close()))
	}
	h1 := regexp.MustCompile(`(?s)(.*)("h1:[^,]*)`) // the last one, of linux_amd64
	itsH1 := h1.FindStringSubmatch(other.read(filepath.Join(other.dir, document)))[2]
	noKeys := edit(keys, func(string) string { return "[]" })
	longer := edit(sums, func(s string) string { return s + strings.Repeat("0", 64) + "  x.zip\n" })
	ownH1 := edit(document, func(s string) string { return h1.ReplaceAllString(s, "${1}"+itsH1) })
	unnamed := edit(document, func(s string) string { return strings.Replace(s, `"larder"`, `"other"`, 1) })
	its := steps{replace(sums), replace(signature), replace(keys), replace(origin), replace(archive), replace(document)}
	for _, test := range []struct {
		name     string
		changes  steps
		verdict  sources.Verdict
		err      string // empty if it installs with the verdict
		archives int    // requests
	}{
		{"nothing", nil, sources.SignedByHashiCorp, "", 1},
		{"keys swapped on the server alone", steps{replace(keys)}, sources.HashOnly, "", 1},
		{"keys swapped", steps{replace(keys), index}, 0, unknownKey, 0},
		{"no keys", steps{noKeys, index}, 0, unknownKey, 0},
		{"signature of another release", steps{replace(signature), index}, 0, badSums, 0},
		{"checksums of another release", steps{replace(sums), index}, 0, unsigned, 0},
		{"a line added to the checksums", steps{longer, index}, 0, badSums, 0},
		{"another archive, with its own hashes", steps{replace(archive), index}, 0, unsigned, 0},
		{"another archive, with the genuine hashes", steps{replace(archive)}, 0, unsigned, 2},
		{"another archive, with the genuine zh: and its own h1:", steps{ownH1, replace(archive)}, 0, unsigned, 2},
		{"another archive, with the other publisher's evidence", its, sources.MirrorEvidence, "", 1},
		{
			"another archive, with its evidence and the genuine keys",
			steps{replace(sums), replace(signature), replace(archive), index}, 0, unknownKey, 0,
		},
		{"evidence not named", steps{unnamed}, sources.HashOnly, "", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			judge := trust.Judge{Options: trust.Options{HashiCorpKey: sourcetest.Publisher().Fingerprint()}}
			m := newServedMirror(t, sourcetest.Release{}, judge)
			for _, change := range test.changes {
				change(m)
			}
			m.world.Mirror.Forget()
			verdict, lock, err := m.installServed()
			if test.err == "" {
				sourcetest.Expect(t, err == nil && verdict == test.verdict, "got %s, %v", verdict, err)
				sourcetest.Expect(t, verdict != sources.HashOnly || !strings.Contains(lock, "zh:"), "locked %s", lock)
			} else {
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.err), "got %s, %v", verdict, err)
			}
			sourcetest.Equal(t, len(m.world.Mirror.Requests(sourcetest.Archive)), test.archives, "archives were requested")
		})
	}
}
