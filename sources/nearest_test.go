package sources_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestSlips(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"install", "install", 0},
		{"instal", "install", 1},
		{"insatll", "install", 1},
		{"amd46", "amd64", 1},
		{"hashicrop", "hashicorp", 1},
		{"ca", "abc", 3}, // no character is changed twice
		{"kitten", "sitting", 3},
		{"é", "e", 1},
	} {
		sourcetest.Equal(t, sources.Slips(tt.a, tt.b), tt.want, tt.a, tt.b)
		sourcetest.Equal(t, sources.Slips(tt.b, tt.a), tt.want, tt.b, tt.a)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"install", "lock", "prefetch", "mirror", "bundle", "cache", "version", "help"}
	for word, want := range map[string]string{
		"instal": "install", "isntall": "install", "Install": "install", "inst": "install",
		"loock": "lock", "prefech": "prefetch", "pre": "", "vesrion": "version",
		"deploy": "", "": "", "x": "", "lo": "lock", "leap": "",
	} {
		sourcetest.Equal(t, sources.Nearest(word, known), want, word)
	}
	sourcetest.Equal(t, sources.Nearest("bat", []string{"cat", "bar"}), "cat", "the first of those equally near")
}

func TestNearestPlatform(t *testing.T) {
	for text, want := range map[string]string{
		"macos_arm64":    "darwin_arm64",
		"macOS-aarch64":  "darwin_arm64",
		"linux_amd46":    "linux_amd64",
		"linux_x86_64":   "linux_amd64",
		"Linux_AMD64":    "linux_amd64",
		"win32_x64":      "windows_amd64",
		"windows_i386":   "windows_386",
		"linux_armv7":    "linux_arm",
		"linux.amd64":    "linux_amd64",
		"linux":          "",
		"amd64":          "",
		"beos_m68k":      "",
		"linux_amd64_v1": "",
	} {
		sourcetest.Equal(t, sources.NearestPlatform(text), want, text)
	}
}

func TestCutVersion(t *testing.T) {
	for text, want := range map[string][2]string{
		"acme/p1":          {"acme/p1", ""},
		"acme/p1@1.0.0":    {"acme/p1", "1.0.0"},
		"acme/p1@~> 1.0":   {"acme/p1", "~> 1.0"},
		"acme/p1==1.0.0":   {"acme/p1", "1.0.0"},
		"acme/p1@==1.0.0":  {"acme/p1", "1.0.0"},
		"acme/p1 == 1.0.0": {"acme/p1", " 1.0.0"},
		"acme/p1=1.0.0":    {"acme/p1", "=1.0.0"},
		"acme/p1>=1,<2":    {"acme/p1", ">=1,<2"},
		"acme/p1~>1.0":     {"acme/p1", "~>1.0"},
		"acme/p1@":         {"acme/p1", ""},
	} {
		address, version, _ := sources.CutVersion(text)
		sourcetest.Equal(t, [2]string{address, version}, want, text)
	}
}
