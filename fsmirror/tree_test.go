package fsmirror

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func FuzzArchiveName(f *testing.F) {
	for _, s := range []string{
		"terraform-provider-x_1.0.0_linux_amd64.zip", "TERRAFORM-PROVIDER-X_1.0_Linux_AMD64_extra.ZIP", "terraform-provider-x_1.0.0_linux.zip",
		"terraform-provider-x_1.0.0__amd64.zip", "terraform-provider-xy_1.0.0_linux_amd64.zip", "terraform-provider-x_1.0.0-rc+b_os_arch_.zip", ".zip",
		"terraform-provider-my_thing_1.2.3_linux_amd64.zip",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		typ, v, platform, ok := ParseArchiveName(name)
		if !ok {
			return
		}
		canonical := sources.FilePrefix + typ + "_" + v.String() + "_" + platform.String() + ".zip"
		sameType, again, samePlatform, ok := ParseArchiveName(canonical)
		sourcetest.Expect(t, ok && sameType == typ && again == v && samePlatform == platform,
			"%q: %q parsed again is %s %s %s, %v", name, canonical, sameType, again, samePlatform, ok)
	})
}

func TestNamesOfArchives(t *testing.T) {
	for _, tt := range []struct {
		file, typ string // no type if it is not such a name
	}{
		{"terraform-provider-foo_1.2.3_linux_amd64.zip", "foo"},
		{"Terraform-Provider-Foo_1.2.3_Linux_Amd64.ZIP", "foo"},
		{"terraform-provider-foo_1.2.3_linux_amd64_more.zip", "foo"},
		{"terraform-provider-my_thing_1.2.3_linux_amd64.zip", "my_thing"},
		{"terraform-provider-foo_v1.2.3_linux_amd64.zip", ""},
		{"terraform-provider-foo_1.2.3_linux.zip", ""},
		{"terraform-provider-foo_1.2.3.zip", ""},
		{"terraform-provider-1.2.3_linux_amd64.zip", ""},
		{"terraform-provider-foo_1.2.3_linux_amd64", ""},
		{"terraform_0.12.0_linux_amd64.zip", ""},
	} {
		typ, v, platform, ok := ParseArchiveName(tt.file)
		if ok != (tt.typ != "") || ok && (typ != tt.typ || v.String() != "1.2.3" || platform.String() != "linux_amd64") {
			t.Errorf("%s: got %s %s %s, %t", tt.file, typ, v, platform, ok)
		}
	}
}

// Directories that operating systems create are not strays, and neither are punycode
// hosts that exist in Unicode too.
func TestUnrelatedFilesAreNotStrays(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"lost+found", "System Volume Information", "$RECYCLE.BIN", ".Trash", "испытание.test", "xn--80akhbyknj4f.test", "xn--e1afmkfd.test"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	strays, err := New(dir, Options{}).Strays(t.Context())
	sourcetest.Expect(t, err == nil && len(strays) == 1 && filepath.Base(strays[0].Path) == "xn--e1afmkfd.test",
		"strays are %v, %v", strays, err)
}
