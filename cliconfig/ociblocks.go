package cliconfig

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// Names of the blocks with credentials for OCI registries.
const (
	ociBlockName    = "oci_credentials"
	ociDefaultsName = "oci_default_credentials"
)

// An ociBlock is an oci_credentials block.
type ociBlock struct {
	place
	of          oci.Repository  // the registry, or the beginning of the path of repositories there
	credentials oci.Credentials // unless there is a helper
	helper      string          // name of a Docker credential helper
}

// ociDefaults is an oci_default_credentials block, or the defaults without one.
type ociDefaults struct {
	place
	ambient  bool     // whether to read files of Docker and Podman
	explicit bool     // read these files, and not those at the usual paths
	files    []string // absolute
	helper   string   // name of a Docker credential helper
}

// ociField is a field for what only OpenTofu reads. Terraform ignores these blocks, so their errors are
// reported only if Larder uses them for Terraform.
func (l *loader) ociField(read field) field {
	return func(e entry) {
		before := len(l.diags)
		read(e)
		if l.engine != sources.OpenTofu {
			l.config.oci.problems = append(l.config.oci.problems, l.diags[before:]...)
			l.diags = l.diags[:before]
		}
	}
}

// finishOCI notes the credentials for OCI registries, and reports problems in them, if they are used.
func (l *loader) finishOCI() {
	o := l.config.oci
	mirror := func(m Method) bool { return m.Kind == OCIMirror }
	if l.engine != sources.OpenTofu && !slices.ContainsFunc(l.config.Methods, mirror) {
		return
	}
	l.diags = append(l.diags, o.problems...)
	o.problems = nil
	for _, s := range o.settings {
		l.note(s)
	}
}

// ociCredentials is a field for oci_credentials blocks. Several blocks have different labels, in all files.
func (l *loader) ociCredentials() field { return l.ociField(l.withLabel(l.blocks(l.ociBlock))) }

func (l *loader) ociBlock(b entry) {
	o := l.config.oci
	l.secrets.AddURL(b.key)
	if labeled(b.value) {
		l.errorf(b.value.entries[0].place, "leave it out", "%s takes one label", ociBlockName)
		return
	}
	r, err := oci.ParseRepository(b.key)
	if !l.ok(b.place, err) {
		return
	}
	values := map[string]string{}
	before := len(l.diags)
	l.read(b.value, fields{
		"username":                  l.ociValue(values),
		"password":                  l.ociValue(values),
		"access_token":              l.ociValue(values),
		"refresh_token":             l.ociValue(values),
		"docker_credentials_helper": l.ociValue(values),
	})
	if l.diags[before:].Err() != nil || !l.checkOCI(b.place, r, values) {
		return
	}
	if i := slices.IndexFunc(o.blocks, func(other ociBlock) bool { return other.of == r }); i >= 0 {
		l.errorf(b.place, "keep one of them", "second %s block for %s; the first is at %s", ociBlockName, r, o.blocks[i].place)
		return
	}
	o.blocks = append(o.blocks, ociBlock{
		place: b.place, of: r, helper: values["docker_credentials_helper"],
		credentials: oci.Credentials{
			Username: values["username"], Password: values["password"], AccessToken: values["access_token"], RefreshToken: values["refresh_token"],
			From: "the " + ociBlockName + " block at " + b.place.String(),
		},
	})
	l.secrets.Add(basic(values["username"], values["password"]))
	set := Setting{Name: ociBlockName, Of: r.String(), Secret: true, From: b.from()}
	if helper := values["docker_credentials_helper"]; helper != "" {
		set.Value, set.Secret = dockerProgram(helper), false
	}
	o.settings = append(o.settings, set)
}

// ociValue is a field for a setting of an oci_credentials block.
func (l *loader) ociValue(to map[string]string) field {
	return func(e entry) {
		if e.key != "username" && e.key != "docker_credentials_helper" {
			l.secrets.Add(e.value.text)
		}
		var text string
		l.text(&text)(e)
		to[e.key] = text
	}
}

// ociKinds are the kinds of credentials, by the settings that each of them requires. The password may be empty.
var ociKinds = [][]string{{"username", "password"}, {"access_token", "refresh_token"}, {"docker_credentials_helper"}}

