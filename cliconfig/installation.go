package cliconfig

import (
	"net/url"
	"os"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A MethodKind is a kind of installation method, by its name in the files.
type MethodKind string

// The kinds of installation method. Only OpenTofu has OCI mirrors, which Larder does
// not support yet.
const (
	Direct           MethodKind = "direct"
	FilesystemMirror MethodKind = "filesystem_mirror"
	NetworkMirror    MethodKind = "network_mirror"
	OCIMirror        MethodKind = "oci_mirror"
)

// A Method is an installation method as configured.
type Method struct {
	Kind     MethodKind
	Path     string            // of a filesystem mirror; absolute
	URL      string            // of a network mirror; https
	Template string            // of an OCI mirror's repository
	Include  []sources.Pattern // empty means all
	Exclude  []sources.Pattern // takes precedence over Include

	DownloadRetries *int // nil if not configured
	TrustAllHashes  bool

	File string // configuration file that contains the method
	Line int
}

// An installation is a provider_installation block.
type installation struct {
	place
	methods   []Method
	overrides map[sources.Provider]string
}

const writeArrays = `write every method as an array of objects, such as "direct": [{}]`

// installation reads a provider_installation block. It returns false if the entry is
// not a block.
func (l *loader) installation(e entry) (installation, bool) {
	in := installation{place: e.place, overrides: map[sources.Provider]string{}}
	switch {
	case e.assigned:
		l.errorf(e.place, `leave out the "="`, "provider_installation must be a block")
		return in, false
	case e.value.kind != isObject:
		l.errorf(e.value.place, writeArrays, "provider_installation must be an object, not %s", e.value.kind)
		return in, false
	case e.merged:
		// Terraform refuses this, or reads it as a block without methods.
		l.errorf(e.place, writeArrays, "write installation methods as plain objects")
		return in, false
	case labelled(e.value):
		l.errorf(e.value.entries[0].place, "leave it out", "provider_installation takes no label, such as %q", e.value.entries[0].key)
		return in, false
	}
	for _, m := range e.value.entries {
		l.method(m, &in)
	}
	return in, true
}

func (l *loader) method(e entry, in *installation) {
	switch {
	case e.assigned:
		l.errorf(e.place, `leave out the "="`, "%s must be a block", e.key)
		return
	case e.value.kind != isObject:
		l.errorf(e.value.place, writeArrays, "%s must be an array of objects, not %s", e.key, e.value.kind)
		return
	case labelled(e.value):
		l.errorf(e.value.entries[0].place, "leave it out", "%s takes no label, such as %q", e.key, e.value.entries[0].key)
		return
	}
	if e.key == "dev_overrides" {
		l.devOverrides(e, in)
		return
	}
	m := Method{Kind: MethodKind(e.key), File: e.file, Line: e.line}
	if l.target(e, &m) && l.patterns(e.value, &m) {
		l.misspelt(e.value, methodSettings)
		l.tofuExtras(e.value, &m)
		in.methods = append(in.methods, m)
	}
}

// methodSettings are the arguments of installation methods.
var methodSettings = []string{"path", "url", "repository_template", "include", "exclude", "download_retry_count", "trust_all_hashes"}

// target reads the location that a method installs from.
func (l *loader) target(e entry, m *Method) bool {
	switch {
	case m.Kind == Direct:
		return true
	case m.Kind == FilesystemMirror:
		m.Path, _ = l.required(e, "path")
		return m.Path != ""
	case m.Kind == NetworkMirror:
		text, at := l.required(e, "url")
		l.secrets.AddURL(text)
		m.URL = text
		return text != "" && l.checkMirrorURL(at, text)
	case m.Kind == OCIMirror && l.engine == sources.OpenTofu:
		m.Template, _ = l.required(e, "repository_template")
		l.secrets.AddURL(m.Template)
		return m.Template != ""
	}
	l.errorf(e.place, l.methodHint(e.key), "unknown installation method %s", e.key)
	return false
}

func (l *loader) methodHint(name string) string {
	if name == string(OCIMirror) {
		return "only OpenTofu supports oci_mirror"
	}
	known := []string{string(Direct), string(FilesystemMirror), string(NetworkMirror), "dev_overrides"}
	if l.engine == sources.OpenTofu {
		known = append(known, string(OCIMirror))
	}
	if near := sources.Nearest(name, known); near != "" {
		return didYouMean(near)
	}
	return "the methods are " + strings.Join(known, ", ")
}

// required returns a required argument. If it is missing, required adds a diagnostic
// and the text is empty.
func (l *loader) required(e entry, name string) (string, place) {
	before := len(l.diags)
	text, at, _ := l.stringOf(e.value, name)
	if text == "" && len(l.diags) == before {
		l.errorf(e.place, "", "%s has no %s", e.key, name)
	}
	return text, at
}

func (l *loader) checkMirrorURL(at place, text string) bool {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		l.errorf(at, "", "not a URL") // the text may contain a password at an unknown position
		return false
	case u.Scheme != "https" || u.Host == "":
		l.errorf(at, "write https://HOST/…/; plain http is refused", "not an https URL")
		return false
	case u.Path != "" && !strings.HasSuffix(u.Path, "/"):
		l.warnf(at, "end the URL with a slash", "terraform and tofu ignore the part after the last slash; larder does not")
	}
	return true
}

