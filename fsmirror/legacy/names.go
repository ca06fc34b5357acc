package legacy

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// parseExecutableName parses terraform-provider-NAME_vVERSION[_xN][.exe], in any
// case. Like Terraform 0.12, it takes the text after the first "_v" as the version.
func parseExecutableName(file string) (n clues, ok bool) {
	rest, ok := strings.CutPrefix(strings.ToLower(file), sources.FilePrefix)
	if !ok {
		return n, false
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

// knownPlatform parses the name of a directory. It returns the zero Platform unless that is the name of a known one.
func knownPlatform(s string) sources.Platform {
	if p, err := sources.ParseKnownPlatform(s); err == nil {
		return p
	}
	return sources.Platform{}
}

// isHome reports whether a directory below the given one has a path that ends with HOST/NAMESPACE/TYPE, and contains
// what mirrors have there.
func isHome(given, dir string) bool {
	below, err := filepath.Rel(given, dir)
	elems := strings.Split(filepath.ToSlash(below), "/")
	n := len(elems)
	if err != nil || n < 3 || !strings.ContainsAny(elems[n-3], ".:") {
		return false
	}
	p, err := sources.ParseStoredProvider(path.Join(elems[n-3:]...))
	if err != nil {
		return false
	}
	entries, _ := os.ReadDir(dir) // the search reports the error
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		_, notVersion := sources.ParseVersion(e.Name())
		typ, _, _, _ := fsmirror.ParseArchiveName(e.Name())
		return e.IsDir() && notVersion == nil || typ == p.Type
	})
}
