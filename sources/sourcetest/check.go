package sourcetest

import (
	"os"

	"github.com/larder-cli/larder/sources"
)

// Address is the provider with an address such as acme/widget.
func Address(t TB, s string) sources.Provider {
	t.Helper()
	p, err := sources.ParseProvider(s, sources.Terraform)
	Check(t, err)
	return p
}

// Number is the version written as s.
func Number(t TB, s string) sources.Version {
	t.Helper()
	v, err := sources.ParseVersion(s)
	Check(t, err)
	return v
}

// PackageID is the package of a provider's version for a platform.
func PackageID(t TB, address, version, platform string) sources.PackageID {
	t.Helper()
	p, err := sources.ParsePlatform(platform)
	Check(t, err)
	return sources.PackageID{Provider: Address(t, address), Version: Number(t, version), Platform: p}
}

// ReadFile is the contents of a file.
func ReadFile(t TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	Check(t, err)
	return data
}

// Check ends the test if there is an error.
func Check(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
