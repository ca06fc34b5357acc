package cliconfig

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// A MethodKind is a kind of installation method, by its name in the files.
type MethodKind string

// The kinds of installation method. Terraform has no OCI mirrors, but Larder's own file may have them for it too.
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
	Template oci.Template      // of an OCI mirror's repositories
	Include  []sources.Pattern // empty means all
	Exclude  []sources.Pattern // takes precedence over Include

	DownloadRetries *int // nil if not configured
	TrustAllHashes  bool

	File string // configuration file that contains the method
	Line int
}

// An installation is a provider_installation block.
type installation struct {
	own       bool // in Larder's own file, where it replaces the methods of the CLI configuration
	methods   []Method
	overrides map[sources.Provider]string
}

// installationBlock is the name of the blocks with installation methods.
const installationBlock = "provider_installation"

const devOverrides = "dev_overrides"

const writeArrays = `write every method as an array of objects, such as "direct": [{}]`

// installation is a field for a provider_installation block. There may be one in all files of the CLI configuration, and
// another one in Larder's own file.
func (l *loader) installation(own bool) field {
	return func(e entry) {
		in := installation{own: own, overrides: map[sources.Provider]string{}}
		if !l.isPlainBlock(e, "an object") {
			return
		}
		if e.merged { // Terraform refuses this, or reads it as a block without methods
			l.errorf(e.Place, writeArrays, "write installation methods as plain objects")
			return
		}
		for _, m := range e.value.entries {
			switch {
			case !l.isPlainBlock(m, "an array of objects"):
			case m.key != devOverrides:
				l.method(m, &in)
			case own:
				l.errorf(m.Place, "move it to provider_installation in "+l.config.fileToEdit(),
					"dev_overrides belongs in the CLI configuration, because engines need it too")
			case len(in.methods) > 0: // it precedes the methods
				l.errorf(m.Place, "move it to the top of provider_installation", "dev_overrides follows other methods")
			default:
				l.devOverrides(m, &in)
			}
		}
		first, again := l.config.Setting(installationBlock)
		if again && !own {
			l.errorf(e.Place, "put all methods into one block",
				"second provider_installation block; the first is at %s", first.From)
			return
		}
		l.config.Methods, l.config.Implied = in.methods, false
		if !own {
			l.config.DevOverrides = in.overrides
		}
		l.config.note(Setting{Name: installationBlock, From: e.Place})
	}
}

// isPlainBlock reports whether e is a block without a label. Otherwise it adds an error.
func (l *loader) isPlainBlock(e entry, inJSON string) bool {
	switch {
	case e.assigned:
		l.errorf(e.Place, `leave out the "="`, "%s must be a block", e.key)
	case !l.is(e.value, writeArrays, e.key+" must be "+inJSON, isObject):
	case labeled(e.value):
		label := e.value.entries[0]
		l.errorf(label.Place, "leave it out", "%s takes no label, such as %q", e.key, label.key)
	default:
		return true
	}
	return false
}

// method reads an installation method, and adds it if it has no errors.
func (l *loader) method(e entry, in *installation) {
	if !l.isMethod(e, in.own) {
		return
	}
	m := Method{Kind: MethodKind(e.key), File: e.File, Line: e.Line}
	known := fields{
		"path": nil, "url": nil, "repository_template": nil, "download_retry_count": nil, "trust_all_hashes": nil,
		"include": l.patterns(&m.Include),
		"exclude": l.patterns(&m.Exclude),
	}
	var location string
	var at Place // of the location
	setting := locations[m.Kind]
	if setting != "" {
		known[setting] = l.location(m.Kind, &location, &at)
	}
	more := in.own || l.engine == sources.OpenTofu
	if more && (m.Kind == Direct || m.Kind == NetworkMirror) {
		known["download_retry_count"] = l.number(func(n int) { m.DownloadRetries = &n })
	}
	if more && m.Kind == NetworkMirror {
		known["trust_all_hashes"] = l.flag(&m.TrustAllHashes)
	}
	before := len(l.diags)
	if in.own {
		maps.DeleteFunc(known, func(_ string, read field) bool { return read == nil })
		l.readOwn(e.value, known, settingsOf(e.key, known))
	} else {
		l.read(e.value, known)
	}
	switch {
	case l.diags[before:].Err() != nil:
	case setting != "" && location == "":
		l.errorf(e.Place, "", "%s has no %s", e.key, setting)
	case l.ok(at, l.locate(&m, location, at, in.own)):
		in.methods = append(in.methods, m)
	}
}

