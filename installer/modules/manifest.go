package modules

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A manifest is the engine's record of the modules that it installed, by the dotted
// path of the calls.
type manifest map[string]installed

// An installed module is one entry of a manifest.
type installed struct {
	Key     string
	Source  string
	Version string // of a registry module
	Dir     string // relative to the root module
}

const (
	// maxManifest is the maximum size of a manifest in bytes, enough for some twenty
	// thousand modules.
	maxManifest = 4 << 20

	// perByte is the memory in bytes that parsing a byte of a manifest may take.
	perByte = 60
)

// readManifest reads the manifest in the data directory, if there is one.
func (w *walk) readManifest() {
	name := filepath.Join(w.opts.DataDir, "modules", "modules.json")
	src, err := disk.ReadFile(w.path(name), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var document struct{ Modules []installed }
	hint := `run "` + string(w.opts.Engine) + ` get" to install the modules of this configuration`
	if wrong := sources.CheckText(src, false); err == nil && wrong != nil {
		err, hint = wrong, sources.Hints(wrong)[0]
	}
	if err == nil {
		hclfile.Within(int64(len(src))*perByte, func() { err = json.Unmarshal(src, &document) })
	}
	if info, statErr := os.Stat(w.path(w.opts.DataDir)); statErr == nil && !info.IsDir() {
		w.noDataDir = true
		w.diags.fail(place{Filename: w.opts.DataDir},
			"remove or rename it: engines install providers and modules there", "this is a file, not the data directory")
		return
	}
	if err != nil {
		w.diags.fail(place{Filename: name}, hint, "module manifest: %v", disk.Cause(err))
	}
	w.manifest = manifest{}
	for _, m := range document.Modules {
		m.Dir = filepath.FromSlash(m.Dir)
		w.manifest[m.Key] = m
	}
}

// anyLater is a constraint that allows all later versions of a module, but not of a provider.
var anyLater = sources.Regexp(`~>(\s*\d+\s*(?:,|$))`)

// allows reports whether version satisfies constraint. It returns true for a
// constraint that it cannot parse, because the engine has installed the module.
func allows(constraint, version string) bool {
	c, err := sources.ParseConstraints(anyLater().ReplaceAllString(constraint, ">=$1"))
	if constraint == "" || err != nil {
		return true
	}
	v, err := sources.ParseVersion(version)
	return err == nil && c.Allow(v)
}

// shorthands are the addresses that engines expand, with their expansions.
var shorthands = []struct {
	form func() *regexp.Regexp
	full string
}{
	{
		sources.Regexp(`^(?:git::)?github\.com/([^/]+)/([^/]+?)(?:\.git)?(?:/(.*))?$`),
		"git::https://github.com/$1/$2.git//$3",
	},
	{sources.Regexp(`^(?:git::)?bitbucket\.org/(.+?)(?:\.git)?$`), "git::https://bitbucket.org/$1.git"},
	{sources.Regexp(`^(?:git::)?([^@/:]+@[^/:]+):/?(.+)$`), "git::ssh://$1/$2"},
	{sources.Regexp(`^([a-z0-9]+::)?(/.*)$`), "${1}file://$2"},
}

var (
	registrySource = sources.Regexp(`^(?:([^/]+)/)?((?:[0-9A-Za-z](?:[0-9A-Za-z_-]*[0-9A-Za-z])?/){2}[0-9a-z]+)$`)
	schemeSource   = sources.Regexp(`^(?:[a-z0-9]+::)?[a-z0-9+.-]+://`)
)

// normalSource returns a module source in a form that is the same for what the manifest has for it.
func normalSource(s string, e sources.Engine) string {
	s, query, _ := strings.Cut(s, "?")
	address, inside := splitSubdir(s)
	for _, short := range shorthands {
		if short.form().MatchString(address) {
			address = short.form().ReplaceAllString(address, short.full)
			break
		}
	}
	address, outer := splitSubdir(address)
	if m := registrySource().FindStringSubmatch(address); m != nil {
		if host, err := sources.ParseHost(cmp.Or(m[1], string(e.DefaultHost()))); err == nil {
			address = string(host) + "/" + m[2]
		}
	}
	if !schemeSource().MatchString(address) {
		address = path.Clean(address)
	}
	if values, err := url.ParseQuery(query); err == nil {
		query = values.Encode()
	}
	return address + "//" + path.Join(outer, inside) + "?" + query
}

// splitSubdir splits a source into the address to fetch and the directory in it to
// use.
func splitSubdir(s string) (address, inside string) {
	start := len(schemeSource().FindString(s))
	if address, inside, ok := strings.Cut(s[start:], "//"); ok {
		return s[:start] + address, inside
	}
	return s, ""
}
