package legacy

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
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

// isHome reports whether the path of a directory ends with HOST/NAMESPACE/TYPE, and it contains what mirrors have there.
func isHome(elems []string, entries []fs.DirEntry) bool {
	n := len(elems)
	if n < 3 || !strings.ContainsAny(elems[n-3], ".:") {
		return false
	}
	p, err := sources.ParseStoredProvider(path.Join(elems[n-3:]...))
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, notVersion := sources.ParseVersion(e.Name())
		typ, _, _, _ := fsmirror.ParseArchiveName(e.Name())
		return e.IsDir() && notVersion == nil || typ == p.Type
	})
}