// isMethod reports whether the engine, or Larder's own file, has an installation method. Otherwise it adds an error.
func (l *loader) isMethod(e entry, own bool) bool {
	known := []string{string(Direct), string(FilesystemMirror), string(NetworkMirror)}
	if own || l.engine == sources.OpenTofu {
		known = append(known, string(OCIMirror))
	}
	if !own {
		known = append(known, devOverrides)
	}
	if slices.Contains(known, e.key) {
		return true
	}
	err := fmt.Errorf("unknown installation method %s", e.key)
	if e.key == string(OCIMirror) {
		return l.ok(e.Place, sources.WithHint(err, "only OpenTofu supports oci_mirror; to install from it for Terraform, put provider_installation into %s",
			cmp.Or(l.config.LarderFile(), "Larder's own file")))
	}
	return l.ok(e.Place, sources.DidYouMean(err, e.key, known, "the methods are "+strings.Join(known, ", ")))
}

// locations are the settings with the location that a method installs from. The method direct has none.
var locations = map[MethodKind]string{FilesystemMirror: "path", NetworkMirror: "url", OCIMirror: "repository_template"}

// location is a field for the location of a method, and for the place of its value.
func (l *loader) location(of MethodKind, to *string, at *Place) field {
	return func(e entry) {
		*at = e.value.Place
		l.text(to)(e)
		if of == FilesystemMirror || *to == "" {
			return
		}
		l.secrets.AddURL(*to)
		if of == NetworkMirror {
			l.checkMirrorURL(e.value.Place, *to)
		}
	}
}

// locate sets the location of a method without other errors. It fails if the location is not valid.
func (l *loader) locate(m *Method, location string, at Place, own bool) (err error) {
	switch m.Kind {
	case FilesystemMirror:
		m.Path = location
		if own {
			m.Path = l.ownPath(at.File, location)
		}
		return l.checkPath("path", m.Path)
	case NetworkMirror:
		m.URL = location
	case OCIMirror:
		// A template without a hostname would map both default registries to the same repositories.
		for _, patterns := range [][]sources.Pattern{m.Include, m.Exclude} {
			for i := range patterns {
				patterns[i].Host = cmp.Or(patterns[i].Host, string(l.engine.DefaultHost()))
			}
		}
		if m.Template, err = oci.ParseTemplate(location); err == nil {
			err = m.Template.Distinct(m.Include)
		}
		if err != nil {
			err = fmt.Errorf("repository_template: %w", err)
		}
	}
	return err
}

func (l *loader) checkMirrorURL(at Place, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		l.errorf(at, "", "not a URL") // the text may contain a password at an unknown position
	case u.Scheme != "https" || u.Host == "":
		l.errorf(at, "write https://HOST/…/; plain http is refused", "not an https URL")
	case u.Path != "" && !strings.HasSuffix(u.Path, "/"):
		l.warnf(at, "end the URL with a slash", "terraform and tofu ignore the part after the last slash; larder does not")
	}
}

// patterns is a field for patterns of providers.
func (l *loader) patterns(to *[]sources.Pattern) field {
	return l.list(appending(to, sources.ParsePattern))
}

func (l *loader) devOverrides(e entry, in *installation) {
	for _, o := range e.value.entries {
		if !l.is(o.value, writeQuotes, "the directory of "+o.key+" must be a string", textKinds...) {
			continue
		}
		p, err := sources.ParseProvider(o.key, l.engine)
		if l.ok(o.Place, err) {
			dir := l.clean(l.expandOverride(o.value))
			l.ok(o.value.Place, l.checkPath("directory of "+o.key, dir))
			in.overrides[p] = dir
			l.config.note(Setting{Name: devOverrides, Of: p.String(), Value: dir, From: o.Place})
		}
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
			l.errorf(n.Place, "", "the variable %s is unset or empty", name)
		}
		return v
	})
}
