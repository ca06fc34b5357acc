package fsmirror

import (
	"fmt"
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
	} {
		f.Add(s, "x")
	}
	f.Fuzz(func(t *testing.T, name, providerType string) {
		v, platform, ok := parseArchiveName(name, providerType)
		if !ok {
			return
		}
		canonical := sources.FilePrefix + providerType + "_" + v.String() + "_" + platform.String() + ".zip"
		again, samePlatform, ok := parseArchiveName(canonical, providerType)
		if !ok || again != v || samePlatform != platform {
			t.Errorf("%q: %q parsed again is %s %s, %v", name, canonical, again, samePlatform, ok)
		}
	})
}

// BenchmarkScan reads mirrors of 10,000 packages.
func BenchmarkScan(b *testing.B) {
	for name, write := range map[string]func(dir, version, platform string) error{
		"packed": func(dir, version, platform string) error {
			return os.WriteFile(filepath.Join(dir, "terraform-provider-x_"+version+"_"+platform+".zip"), nil, 0o666)
		},
		"unpacked": func(dir, version, platform string) error {
			return os.MkdirAll(filepath.Join(dir, version, platform), 0o777)
		},
	} {
		b.Run(name, func(b *testing.B) {
			base := b.TempDir()
			for i := range 10_000 {
				dir := filepath.Join(base, "registry.terraform.io", fmt.Sprint("ns", i/1000), "x")
				err := os.MkdirAll(dir, 0o777)
				if err == nil {
					err = write(dir, fmt.Sprintf("1.%d.0", i/4), []string{"linux_amd64", "linux_arm64", "darwin_arm64", "windows_amd64"}[i%4])
				}
				check(b, err)
			}
			for b.Loop() {
				providers, err := New(base, Options{Engine: sources.Terraform}).Providers(b.Context())
				if err != nil || len(providers) != 10 {
					b.Fatal(providers, err)
				}
			}
		})
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
	if err != nil || len(strays) != 1 || filepath.Base(strays[0].Path) != "xn--e1afmkfd.test" {
		t.Errorf("strays are %v, %v", strays, err)
	}
}
