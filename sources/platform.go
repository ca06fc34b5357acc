package sources

import (
	"fmt"
	"runtime"
	"strings"
	"unicode"
)

// A Platform is an operating system and an architecture, by their Go names.
type Platform struct{ OS, Arch string }

// ParsePlatform parses "OS_ARCH". Engines need not support the platform. The
// parts must be usable in file names and contain no dots, because OpenTofu
// locks the directory linux_amd64 with the file linux_amd64.lock beside it.
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

// Current is the platform that this program was built for. Only tests change it.
var Current = Platform{runtime.GOOS, runtime.GOARCH}

// CurrentPlatform returns the platform that this program was built for.
func CurrentPlatform() Platform { return Current }

func (p Platform) String() string { return p.OS + "_" + p.Arch }

// Compare orders platforms by name.
func (p Platform) Compare(q Platform) int { return strings.Compare(p.String(), q.String()) }
