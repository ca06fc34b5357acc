package sources

import (
	"fmt"
	"runtime"
	"strings"
	"unicode"
)

// A Platform is an operating system and an architecture in Go's names.
type Platform struct{ OS, Arch string }

// ParsePlatform parses "OS_ARCH", with names that engines need not support. The
// parts must be usable in file names, and have no dots: OpenTofu keeps the lock of
// linux_amd64 in linux_amd64.lock beside it.
func ParsePlatform(s string) (Platform, error) {
	const hint = "write the platform as linux_amd64 or darwin_arm64"
	os, arch, ok := strings.Cut(s, "_")
	switch {
	case strings.Contains(s, "."):
		return Platform{}, WithHint(fmt.Errorf("platform %q: contains a dot", s), hint)
	case !ok || !isPlatformPart(os) || !isPlatformPart(arch):
		return Platform{}, WithHint(fmt.Errorf("platform %q: not of the form OS_ARCH", s), hint)
	}
	return Platform{os, arch}, nil
}

func isPlatformPart(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r == '_' || r == '/' || r == '\\' || r == unicode.ReplacementChar ||
			unicode.IsSpace(r) || unicode.IsControl(r)
	})
}

// CurrentPlatform is the platform this program was built for.
func CurrentPlatform() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

func (p Platform) String() string { return p.OS + "_" + p.Arch }
