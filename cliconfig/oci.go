package cliconfig

import (
	"regexp"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// interpolation is a ${…} or %{…} of a template. Doubling the first character
// escapes it, which is for the caller to take out before.
var interpolation = regexp.MustCompile(`[$%]\{[^}]*\}`)

// checkTemplate checks an OCI mirror's repository template as far as is
// possible without evaluating it: brackets match, and each variable is there
// that the patterns leave open.
func (l *loader) checkTemplate(at place, template string, body *node) bool {
	text := strings.NewReplacer("$${", "", "%%{", "").Replace(template)
	if rest := interpolation.ReplaceAllString(text, ""); strings.Contains(rest, "${") || strings.Contains(rest, "%{") {
		l.errorf(at, "", "repository_template has an unclosed interpolation")
		return false
	}
	used := strings.Join(interpolation.FindAllString(text, -1), " ")
	include, ok := l.quietly().patternList(body, "include")
	if !ok {
		return true // reported with the patterns
	}
	for _, v := range []struct {
		name    string
		segment func(sources.Pattern) string
	}{
		{"hostname", func(pt sources.Pattern) string { return pt.Host }},
		{"namespace", func(pt sources.Pattern) string { return pt.Namespace }},
		{"type", func(pt sources.Pattern) string { return pt.Type }},
	} {
		if !fixed(include, v.segment) && !regexp.MustCompile(`\b`+v.name+`\b`).MatchString(used) {
			l.errorf(at, "use ${"+v.name+"} in it, or include providers of one "+v.name+" only",
				"repository_template gives providers of different %ss one repository", v.name)
			ok = false
		}
	}
	return ok
}

// quietly is l for asking twice: what it reports is lost.
func (l *loader) quietly() *loader { return &loader{Machine: l.Machine, engine: l.engine} }

// Larder fetches nothing from OCI registries. Their credentials are checked all
// the same, so that a file is as good or bad as it is to OpenTofu.

func (l *loader) ociDefaultCredentials(e entry) {
	if e.assigned || e.value.kind != isObject || labelled(e.value) {
		l.errorf(e.place, "write oci_default_credentials { … }", "oci_default_credentials must be a block without labels")
		return
	}
	if l.ociDefaults.line > 0 {
		l.errorf(e.place, "", "second oci_default_credentials block; the first is at %s", l.ociDefaults)
		return
	}
	l.ociDefaults = e.place
	discover, set := l.boolOf(e.value, "discover_ambient_credentials")
	_, files, _ := l.stringsOf(e.value, "docker_style_config_files")
	if set && !discover && files {
		l.errorf(e.place, "leave out one of the two", "docker_style_config_files has no use with discover_ambient_credentials = false")
	}
	if helper, at, ok := l.stringOf(e.value, "docker_credentials_helper"); ok {
		l.checkHelperName(at, helper)
	}
}

func (l *loader) checkHelperName(at place, name string) {
	if name == "" || strings.ContainsAny(name, `/\`) {
		l.errorf(at, "give what follows docker-credential- in the program's name", "not the name of a credentials helper: %q", name)
	}
}

func (l *loader) ociCredentials(e entry) {
	for _, b := range l.blocks(&node{entries: []entry{e}}, "oci_credentials") {
		if at, ok := l.ociLabels[b.label]; ok {
			l.errorf(b.place, "", "second oci_credentials %q; the first is at %s", b.label, at)
			continue
		}
		l.ociLabels[b.label] = b.place
		l.ociGroup(b)
	}
}

// ociGroup checks that a block has exactly one way to log in, and all of it.
func (l *loader) ociGroup(b block) {
	var used int
	for _, group := range [][]string{{"username", "password"}, {"access_token", "refresh_token"}, {"docker_credentials_helper"}} {
		var have, missing []string
		for _, name := range group {
			text, at, ok := l.stringOf(b.body, name)
			if !ok {
				missing = append(missing, name)
				continue
			}
			have = append(have, name)
			if name == "docker_credentials_helper" {
				l.checkHelperName(at, text)
			}
		}
		if len(have) == 0 {
			continue
		}
		used++
		if len(missing) > 0 {
			l.errorf(b.place, "", "oci_credentials %q has %s without %s", b.label, have[0], missing[0])
		}
		if have[0] == "docker_credentials_helper" && strings.Contains(b.label, "/") {
			l.errorf(b.place, "leave out the path", "oci_credentials %q has a helper, which is for whole domains", b.label)
		}
	}
	if used != 1 {
		l.errorf(b.place, "", "oci_credentials %q must have one of username, access_token and docker_credentials_helper, not %d", b.label, used)
	}
}
