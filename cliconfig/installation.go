package cliconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/syntax"
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

// installationBlock is the name of the blocks with installation methods.
const installationBlock = "provider_installation"

const devOverrides = "dev_overrides"

const writeArrays = `write every method as an array of objects, such as "direct": [{}]`

// installation is a field for a provider_installation block. There may be one in all files of the CLI configuration,
// and another one in Larder's own file.
func (l *loader) installation(own bool) field {
	return func(e syntax.Entry) {
		var methods []Method
		overrides := map[sources.Provider]string{}
		if !l.isPlainBlock(e, "an object") {
			return
		}
		if e.Merged { // Terraform refuses this, or reads it as a block without methods
			l.errorf(e.Place, writeArrays, "write installation methods as plain objects")
			return
		}
		for _, m := range e.Value.Entries {
			switch {
			case !l.isPlainBlock(m, "an array of objects"):
			case m.Key != devOverrides:
				l.method(m, own, &methods)
			case own:
				l.errorf(m.Place, "move it to provider_installation in "+l.config.fileToEdit(),
					"dev_overrides belongs in the CLI configuration, because engines need it too")
			case len(methods) > 0: // it precedes the methods
				l.errorf(m.Place, "move it to the top of provider_installation", "dev_overrides follows other methods")
			default:
				l.devOverrides(m, overrides)
			}
		}
		first, again := l.config.Setting(installationBlock, "")
		if again && !own {
			l.errorf(e.Place, "put all methods into one block",
				"second provider_installation block; the first is at %s", first.From)
			return
		}
		l.config.Methods, l.config.Implied = methods, false
		if !own {
			l.config.DevOverrides = overrides
		}
		l.config.note(Setting{Name: installationBlock, From: e.Place})
	}
}

// isPlainBlock reports whether e is a block without a label. Otherwise it adds an error.
func (l *loader) isPlainBlock(e syntax.Entry, inJSON string) bool {
	switch {
	case e.Assigned:
		l.errorf(e.Place, `leave out the "="`, "%s must be a block", e.Key)
	case !l.is(e.Value, writeArrays, e.Key+" must be "+inJSON, syntax.Object):
	case e.Value.Labeled():
		label := e.Value.Entries[0]
		l.errorf(label.Place, "leave it out", "%s takes no label, such as %q", e.Key, label.Key)
	default:
		return true
	}
	return false
}

// method reads an installation method, and adds it if it has no errors.
func (l *loader) method(e syntax.Entry, own bool, to *[]Method) {
	if !l.isMethod(e, own) {
		return
	}
	m := Method{Kind: MethodKind(e.Key), File: e.File, Line: e.Line}
	known := fields{
		"path": nil, "url": nil, "repository_template": nil, "download_retry_count": nil, "trust_all_hashes": nil,
		"include": l.patterns(&m.Include),
		"exclude": l.patterns(&m.Exclude),
	}
	location := &syntax.Node{}
	setting := locations[m.Kind]
	if setting != "" {
		known[setting] = func(e syntax.Entry) {
			location = e.Value
			l.text(new(string))(e)
			if m.Kind != FilesystemMirror {
				l.secrets.AddURL(location.Text)
			}
		}
	}
	more := own || l.engine == sources.OpenTofu
	if more && (m.Kind == Direct || m.Kind == NetworkMirror) {
		known["download_retry_count"] = l.number(func(n int) { m.DownloadRetries = &n })
	}
	if more && m.Kind == NetworkMirror {
		known["trust_all_hashes"] = l.flag(&m.TrustAllHashes)
	}
	before := len(l.diags)
	if own {
		maps.DeleteFunc(known, func(_ string, read field) bool { return read == nil })
		l.readOwn(e.Value, known, settingsOf(e.Key, known))
	} else {
		l.read(e.Value, known)
	}
	switch {
	case l.diags[before:].Err() != nil:
	case setting != "" && location.Text == "":
		l.errorf(e.Place, "", "%s has no %s", e.Key, setting)
	case l.ok(location.Place, l.locate(&m, location, own)):
		*to = append(*to, m)
	}
}

