package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
)

// advise says how to use what has been imported, for people alone, and warns of
// what it hides.
func (im *importing) advise(there []legacy.Candidate) {
	var providers []sources.Provider
	for _, c := range there {
		if !slices.Contains(providers, c.ID.Provider) {
			providers = append(providers, c.ID.Provider)
		}
	}
	if im.implies() {
		for _, p := range providers {
			if im.published(p) {
				im.out.Warn("engines search %s without being told, and ask no registry any more for %s", im.to, p)
			}
		}
	}
	if im.flags.dryRun {
		return
	}
	lines := requiredProviders(there)
	if !im.implies() && !im.configured() {
		lines = append(append(lines, ""), im.configuring(providers)...)
	}
	if moved := im.moving(there); len(moved) > 0 {
		lines = append(append(lines, "", "# once for each state of Terraform 0.12 that has them"), moved...)
	}
	im.out.Copyable(lines)
}

// published reports whether it is likely that a registry has the provider too.
func (im *importing) published(p sources.Provider) bool {
	return p.Host == sources.Terraform.DefaultHost() || p.Host == sources.OpenTofu.DefaultHost()
}

// implies reports whether engines search the mirror without being told.
func (im *importing) implies() bool {
	return im.config.Implied && slices.ContainsFunc(im.config.ImpliedDirs(), im.isMirror)
}

// configured reports whether the CLI configuration names the mirror.
func (im *importing) configured() bool {
	return slices.ContainsFunc(im.config.Methods, func(m cliconfig.Method) bool {
		return m.Kind == cliconfig.FilesystemMirror && im.isMirror(m.Path)
	})
}

// isMirror reports whether a directory of the configuration is the mirror, by whatever
// links.
func (im *importing) isMirror(dir string) bool {
	return resolve(absolute(im.dir, dir)) == resolve(filepath.Clean(im.to))
}

// requiredProviders is what modules that use the providers say.
func requiredProviders(there []legacy.Candidate) []string {
	lines := []string{"# in each module that uses them", "terraform {", "  required_providers {"}
	for _, c := range there {
		line := fmt.Sprintf("    %s = { source = %q }", c.LocalName(), c.ID.Provider)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return append(lines, "  }", "}")
}

// configuring is what the CLI configuration says so that the mirror is searched,
// and hosts that are none are not asked.
func (im *importing) configuring(providers []sources.Provider) []string {
	var include, exclude []string
	for _, p := range providers {
		pattern := fmt.Sprintf("%q", string(p.Host)+"/*/*")
		if im.published(p) {
			include = append(include, fmt.Sprintf("%q", p))
		} else if !slices.Contains(include, pattern) {
			include, exclude = append(include, pattern), append(exclude, pattern)
		}
	}
	lines := []string{
		"# in the CLI configuration", "provider_installation {", "  filesystem_mirror {",
		fmt.Sprintf("    path    = %q", im.to), fmt.Sprintf("    include = [%s]", strings.Join(include, ", ")),
		"  }", "  direct {",
	}
	if len(exclude) > 0 {
		lines = append(lines, fmt.Sprintf("    exclude = [%s]", strings.Join(exclude, ", ")))
	}
	return append(lines, "  }", "}")
}

// moving are the commands that make states know providers by their addresses.
// Terraform does so by itself for HashiCorp's.
func (im *importing) moving(there []legacy.Candidate) []string {
	var lines []string
	for _, c := range there {
		p := c.ID.Provider
		if c.FormerType() == "" || im.published(p) && p.Namespace == "hashicorp" {
			continue
		}
		line := fmt.Sprintf("terraform state replace-provider registry.terraform.io/-/%s %s", c.FormerType(), p)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
