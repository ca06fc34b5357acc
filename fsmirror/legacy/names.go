package legacy

import (
	"path"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// isProvider reports whether a file name has the prefix of a provider's name.
func isProvider(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), sources.FilePrefix)
}

// A name is the information in the name of an executable.
type name struct {
	typ     string
	version string // empty if there is none
}

// parseExecutableName parses terraform-provider-NAME_vVERSION[_xN][.exe], in any
// case. Like Terraform 0.12, it takes the text after the first "_v" as the version.
func parseExecutableName(file string) (n name, ok bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(file), sources.FilePrefix)
	if !ok {
		return name{}, false
	}
	n.typ, n.version, _ = strings.Cut(strings.TrimSuffix(rest, ".exe"), "_v")
	if i := strings.LastIndex(n.version, "_x"); i >= 0 && isNumber(n.version[i+2:]) {
		n.version = n.version[:i] // the version of the plugin protocol
	}
	return n, n.typ != ""
}

// IsExecutable reports whether a file has the name of an executable of a provider with this type.
func IsExecutable(file, typ string) bool {
	n, ok := parseExecutableName(file)
	return ok && n.typ == typ && n.version != ""
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// knownPlatform parses the name of a directory as a known platform.
func knownPlatform(s string) (sources.Platform, bool) {
	p, err := sources.ParsePlatform(s)
	return p, err == nil && sources.KnownPlatform(p)
}

// A layout is the end of a path in the layout of mirrors.
type layout struct {
	base     []string // elements before the layout
	provider sources.Provider
	version  sources.Version  // of an unpacked package
	platform sources.Platform // of an unpacked package
}

// parseUnpacked parses HOST/NAMESPACE/TYPE/VERSION/OS_ARCH at the end of a path.
func parseUnpacked(elems []string, e sources.Engine) (layout, bool) {
	n := len(elems)
	if n < 5 {
		return layout{}, false
	}
	l, ok := parseHome(elems[:n-2], e)
	version, err := sources.ParseVersion(elems[n-2])
	platform, known := knownPlatform(elems[n-1])
	l.version, l.platform = version, platform
	return l, ok && err == nil && known
}

// parseHome parses HOST/NAMESPACE/TYPE at the end of a path. If other directories
// precede it, the host must look like a host name.
func parseHome(elems []string, e sources.Engine) (layout, bool) {
	n := len(elems)
	if n < 3 || n > 3 && !strings.ContainsAny(elems[n-3], ".:") || strings.HasPrefix(elems[n-3], ".") {
		return layout{}, false
	}
	p, err := sources.ParseProvider(path.Join(elems[n-3:]...), e)
	return layout{base: elems[:n-3], provider: p}, err == nil
}