// isMethod reports whether the engine, or Larder's own file, has an installation method. Otherwise it adds an error.
func (l *loader) isMethod(e syntax.Entry, own bool) bool {
	known := []string{string(Direct), string(FilesystemMirror), string(NetworkMirror)}
	if own || l.engine == sources.OpenTofu {
		known = append(known, string(OCIMirror))
	}
	if !own {
		known = append(known, devOverrides)
	}
	if slices.Contains(known, e.Key) {
		return true
	}
	err := fmt.Errorf("unknown installation method %s", e.Key)
	if e.Key == string(OCIMirror) {
		return l.ok(e.Place, sources.WithHint(err, "only OpenTofu supports oci_mirror; to install from it for Terraform, "+
			"put provider_installation into %s", cmp.Or(l.config.LarderFile(), "Larder's own file")))
	}
	return l.ok(e.Place, sources.DidYouMean(err, e.Key, known, "the methods are "+strings.Join(known, ", ")))
}

// locations are the settings with the location that a method installs from. The method direct has none.
var locations = map[MethodKind]string{FilesystemMirror: "path", NetworkMirror: "url", OCIMirror: "repository_template"}

// locate sets the location of a method without other errors. It fails if the location is not valid.
func (l *loader) locate(m *Method, location *syntax.Node, own bool) (err error) {
	switch m.Kind {
	case FilesystemMirror:
		m.Path = location.Text
		if own {
			m.Path = l.ownPath(location.File, location.Text)
		}
		return l.checkPath("path", m.Path)
	case NetworkMirror:
		m.URL = location.Text
		u, err := url.Parse(m.URL)
		switch {
		case err != nil:
			return errors.New("not a URL") // the text may contain a password at an unknown position
		case u.Scheme != "https" || u.Host == "":
			return sources.WithHint(errors.New("not an https URL"), "write https://HOST/…/; plain http is refused")
		case u.Path != "" && !strings.HasSuffix(u.Path, "/"):
			l.warnf(location.Place, "end the URL with a slash",
				"terraform and tofu ignore the part after the last slash; larder does not")
		}
	case OCIMirror:
		// A template without a hostname would map both default registries to the same repositories.
		for _, patterns := range [][]sources.Pattern{m.Include, m.Exclude} {
			for i := range patterns {
				patterns[i].Host = cmp.Or(patterns[i].Host, string(l.engine.DefaultHost()))
			}
		}
		if m.Template, err = oci.ParseTemplate(location.Text); err == nil {
			err = m.Template.Distinct(m.Include)
		}
		if err != nil {
			return fmt.Errorf("repository_template: %w", err)
		}
	}
	return nil
}

// patterns is a field for patterns of providers.
func (l *loader) patterns(to *[]sources.Pattern) field {
	return l.list(appending(to, sources.ParsePattern))
}

func (l *loader) devOverrides(e syntax.Entry, to map[sources.Provider]string) {
	for _, o := range e.Value.Entries {
		if !l.is(o.Value, writeQuotes, "the directory of "+o.Key+" must be a string", textKinds...) {
			continue
		}
		p, err := sources.ParseProvider(o.Key, l.engine)
		if l.ok(o.Place, err) {
			dir := l.clean(l.expandOverride(o.Value))
			l.ok(o.Value.Place, l.checkPath("directory of "+o.Key, dir))
			to[p] = dir
			l.config.note(Setting{Name: devOverrides, Of: p.String(), Value: dir, From: o.Place})
		}
	}
}

// expandOverride expands variables in an override's directory, except for OpenTofu,
// which does not expand them.
func (l *loader) expandOverride(n *syntax.Node) string {
	if l.engine == sources.OpenTofu {
		return n.Text
	}
	return os.Expand(n.Text, func(name string) string {
		v := l.Getenv(name)
		if v == "" {
			l.errorf(n.Place, "", "the variable %s is unset or empty", name)
		}
		return v
	})
}
