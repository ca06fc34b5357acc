package cliconfig

import (
	"slices"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// Names of the blocks with credentials for OCI registries, and of a setting in both.
const (
	ociBlockName    = "oci_credentials"
	ociDefaultsName = "oci_default_credentials"
	ociHelperName   = "docker_credentials_helper"
)

// readOCI reads the blocks for OCI registries of all files. Terraform ignores them. So it notes them and reports their
// errors for Terraform only if Larder uses them.
func (l *loader) readOCI() {
	faults, settings := len(l.diags), len(l.config.Settings)
	l.read(&syntax.Node{Entries: l.oci}, fields{
		ociBlockName:    l.oneLabel(l.ociBlock), // several blocks have different labels
		ociDefaultsName: l.plain(l.ociDefaults),
	})
	mirror := func(m Method) bool { return m.Kind == OCIMirror }
	if l.engine != sources.OpenTofu && !slices.ContainsFunc(l.config.Methods, mirror) {
		l.config.oci.problems = slices.Clone(l.diags[faults:])
		l.diags, l.config.Settings = l.diags[:faults], l.config.Settings[:settings]
	}
}

func (l *loader) ociBlock(b syntax.Entry) {
	o := l.config.oci
	l.secrets.AddURL(b.Key)
	r, err := oci.ParseRepository(b.Key)
	if !l.ok(b.Place, err) {
		return
	}
	values := map[string]string{}
	value := func(e syntax.Entry) {
		var text string
		l.text(&text)(e)
		values[e.Key] = text
	}
	secret := func(e syntax.Entry) {
		l.secrets.Add(e.Value.Text)
		value(e)
	}
	before := len(l.diags)
	l.read(b.Value, fields{
		"username": value, "password": secret, "access_token": secret, "refresh_token": secret, ociHelperName: value,
	})
	if l.diags[before:].Err() != nil || !l.checkOCI(b.Place, r, values) {
		return
	}
	if first, again := l.config.Setting(ociBlockName, r.String()); again {
		l.errorf(b.Place, "keep one of them",
			"second %s block for %s; the first is at %s", ociBlockName, r, first.From)
		return
	}
	o.Blocks = append(o.Blocks, credentials.Block{
		Of: r, Helper: values[ociHelperName],
		Credentials: oci.Credentials{
			Username: values["username"], Password: values["password"],
			AccessToken: values["access_token"], RefreshToken: values["refresh_token"],
			From: "the " + ociBlockName + " block at " + b.Place.String(),
		},
	})
	l.secrets.Add(credentials.Basic(values["username"], values["password"]))
	set := Setting{Name: ociBlockName, Of: r.String(), Secret: true, From: b.Place}
	if helper := values[ociHelperName]; helper != "" {
		set.Value, set.Secret = credentials.ProgramName(helper), false
	}
	l.config.note(set)
}

// ociKinds are the kinds of credentials, by the settings that each of them requires. The password may be empty.
var ociKinds = [][]string{{"username", "password"}, {"access_token", "refresh_token"}, {ociHelperName}}

// checkOCI reports whether the settings of an oci_credentials block are complete. Otherwise it adds an error.
func (l *loader) checkOCI(at Place, r oci.Repository, values map[string]string) bool {
	count := func(kind []string) (n int) {
		for _, name := range kind {
			if _, ok := values[name]; ok {
				n++
			}
		}
		return n
	}
	kinds := slices.DeleteFunc(slices.Clone(ociKinds), func(kind []string) bool { return count(kind) == 0 })
	const hint = "set username and password, access_token and refresh_token, or " + ociHelperName
	switch {
	case len(kinds) == 0:
		l.errorf(at, hint, "%s %q has no credentials", ociBlockName, r.String())
	case len(kinds) > 1:
		l.errorf(at, hint, "%s %q has several kinds of credentials", ociBlockName, r.String())
	case count(kinds[0]) < len(kinds[0]):
		l.errorf(at, "", "%s and %s must be set together", kinds[0][0], kinds[0][1])
	case kinds[0][0] == ociHelperName && r.Name != "":
		l.errorf(at, "use "+r.Registry+" as the label",
			"a credential helper has credentials for a whole registry, not for %s", r)
	case kinds[0][0] == ociHelperName:
		return l.ok(at, l.namesHelper(values[ociHelperName]))
	case values[kinds[0][0]] == "":
		l.errorf(at, "", "%s is empty", kinds[0][0])
	default:
		return true
	}
	return false
}

// namesHelper is checkDockerHelper for a setting.
func (l *loader) namesHelper(name string) error {
	err := l.checkDockerHelper(name)
	if err != nil {
		err = sources.WithHint(err, "write NAME for the program %s", credentials.ProgramName("NAME"))
	}
	return err
}

// ociDefaults reads the only oci_default_credentials block of all files.
func (l *loader) ociDefaults(b syntax.Entry) {
	o := l.config.oci
	if o.Defaults.Place != "" {
		l.errorf(b.Place, "keep one of them", "second %s block; the first is at %s", ociDefaultsName, o.Defaults.Place)
		return
	}
	d := credentials.Defaults{Place: b.Place.String(), Ambient: true}
	var list Place
	file := func(text string) error {
		d.Files = append(d.Files, l.beside(b.File, text))
		return l.checkPath("docker_style_config_files", text)
	}
	helper := func(name string) error {
		d.Helper = name
		return l.namesHelper(name)
	}
	l.read(b.Value, fields{
		"discover_ambient_credentials": l.noting(l.flag(&d.Ambient)),
		"docker_style_config_files": func(e syntax.Entry) {
			list, d.Explicit = e.Place, true
			l.noting(l.list(file))(e)
		},
		ociHelperName: l.noting(l.parsed(helper, textKinds...)),
	})
	if d.Explicit && !d.Ambient {
		l.errorf(list, "leave one of them out",
			"docker_style_config_files has no effect, because discover_ambient_credentials is false")
	}
	o.Defaults = d
}
