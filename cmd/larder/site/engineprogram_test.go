package site

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Engines print their version as JSON, or as text before Terraform 0.13.
func TestParseVersion(t *testing.T) {
	for out, want := range map[string]string{
		`{"terraform_version":"1.15.0","platform":"linux_amd64"}`:         "1.15.0 linux_amd64",
		`{"terraform_version":"1.12.6"}`:                                  "1.12.6 ",
		"Terraform v0.12.31\n\nYour version of Terraform is out of date!": "0.12.31 ",
		"some warning\nOpenTofu v1.6.0-beta1\non linux_amd64":             "1.6.0-beta1 ",
		`{"terraform_version":"newest","platform":"linux_amd64"}`:         "",
		`["1.15.0"]`:                          "",
		"terraform: no version is configured": "",
		"":                                    "",
	} {
		got := ""
		if v, platform, ok := parseVersion([]byte(out)); ok {
			got = v.String() + " " + platform
		}
		sourcetest.Equal(t, got, want)
	}
}

// No output of a program makes the parser panic, and versions are printed as they are read.
func FuzzParseVersion(f *testing.F) {
	f.Add([]byte("Terraform v0.12.31\n"))
	f.Add([]byte(`{"terraform_version":"1.15.0"}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		if v, _, ok := parseVersion(out); ok {
			again, err := sources.ParseVersion(v.String())
			sourcetest.Expect(t, err == nil && again == v, "%s is read as %s", v, again)
		}
	})
}
