package legacy_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

const linux = "the program"

var here = legacy.Options{Prefix: "example.com/acme", Platform: sources.Platform{OS: "linux", Arch: "amd64"}}

// write creates files below a new directory. A file with the suffix ".zip" is an
// archive of the files in its contents, one NAME=CONTENTS on each line.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, ".zip") && strings.Contains(content, "=") {
			content = pack(t, content)
		}
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func pack(t *testing.T, lines string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for line := range strings.SplitSeq(lines, "\n") {
		name, content, _ := strings.Cut(line, "=")
		out := sourcetest.Must(w.Create(name))(t)
		sourcetest.Must(io.WriteString(out, content))(t)
	}
	check(t, w.Close())
	return b.String()
}

func find(t *testing.T, opts legacy.Options, paths ...string) legacy.Findings {
	t.Helper()
	return sourcetest.Must(legacy.Find(t.Context(), paths, opts))(t)
}

// told describes the findings, with paths below dir.
func told(dir string, f legacy.Findings) string {
	var b strings.Builder
	for _, c := range f.Candidates {
		fmt.Fprintf(&b, "%s: %s %s\n", c.ID, c.Kind, c.Path)
	}
	for _, p := range f.Skipped {
		fmt.Fprintf(&b, "%s\n", p)
	}
	for _, err := range f.Warnings {
		fmt.Fprintf(&b, "warning: %v\n", err)
	}
	for _, err := range f.Problems {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return strings.ReplaceAll(filepath.ToSlash(b.String()), filepath.ToSlash(dir)+"/", "")
}

func as(t *testing.T, version string) *sources.Release {
	t.Helper()
	p, v := sourcetest.Address(t, "example.com/acme/foo"), sourcetest.Number(t, version)
	return &sources.Release{Provider: p, Version: v}
}

func TestFind(t *testing.T) {
	ours := legacy.Options{Prefix: "example.com/acme"}
	for _, tt := range []struct {
		what  string
		files map[string]string
		opts  legacy.Options
		want  string
	}{
		{"Terraform 0.12", map[string]string{
			"linux_amd64/terraform-provider-foo_v1.2.0": "script", "darwin_arm64/terraform-provider-foo_v1.2.0_x4": "script",
		}, ours, `
example.com/acme/foo 1.2.0 darwin_arm64: executable darwin_arm64/terraform-provider-foo_v1.2.0_x4
example.com/acme/foo 1.2.0 linux_amd64: executable linux_amd64/terraform-provider-foo_v1.2.0
`},
		{"what the path doesn't say", map[string]string{
			"linux_amd64/terraform-provider-foo_v1.2.0": "", "my_plugins/terraform-provider-foo_v1.2.0": "", "terraform-provider-foo": "",
		}, legacy.Options{}, `
error: linux_amd64/terraform-provider-foo_v1.2.0: its path doesn't contain its namespace
error: my_plugins/terraform-provider-foo_v1.2.0: its path doesn't contain its namespace
error: terraform-provider-foo: its path doesn't contain its address, version
`},
		{"of a given platform", map[string]string{"terraform-provider-foo_v1.2": "script", "linux_amd64/terraform-provider-bar_v1.2.0": ""},
			legacy.Options{Prefix: "example.com/acme", Platform: sources.Platform{OS: "linux", Arch: "arm"}}, `
example.com/acme/foo 1.2.0 linux_arm: executable terraform-provider-foo_v1.2
error: linux_amd64/terraform-provider-bar_v1.2.0: according to its path, it is for linux_amd64, not linux_arm
`},
		{"wrong names", map[string]string{
			"linux_arm/terraform-provider-b_v1.2.3.4": "", "linux_arm/terraform-provider-c_v0.0": "", "linux_arm/Terraform-Provider-Foo_v1.2.0": "",
			"linux_arm/terraform-provider-d_e_v1.0.0": "", "linux_arm/terraform-provider-f--g_v1.0.0": "",
		}, ours, `
error: linux_arm/Terraform-Provider-Foo_v1.2.0: engines would not find example.com/acme/foo in a file of this name
error: linux_arm/terraform-provider-b_v1.2.3.4: version "1.2.3.4" has more than three numbers
error: linux_arm/terraform-provider-c_v0.0: terraform and tofu never choose version 0.0.0
error: linux_arm/terraform-provider-d_e_v1.0.0: type "d_e": addresses cannot contain underscores
error: linux_arm/terraform-provider-f--g_v1.0.0: provider source "example.com/acme/f--g": type "f--g": may not contain two dashes in a row
`},
		{"the same twice", map[string]string{"a/linux_amd64/terraform-provider-foo_v1.2.0": "", "b/linux_amd64/terraform-provider-foo_v1.2.0_x5": ""}, ours, `
example.com/acme/foo 1.2.0 linux_amd64: executable a/linux_amd64/terraform-provider-foo_v1.2.0
skipped b/linux_amd64/terraform-provider-foo_v1.2.0_x5: it would be example.com/acme/foo 1.2.0 linux_amd64, like a/linux_amd64/terraform-provider-foo_v1.2.0, which was found first
`},
		{"not a provider", map[string]string{"LICENSE": "", "a/terraform-provisioner-foo_v1.0.0": "", "b.zip": "no zip", "c.zip": "a=b"}, ours, `
skipped LICENSE: it does not have the name of a provider
skipped a/terraform-provisioner-foo_v1.0.0: it does not have the name of a provider
skipped b.zip: it does not have the name of a provider
skipped c.zip: it does not have the name of a provider
`},
		{"mirrors", map[string]string{
			"m/example.com/acme/foo/1.2.0/linux_amd64/terraform-provider-foo":        "script",
			"m/example.com/acme/bar/terraform-provider-bar_1.0.0_linux_amd64.zip":    "terraform-provider-bar=script",
			"m/.larder/evidence/example.com/acme/bar/1.0.0/terraform-provider-x_v1":  "",
			"m/example.com/acme/bar/terraform-provider-odd_1.0.0_linux_amd64.zip":    "terraform-provider-odd=script",
			"m/registry.terraform.io/-/baz/1.2.0/linux_amd64/terraform-provider-baz": "script",
			"build-1.2/linux/amd64/terraform-provider-qux_v1.2.0":                    "script",
		}, here, `
example.com/acme/qux 1.2.0 linux_amd64: executable build-1.2/linux/amd64/terraform-provider-qux_v1.2.0
skipped m/example.com/acme/bar: it is in the layout of a mirror, and needs no import
skipped m/example.com/acme/foo: it is in the layout of a mirror, and needs no import
skipped m/registry.terraform.io/-/baz: it is in the layout of a mirror, and needs no import
`},
		{"archives", map[string]string{
			"terraform-provider-foo_1.0.0_linux_arm64.zip": "terraform-provider-foo_v1.0.0_x5=script\nREADME.md=text",
			"terraform-provider-bar_1.0.0_linux_arm64.zip": "terraform-provider-other=script",
			"terraform-provider-bad_1.0.0_linux_arm64.zip": "no zip",
			"terraform-provider-up_1.0.0_linux_arm64.zip":  "../terraform-provider-up=script",
		}, ours, `
example.com/acme/foo 1.0.0 linux_arm64: archive terraform-provider-foo_1.0.0_linux_arm64.zip
error: terraform-provider-bad_1.0.0_linux_arm64.zip: reading the archive's directory: zip: not a valid zip file
error: terraform-provider-bar_1.0.0_linux_arm64.zip: no executable in it is named terraform-provider-bar, terraform-provider-bar_… or terraform-provider-bar.…
error: terraform-provider-up_1.0.0_linux_arm64.zip: "../terraform-provider-up": name has a ".." element
`},
		{"with an explicit identity", map[string]string{"linux_amd64/terraform-provider-foo_v1.0": "script", "windows_386/terraform-provider-foo_v1.0": "script"},
			legacy.Options{As: as(t, "1.0.1")}, `
example.com/acme/foo 1.0.1 linux_amd64: executable linux_amd64/terraform-provider-foo_v1.0
example.com/acme/foo 1.0.1 windows_386: executable windows_386/terraform-provider-foo_v1.0
`},
		{"with another type than the name", map[string]string{
			"terraform-provider-bar_1.0.0_linux_arm64.zip": "terraform-provider-foo=script", "linux_amd64/terraform-provider-foo_bar_v1.0.0": "",
		}, legacy.Options{As: as(t, "1.0.1")}, `
example.com/acme/foo 1.0.1 linux_amd64: executable linux_amd64/terraform-provider-foo_bar_v1.0.0
example.com/acme/foo 1.0.1 linux_arm64: archive terraform-provider-bar_1.0.0_linux_arm64.zip
warning: linux_amd64/terraform-provider-foo_bar_v1.0.0: its name is that of the provider type "foo_bar", and --as has "foo"
warning: terraform-provider-bar_1.0.0_linux_arm64.zip: its name is that of the provider type "bar", and --as has "foo"
`},
	} {
		t.Run(tt.what, func(t *testing.T) {
			dir := write(t, tt.files)
			sourcetest.Equal(t, told(dir, find(t, tt.opts, dir)), tt.want[1:])
		})
	}
}

// Of the same package, the first is used, by the order of the paths. A file that is given is a package, or an error.
func TestGivenPaths(t *testing.T) {
	dir := write(t, map[string]string{
		"b/terraform-provider-foo_v1.0.0": linux, "a/terraform-provider-foo_v1.0.0": linux, "plugin": linux,
		"a.zip": "terraform-provider-foo=" + linux,
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	sourcetest.Equal(t, told(dir, find(t, here, in("b"), in("a"), in("plugin"))), `
example.com/acme/foo 1.0.0 linux_amd64: executable b/terraform-provider-foo_v1.0.0
skipped a/terraform-provider-foo_v1.0.0: it would be example.com/acme/foo 1.0.0 linux_amd64, like b/terraform-provider-foo_v1.0.0, which was found first
error: plugin: its name contains no provider
`[1:])
	opts := legacy.Options{As: as(t, "1.0.0"), Platform: here.Platform}
	sourcetest.Equal(t, told(dir, find(t, opts, in("a.zip"))), "example.com/acme/foo 1.0.0 linux_amd64: archive a.zip\n")
	_, err := legacy.Find(t.Context(), []string{in("absent")}, legacy.Options{})
	sourcetest.ErrorIs(t, err, fs.ErrNotExist, "what is not there is found")
}

func TestCanceledSearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := legacy.Find(ctx, []string{t.TempDir()}, legacy.Options{})
	sourcetest.ErrorIs(t, err, context.Canceled)
}

// put stores the only candidate in dir in a new mirror, and returns its archive there.
func put(t *testing.T, dir string) ([]byte, sources.Stored) {
	t.Helper()
	found := find(t, here, dir)
	sourcetest.Require(t, len(found.Candidates) == 1, "found %s", told(dir, found))
	b := sourcetest.Must(builder.Open(t.Context(), t.TempDir(), builder.Options{}))(t)
	defer b.Close()
	stored := sourcetest.Must(found.Candidates[0].Put(t.Context(), b))(t)
	h1 := sourcetest.Must(found.Candidates[0].H1(t.Context()))(t)
	sourcetest.Equal(t, h1, stored.H1, "contents of the candidate")
	return sourcetest.ReadFile(t, stored.Dir), stored
}

// The same file always produces the same archive.
func TestPackingDependsOnContentsAlone(t *testing.T) {
	a := write(t, map[string]string{"terraform-provider-foo_v1.0.0_x5": linux})
	b := write(t, map[string]string{"deep/linux_amd64/terraform-provider-foo_v1.0.0_x5": linux})
	old := time.Date(2019, 1, 2, 3, 4, 5, 0, time.UTC)
	check(t, os.Chtimes(filepath.Join(a, "terraform-provider-foo_v1.0.0_x5"), old, old))
	first, stored := put(t, a)
	second, _ := put(t, b)
	sourcetest.Expect(t, bytes.Equal(first, second), "archives differ")
	z, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil || len(z.File) != 1 || z.File[0].Name != "terraform-provider-foo_v1.0.0_x5" || z.File[0].Mode() != 0o755 {
		t.Errorf("packed %v, %v", z, err)
	}
	sourcetest.Equal(t, stored.ZH, sources.ZipHash(sha256.Sum256(first)), "hashed to")
}

// A published archive is stored as it is. What was proved is about the archive as it was then.
func TestProvedArchivesStayTheSame(t *testing.T) {
	const name = "terraform-provider-foo_1.0.0_linux_amd64.zip"
	dir := write(t, map[string]string{name: "terraform-provider-foo=" + linux})
	stored, _ := put(t, dir)
	given := sourcetest.ReadFile(t, filepath.Join(dir, name))
	sourcetest.Expect(t, bytes.Equal(stored, given), "another archive was stored")
	c := find(t, here, dir).Candidates[0]
	sourcetest.Must(c.ZH(t.Context()))(t)
	check(t, os.WriteFile(filepath.Join(dir, name), []byte(pack(t, "terraform-provider-foo="+linux+"more")), 0o644))
	b := sourcetest.Must(builder.Open(t.Context(), t.TempDir(), builder.Options{}))(t)
	defer b.Close()
	_, err := c.Put(t.Context(), b)
	sourcetest.ErrorIs(t, err, disk.ErrChanged)
}

// A release is the archives of one version in one directory, besides those in mirrors.
func TestReleases(t *testing.T) {
	const zip = "terraform-provider-foo=script"
	dir := write(t, map[string]string{
		"a/terraform-provider-foo_1.0.0_linux_amd64.zip":   zip,
		"a/terraform-provider-foo_1.0.0_darwin_arm64.zip":  zip,
		"a/terraform-provider-foo_1.0.0_SHA256SUMS":        "sums",
		"a/terraform-provider-foo_1.0.0_SHA256SUMS.sig":    "signature",
		"a/terraform-provider-foo_1.1.0_linux_amd64.zip":   zip,
		"b/terraform-provider-foo_1.0.0_windows_amd64.zip": zip,
		"b/linux_amd64/terraform-provider-foo_v1.2.0":      linux,
	})
	found := find(t, legacy.Options{Prefix: "example.com/acme"}, dir)
	all := sourcetest.Must(legacy.Releases(found.Candidates))(t)
	var got []string
	for _, r := range all {
		text := fmt.Sprintf("%s %q %q", r, r.Sums, r.Signature)
		for _, c := range r.Archives {
			text += fmt.Sprint(" ", c.ID.Platform)
		}
		got = append(got, text)
	}
	sourcetest.EqualSlices(t, got, []string{
		`example.com/acme/foo 1.0.0 "sums" "signature" darwin_arm64 linux_amd64`,
		`example.com/acme/foo 1.0.0 "" "" windows_amd64`,
		`example.com/acme/foo 1.1.0 "" "" linux_amd64`,
	})
	_, err := legacy.NewSums(map[sources.PackageID]sources.Hash{found.Candidates[0].ID: "h1:none"})
	sourcetest.Expect(t, err != nil, "checksums of a package whose zh: hash is unknown")
}

func TestSymlinksAreSkipped(t *testing.T) {
	dir := write(t, map[string]string{"real/terraform-provider-foo_v1.0.0": linux})
	check(t, sourcetest.Symlink(t, filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	sourcetest.Equal(t, told(dir, find(t, here, dir)), `
example.com/acme/foo 1.0.0 linux_amd64: executable real/terraform-provider-foo_v1.0.0
skipped link: it is a symlink; import its target
`[1:])
	found := find(t, here, filepath.Join(dir, "link"))
	sourcetest.Equal(t, len(found.Candidates), 1, "the link itself", told(dir, found))
}