func (l *loader) patterns(body *node, m *Method) bool {
	var included, excluded bool
	m.Include, included = l.patternList(body, "include")
	m.Exclude, excluded = l.patternList(body, "exclude")
	return included && excluded
}

func (l *loader) patternList(body *node, name string) (patterns []sources.Pattern, ok bool) {
	list, ok := l.stringsOf(body, name)
	for _, item := range list {
		pt, err := sources.ParsePattern(item.text)
		if err != nil {
			l.error(item.place, err)
			ok = false
			continue
		}
		patterns = append(patterns, pt)
	}
	return patterns, ok
}

// tofuExtras reads the arguments that only OpenTofu supports.
func (l *loader) tofuExtras(body *node, m *Method) {
	if l.engine != sources.OpenTofu {
		return
	}
	if m.Kind == Direct || m.Kind == NetworkMirror {
		if n, ok := l.intOf(body, "download_retry_count"); ok {
			m.DownloadRetries = &n
		}
	}
	if m.Kind == NetworkMirror {
		m.TrustAllHashes = l.boolOf(body, "trust_all_hashes")
	}
}

func (l *loader) devOverrides(e entry, in *installation) {
	if len(in.methods) > 0 {
		l.errorf(e.place, "move it to the top of provider_installation", "dev_overrides follows other methods")
		return
	}
	for _, o := range e.value.entries {
		if o.value.kind != isString && o.value.kind != isNumber {
			l.errorf(o.value.place, "write it in double quotes", "the directory of %s must be a string, not %s", o.key, o.value.kind)
			continue
		}
		p, err := sources.ParseProvider(o.key, l.engine)
		if err != nil {
			l.error(o.place, err)
			continue
		}
		in.overrides[p] = l.clean(l.expandOverride(o.value))
	}
}

// expandOverride expands variables in an override's directory, except for OpenTofu,
// which does not expand them.
func (l *loader) expandOverride(n *node) string {
	if l.engine == sources.OpenTofu {
		return n.text
	}
	return os.Expand(n.text, func(name string) string {
		v := l.getenv(name)
		if v == "" {
			l.errorf(n.place, "", "the variable %s is not set, or empty", name)
		}
		return v
	})
}

// single returns the provider_installation block that applies, or nil if there is
// none.
func (l *loader) single(all []installation) *installation {
	if len(all) == 0 {
		return nil
	}
	for _, in := range all[1:] {
		l.errorf(in.place, "put all methods into one block", "second provider_installation block; the first is at %s", all[0].place)
	}
	return &all[0]
}
