package fsmirror_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider, packageID = sourcetest.Address, sourcetest.PackageID

// mirror creates a mirror from layout, with one path on each line. A directory ends
// in a slash, "PATH -> TARGET" is a symlink, and any other line is a file.
func mirror(t *testing.T, layout string) (m *fsmirror.Mirror, dir string) {
	t.Helper()
	dir = t.TempDir()
	for line := range strings.Lines(layout) {
		if line = strings.TrimSpace(line); line != "" {
			create(t, dir, line)
		}
	}
	return fsmirror.New(dir, fsmirror.Options{}), dir
}

func create(t *testing.T, dir, line string) {
	t.Helper()
	name, target, isLink := strings.Cut(line, " -> ")
	path := filepath.Join(dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	switch {
	case err != nil:
	case isLink:
		err = sourcetest.Symlink(t, filepath.FromSlash(target), path)
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(path, 0o777)
	default:
		err = os.WriteFile(path, []byte(name), 0o666)
	}
	check(t, err)
}

// found returns the path, relative to dir, of a.com/b/x in a version and platform.
func found(t *testing.T, m *fsmirror.Mirror, dir, version, platform string) string {
	t.Helper()
	pkg, err := m.Package(t.Context(), packageID(t, "a.com/b/x", version, platform))
	if errors.Is(err, sources.ErrNotFound) {
		return ""
	}
	check(t, err)
	path := sourcetest.Must(filepath.Rel(dir, pkg.Location.Archive+pkg.Location.Dir))(t)
	return filepath.ToSlash(path)
}

func TestLayout(t *testing.T) {
	for _, tt := range []struct{ layout, version, platform, want string }{ // want is empty if the package is ignored
		{"a.com/b/x/1.0.0/linux_amd64/", "1.0.0", "linux_amd64", "a.com/b/x/1.0.0/linux_amd64"},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip"},
		// Names are normalized.
		{"A.com/B/X/1.0.0/linux_amd64/", "1.0.0", "linux_amd64", "A.com/B/X/1.0.0/linux_amd64"},
		{"a.com/b/x/3.0/linux_amd64/", "3.0.0", "linux_amd64", "a.com/b/x/3.0/linux_amd64"},
		{"a.com/b/x/01.02/linux_amd64/", "1.2.0", "linux_amd64", "a.com/b/x/01.02/linux_amd64"},
		{"a.com/b/x/1.0.0-rc.1+b/linux_amd64/", "1.0.0-rc.1+b", "linux_amd64", "a.com/b/x/1.0.0-rc.1+b/linux_amd64"},
		{"a.com/b/x/v4.0.0/linux_amd64/", "4.0.0", "linux_amd64", ""},
		{"a.com/b/x/1.2.3.4/linux_amd64/", "1.2.3", "linux_amd64", ""},
		{"a.com/b/x/1.0.0/Linux_amd64/", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/1.0.0/Linux_amd64/", "1.0.0", "Linux_amd64", "a.com/b/x/1.0.0/Linux_amd64"},
		{"a.com/b/x/1.0.0/linux_amd64_x/", "1.0.0", "linux_amd64", ""},
		{"a.com/b/X/TERRAFORM-PROVIDER-X_1.0.0_LINUX_AMD64.ZIP", "1.0.0", "linux_amd64", "a.com/b/X/TERRAFORM-PROVIDER-X_1.0.0_LINUX_AMD64.ZIP"},
		{"a.com/b/x/terraform-provider-x_1.0_linux_amd64.zip", "1.0.0", "linux_amd64", "a.com/b/x/terraform-provider-x_1.0_linux_amd64.zip"},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux_amd64_extra.zip", "1.0.0", "linux_amd64", "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64_extra.zip"},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/terraform-provider-x_v1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/terraform-provider-y_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/.terraform-provider-x_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip.tmp", "1.0.0", "linux_amd64", ""},
		// A package is a directory or a file, at its own depth.
		{"a.com/b/x/1.0.0/linux_amd64", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip/", "1.0.0", "linux_amd64", ""},
		{"a.com/b/x/1.0.0/terraform-provider-x_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/b/terraform-provider-x_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", ""},
		{"a.com/x/1.0.0/linux_amd64/", "1.0.0", "linux_amd64", ""},
		{"c/a.com/b/x/1.0.0/linux_amd64/", "1.0.0", "linux_amd64", ""},
		// Unpacked packages precede packed ones, and 3.0 precedes 3.0.0.
		{"a.com/b/x/1.0.0/linux_amd64/\na.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip", "1.0.0", "linux_amd64", "a.com/b/x/1.0.0/linux_amd64"},
		{"a.com/b/x/3.0.0/linux_amd64/\na.com/b/x/3.0/linux_amd64/", "3.0.0", "linux_amd64", "a.com/b/x/3.0/linux_amd64"},
		{"A.com/b/x/1.0.0/linux_amd64/\na.com/b/x/1.0.0/linux_amd64/", "1.0.0", "linux_amd64", "A.com/b/x/1.0.0/linux_amd64"},
	} {
		m, dir := mirror(t, tt.layout)
		got := found(t, m, dir, tt.version, tt.platform)
		sourcetest.Expect(t, got == tt.want, "%q: %s for %s is %q, want %q", tt.layout, tt.version, tt.platform, got, tt.want)
	}
}

func TestSymlinks(t *testing.T) {
	sourcetest.SkipOnWindows(t, "symlinks need a privilege")
	const unpacked, packed = "else/b/x/1.0.0/linux_amd64/\n", "else/b/x/terraform-provider-x_1.0.0_linux_amd64.zip\n"
	for _, tt := range []struct{ layout, want string }{
		{unpacked + "a.com -> else", ""},
		{unpacked + "a.com/b -> ../else/b", ""},
		{unpacked + "a.com/b/x -> ../../else/b/x", ""},
		{unpacked + "a.com/b/x/1.0.0 -> ../../../else/b/x/1.0.0", ""},
		{unpacked + "a.com/b/x/1.0.0/linux_amd64 -> ../../../../else/b/x/1.0.0/linux_amd64", "a.com/b/x/1.0.0/linux_amd64"},
		{packed + "a.com/b/x/1.0.0/linux_amd64 -> ../../../../" + packed, ""},
		{packed + "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip -> ../../../" + packed, "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip"},
		{unpacked + "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip -> ../../../else", ""},
		{"a.com/b/x/1.0.0/linux_amd64 -> nowhere", ""},
		{"a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip -> nowhere", ""},
		{"a.com/b/x/1.0.0 -> ..", ""},
	} {
		m, dir := mirror(t, tt.layout)
		sourcetest.Equal(t, found(t, m, dir, "1.0.0", "linux_amd64"), tt.want, tt.layout)
	}
	_, dir := mirror(t, unpacked+"base -> .\nelse.com/b/x/1.0.0/linux_amd64/")
	base := filepath.Join(dir, "base")
	_, err := fsmirror.New(base, fsmirror.Options{}).Package(t.Context(), packageID(t, "else.com/b/x", "1.0.0", "linux_amd64"))
	sourcetest.Equal(t, err, nil, "the base directory may be a symlink, but")
}

// A confined mirror has no package that leads out of it. Links within it are followed.
func TestConfined(t *testing.T) {
	sourcetest.SkipOnWindows(t, "symlinks need a privilege")
	const dir, zip = "m/a.com/b/x/1.0.0/linux_amd64", "m/a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip"
	for _, tt := range []struct {
		layout, want, leaves string
	}{
		{"else/file\n" + dir + " -> ../../../../../else", "", dir},
		{"else/file\n" + dir + "/docs -> ../../../../../../else/file", "", dir},
		{"else/file\n" + dir + "/deep/docs -> ../../../../../../../else/file", "", dir},
		{"else/file\n" + dir + "/docs -> ../../../../../../else", "", dir},
		{"else/file\nm/own/docs -> ../../else/file\n" + dir + " -> ../../../../own", "", dir},
		{"else/file\nm/own -> ../else/file\n" + zip + " -> ../../../own", "", zip},
		{"else/file\n" + zip + " -> ../../../../else/file", "", zip},
		{"m/own/file\n" + dir + "/docs -> ../../../../../own/file", dir, ""},
		{"m/own/file\n" + dir + " -> ../../../../own", dir, ""},
		{"m/own/file\n" + zip + " -> ../../../own/file", zip, ""},
		{dir + "/docs -> nowhere", dir, ""}, // reading it fails
	} {
		_, top := mirror(t, tt.layout)
		m := fsmirror.New(filepath.Join(top, "m"), fsmirror.Options{Confined: true})
		sourcetest.Equal(t, found(t, m, top, "1.0.0", "linux_amd64"), tt.want, tt.layout)
		strays := sourcetest.Must(m.Strays(t.Context()))(t)
		leaves := ""
		for _, s := range strays {
			if s.Leaves {
				leaves, _ = filepath.Rel(top, s.Path)
			}
		}
		sourcetest.Equal(t, filepath.ToSlash(leaves), tt.leaves, tt.layout)
		check(t, sourcetest.Symlink(t, "m", filepath.Join(top, "base")))
		_, err := fsmirror.New(filepath.Join(top, "base"), fsmirror.Options{Confined: true}).Package(t.Context(), packageID(t, "a.com/b/x", "1.0.0", "linux_amd64"))
		sourcetest.Equal(t, err == nil, tt.want != "", "through a link", tt.layout, err)
	}
}

func TestProviders(t *testing.T) {
	layout := `
		a.com/b/x/1.0.0/linux_amd64/
		a.com/B/X/2.0.0/windows_386/
		a.com/b/empty/1.0.0/
		localhost/my_org/y/terraform-provider-y_0.0.0_plan9_arm.zip
		registry.terraform.io/-/legacy/1.0.0/linux_amd64/
		a.com/-/legacy/1.0.0/linux_amd64/
		испытание.com/b/ü/terraform-provider-ü_1.0.0_linux_amd64.zip
		xn--80akhbyknj4f.com/b/puny/1.0.0/linux_amd64/
		under_score/b/x/1.0.0/linux_amd64/
		a.com/b/terraform-x/1.0.0/linux_amd64/
		a.com/b--c/x/1.0.0/linux_amd64/
		.larder/b/x/1.0.0/linux_amd64/
		terraform-provider-x_v1.0.0
		README.md`
	if runtime.GOOS != "windows" {
		layout += "\nlocalhost:8443/b/x/1.0.0/linux_amd64/"
	}
	for engine, want := range map[sources.Engine]string{
		sources.Terraform: "a.com/b/x localhost/my_org/y registry.terraform.io/-/legacy испытание.com/b/ü",
		sources.OpenTofu:  "a.com/b/x испытание.com/b/ü",
	} {
		_, dir := mirror(t, layout)
		got := sourcetest.Must(fsmirror.New(dir, fsmirror.Options{Engine: engine}).Providers(t.Context()))(t)
		all := len(got)
		got = slices.DeleteFunc(got, func(p sources.Provider) bool { return p.Host == "localhost:8443" })
		sourcetest.Equal(t, len(got) < all, runtime.GOOS != "windows", "a host with a port")
		sourcetest.Equal(t, fmt.Sprint(got), "["+want+"]", engine, got, want)
	}
}

func TestPackagesArePlainData(t *testing.T) {
	m, dir := mirror(t, "a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip\na.com/b/x/2.0.0/linux_amd64/f")
	source := "filesystem mirror " + dir
	for _, tt := range []struct {
		version string
		want    sources.Package
	}{
		{"1.0.0", sources.Package{
			Location: sources.Location{Archive: filepath.Join(dir, "a.com", "b", "x", "terraform-provider-x_1.0.0_linux_amd64.zip")},
			Filename: "terraform-provider-x_1.0.0_linux_amd64.zip", Size: 52,
		}},
		{"2.0.0", sources.Package{Location: sources.Location{Dir: filepath.Join(dir, "a.com", "b", "x", "2.0.0", "linux_amd64")}}},
	} {
		id := packageID(t, "a.com/b/x", tt.version, "linux_amd64")
		tt.want.ID, tt.want.Source, tt.want.Kind = id, source, sources.FromFilesystem
		got := sourcetest.Must(m.Package(t.Context(), id))(t)
		sourcetest.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", tt.want), got, tt.want)
	}
}

func TestDetails(t *testing.T) {
	m, _ := mirror(t, `
		a.com/b/x/1.0.0/linux_amd64/
		a.com/b/x/terraform-provider-x_1.0.0_darwin_arm64.zip
		a.com/b/x/terraform-provider-x_2.0.0_linux_amd64.zip`)
	l := sourcetest.Must(m.Versions(t.Context(), packageID(t, "a.com/b/x", "1.0.0", "linux_amd64").Provider))(t)
	sourcetest.Equal(t, fmt.Sprint(l.Details), "map[1.0.0:{[darwin_arm64 linux_amd64] []} 2.0.0:{[linux_amd64] []}]", "details")
}

func TestAnswers(t *testing.T) {
	m, dir := mirror(t, `
		a.com/b/x/1.0.0/linux_amd64/
		a.com/b/x/1.0.0/darwin_arm64/
		a.com/b/stray/terraform-provider-stray_1.0.0.zip
		terraform-provider-old_v1.0.0`)
	for _, tt := range []struct {
		address, version string
		want             error
		hint             string
	}{
		{"a.com/b/x", "1.0.0", sources.ErrNoPlatform, "the mirror has a.com/b/x 1.0.0 for darwin_arm64, linux_amd64"},
		{"a.com/b/x", "2.0.0", sources.ErrNotFound, ""},
		{"a.com/b/y", "1.0.0", sources.ErrNotFound, ""},
		{"a.com/b/stray", "1.0.0", sources.ErrNotFound, "is not named terraform-provider-stray_VERSION_OS_ARCH.zip"},
		{"a.com/b/old", "1.0.0", sources.ErrNotFound, "Terraform 0.12"},
	} {
		id := packageID(t, tt.address, tt.version, "windows_386")
		_, err := m.Package(t.Context(), id)
		if !errors.Is(err, tt.want) || errors.Is(err, sources.ErrNoPlatform) != (tt.want == sources.ErrNoPlatform) {
			t.Errorf("%s: got %v, want %v", id, err, tt.want)
		}
		if hints := strings.Join(sources.Hints(err), "\n"); !strings.Contains(hints, tt.hint) || (tt.hint == "") != (hints == "") {
			t.Errorf("%s: hints are %q, want %q", id, hints, tt.hint)
		}
		sourcetest.Expect(t, strings.Count(err.Error(), dir) == 1, "%s: %q does not name the mirror once", id, err)
		_, err = m.Versions(t.Context(), id.Provider)
		if has := tt.address == "a.com/b/x"; (err == nil) != has || !has && !errors.Is(err, sources.ErrNotFound) {
			t.Errorf("%s: versions: %v", id.Provider, err)
		}
	}
}

func TestDirectoryThatCannotBeSearched(t *testing.T) {
	_, dir := mirror(t, "file\nlocked/a.com/b/x/1.0.0/")
	cases := map[string]string{
		filepath.Join(dir, "absent"): "absent",
		filepath.Join(dir, "file"):   "file",
	}
	unreadable := filepath.Join(dir, "locked", "a.com", "b")
	check(t, os.Chmod(unreadable, 0))
	defer os.Chmod(unreadable, 0o777)
	if _, err := os.ReadDir(unreadable); err != nil { // neither root nor Windows
		cases[filepath.Join(dir, "locked")] = filepath.Join("locked", "a.com", "b")
	}
	for base, named := range cases {
		m := fsmirror.New(base, fsmirror.Options{})
		_, versionsErr := m.Versions(t.Context(), provider(t, "any/provider"))
		_, packageErr := m.Package(t.Context(), packageID(t, "any/provider", "1.0.0", "linux_amd64"))
		_, providersErr := m.Providers(t.Context())
		for _, err := range []error{versionsErr, packageErr, providersErr} {
			if err == nil || errors.Is(err, sources.ErrNotFound) {
				t.Errorf("%s: got %v, which lets the search go on", base, err)
			} else if want := "cannot search " + filepath.Join(dir, named) + ": "; strings.Count(err.Error(), dir) != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, want %q", base, err, want)
			}
		}
		sourcetest.Expect(t, named != "absent" || len(sources.Hints(versionsErr)) != 0, "%s: no hint", base)
	}
}

func TestStraysAreReported(t *testing.T) {
	m, dir := mirror(t, `
		terraform-provider-old_v1.0.0
		linux_amd64/terraform-provider-old_v1.0.0
		a.com/b/bad_type/1.0.0/linux_amd64/
		a.com/b/x/1.0.0/linux_amd64/
		a.com/b/x/1.0.0/terraform-provider-x_1.0.0_linux_amd64.zip
		a.com/b/x/1.0.0/linux/
		a.com/b/x/1.0.0/darwin_arm64
		a.com/b/x/v2.0.0/linux_amd64/
		a.com/b/x/terraform-provider-x_3.zip
		a.com/b/x/terraform-provider-x_4.0.0_linux_amd64.zip/
		a.com/b/x/index.json
		a.com/b/x/1.0.0.json
		a.com/b/x/terraform-provider-x_1.0.0_SHA256SUMS
		a.com/b/x/.staging
		.larder/lock/x
		README.md`)
	all := sourcetest.Must(m.Strays(t.Context()))(t)
	var got []string
	for _, s := range all {
		path, err := filepath.Rel(dir, s.Path)
		sourcetest.Expect(t, err == nil && s.Reason != "", "%+v: %v", s, err)
		got = append(got, filepath.ToSlash(path))
	}
	want := strings.Fields(`a.com/b/bad_type a.com/b/x/1.0.0/darwin_arm64 a.com/b/x/1.0.0/linux
		a.com/b/x/1.0.0/terraform-provider-x_1.0.0_linux_amd64.zip a.com/b/x/terraform-provider-x_3.zip
		a.com/b/x/terraform-provider-x_4.0.0_linux_amd64.zip a.com/b/x/v2.0.0 linux_amd64 terraform-provider-old_v1.0.0`)
	sourcetest.EqualSlices(t, got, want)
	listing, err := m.Versions(t.Context(), provider(t, "a.com/b/x"))
	sourcetest.Expect(t, err == nil && len(listing.Warnings) == 6,
		"warnings about x's directory: %q, %v, want 6", listing.Warnings, err)
}

func TestVersionZeroWarning(t *testing.T) {
	m, _ := mirror(t, "a.com/b/x/0.0.0/linux_amd64/\na.com/b/x/1.0.0/linux_amd64/")
	listing, err := m.Versions(t.Context(), provider(t, "a.com/b/x"))
	if err != nil || len(listing.Versions) != 2 || len(listing.Warnings) != 1 || !strings.Contains(listing.Warnings[0], "0.0.0") {
		t.Errorf("got %v, %v", listing, err)
	}
}

func TestEvidence(t *testing.T) {
	m, dir := mirror(t, `
		a.com/b/x/terraform-provider-x_1.0.0_linux_amd64.zip
		a.com/b/x/terraform-provider-x_2.0.0_linux_amd64.zip
		a.com/b/x/terraform-provider-x_3.0.0_linux_amd64.zip
		a.com/b/x/4.0.0/linux_amd64/
		.larder/evidence/a.com/b/x/3.0.0/SHA256SUMS`)
	for _, version := range []string{"1.0.0", "4.0.0"} {
		at := filepath.Join(dir, ".larder", "evidence", "a.com", "b", "x", version)
		signed := &sources.Signed{Sums: []byte("sums " + version), Signature: []byte("signature"), Keys: []sources.Key{{Armor: "key"}}, Origin: "origin"}
		check(t, evidence.WriteTo(at, signed))
	}
	for version, want := range map[string]struct {
		sums     string
		warnings int
	}{
		"1.0.0": {"sums 1.0.0", 0},
		"2.0.0": {"", 0},
		"3.0.0": {"", 1}, // broken
		"4.0.0": {"", 0}, // not used for a directory
	} {
		pkg := sourcetest.Must(m.Package(t.Context(), packageID(t, "a.com/b/x", version, "linux_amd64")))(t)
		var sums string
		if pkg.Signed != nil {
			sums = string(pkg.Signed.Sums)
		}
		sourcetest.Expect(t, sums == want.sums && len(pkg.Warnings) == want.warnings,
			"%s: got %q, warnings %q", version, sums, pkg.Warnings)
	}
}

func TestTreeIsReadOnce(t *testing.T) {
	m, dir := mirror(t, "a.com/b/x/1.0.0/linux_amd64/")
	p := provider(t, "a.com/b/x")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Versions(gone, p)
	sourcetest.ErrorIs(t, err, context.Canceled, "after giving up")
	for _, name := range []string{"1.0.0", "2.0.0"} {
		create(t, dir, "a.com/b/x/"+name+"/linux_amd64/")
		listing, err := m.Versions(t.Context(), p)
		sourcetest.Expect(t, err == nil && len(listing.Versions) == 1, "got %v, %v, want what there was at first", listing, err)
	}
}

var check = sourcetest.Check

func TestContract(t *testing.T) {
	for name, write := range map[string]func(*sourcetest.World, string, ...string){
		"packed":   (*sourcetest.World).WritePacked,
		"unpacked": (*sourcetest.World).WriteUnpacked,
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
				dir := t.TempDir()
				write(w, dir)
				outage := func() {
					check(t, os.RemoveAll(dir))
				}
				return fsmirror.New(dir, fsmirror.Options{}), outage
			})
		})
	}
}