// checkOCI reports whether the settings of an oci_credentials block are complete. Otherwise it adds an error.
func (l *loader) checkOCI(at place, r oci.Repository, values map[string]string) bool {
	isSet := func(name string) bool {
		_, ok := values[name]
		return ok
	}
	var kinds [][]string
	for _, kind := range ociKinds {
		if slices.ContainsFunc(kind, isSet) {
			kinds = append(kinds, kind)
		}
	}
	const hint = "set username and password, access_token and refresh_token, or docker_credentials_helper"
	if len(kinds) != 1 {
		what := "has no credentials"
		if len(kinds) > 1 {
			what = "has several kinds of credentials"
		}
		l.errorf(at, hint, "%s %s %s", ociBlockName, strconv.Quote(r.String()), what)
		return false
	}
	first, helper := kinds[0][0], values["docker_credentials_helper"]
	for _, name := range kinds[0] {
		if !isSet(name) {
			l.errorf(at, "", "%s and %s must be set together", kinds[0][0], kinds[0][1])
			return false
		}
	}
	switch {
	case first == "docker_credentials_helper" && r.Name != "":
		l.errorf(at, "use "+r.Registry+" as the label", "a credential helper has credentials for a whole registry, not for %s", r)
	case first == "docker_credentials_helper":
		return l.checkDockerHelper(at, helper)
	case values[first] == "":
		l.errorf(at, "", "%s is empty", first)
	default:
		return true
	}
	return false
}

// checkDockerHelper reports whether a text is the name of a Docker credential helper. Otherwise it adds an error.
func (l *loader) checkDockerHelper(at place, name string) bool {
	if !l.isDockerHelper(name) {
		l.errorf(at, "write NAME for the program "+dockerProgram("NAME"), "%.40q can't be the name of a credential helper", name)
		return false
	}
	return true
}

// ociDefaults is a field for the only oci_default_credentials block of all files.
func (l *loader) ociDefaults() field {
	return l.ociField(func(e entry) {
		o := l.config.oci
		switch {
		case e.assigned || e.value.kind != isObject || labeled(e.value):
			l.errorf(e.place, "write "+ociDefaultsName+" { … }", "%s must be a block without labels", ociDefaultsName)
			return
		case o.defaults.line > 0:
			l.errorf(e.place, "keep one of them", "second %s block; the first is at %s", ociDefaultsName, o.defaults.place)
			return
		}
		d := ociDefaults{place: e.place, ambient: true}
		var filesAt place
		var files []string
		l.read(e.value, fields{
			"discover_ambient_credentials": l.ociNoting(l.flag(&d.ambient)),
			"docker_style_config_files": l.ociNoting(l.explicitly(&d.explicit, l.at(&filesAt, l.list(func(n *node) {
				files = append(files, l.beside(n.file, n.text))
				l.isPath(n.place, "docker_style_config_files", n.text)
			})))),
			"docker_credentials_helper": l.ociNoting(l.dockerHelper(&d.helper)),
		})
		if d.explicit && !d.ambient {
			l.errorf(filesAt, "leave one of them out", "docker_style_config_files has no effect, because discover_ambient_credentials is false")
		}
		d.files = files
		o.defaults = d
	})
}

// explicitly is a field that also sets a flag.
func (*loader) explicitly(is *bool, read field) field {
	return func(e entry) {
		*is = true
		read(e)
	}
}

// dockerHelper is a field for the name of a Docker credential helper.
func (l *loader) dockerHelper(to *string) field {
	return func(e entry) {
		before := len(l.diags)
		var name string
		l.text(&name)(e)
		if len(l.diags) == before && l.checkDockerHelper(e.value.place, name) {
			*to = name
		}
	}
}

// ociNoting is a field that notes each entry of an oci_default_credentials block that it reads without an error.
func (l *loader) ociNoting(read field) field {
	return func(e entry) {
		before := len(l.diags)
		if read(e); len(l.diags) > before {
			return
		}
		value := e.value.text
		if e.value.kind == isList {
			var items []string
			for _, n := range e.value.items {
				items = append(items, n.text)
			}
			value = cmp.Or(strings.Join(items, ", "), "none")
		}
		o := l.config.oci
		o.settings = append(o.settings, Setting{Name: e.key, Value: value, From: e.from()})
	}
}

// basic returns a user and a password as Docker stores and sends them.
func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
