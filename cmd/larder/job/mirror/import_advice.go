package mirror

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
)

// adviseImport prints how to use the packages that were imported to a mirror, as text only, and warns if they hide others.
func adviseImport(m *site.Root, to string, there []legacy.Candidate) {
	var providers []sources.Provider
	for _, c := range there {
		if !slices.Contains(providers, c.ID.Provider) {
			providers = append(providers, c.ID.Provider)
		}
	}
	if implies(m, to) {
		for _, p := range providers {
			if published(p) {
				m.Out.Warn("%s: engines search %s by default, and no longer query a registry for this provider", p, to)
			}
		}
	}
	if m.Flags.DryRun {
		return
	}
	lines := requiredProviders(there)
	if !job.Searches(m, to) {
		lines = append(append(lines, ""), configuring(to, providers, registryOf(there))...)
	}
	if moved := moving(there); len(moved) > 0 {
		lines = append(append(lines, "", "# once for each state of Terraform 0.12 that has them"), moved...)
	}
	m.Out.AtLast(func() { m.Out.Copy(slices.Concat([]string{""}, lines, []string{""})...) })
}

// published reports whether a registry probably has the provider too.
func published(p sources.Provider) bool {
	return p.Host.Default()
}

// implies reports whether engines search the mirror without any configuration.
func implies(m *site.Root, to string) bool {
	return m.Config.Implied && slices.ContainsFunc(m.Config.ImpliedDirs(), func(dir string) bool {
		return site.Resolve(site.Absolute(m.Dir, dir)) == site.Resolve(filepath.Clean(to))
	})
}

// requiredProviders returns the block for modules that use the providers.
func requiredProviders(there []legacy.Candidate) []string {
	lines := []string{"# in each module that uses them", "terraform {", "  required_providers {"}
	for _, c := range there {
		line := fmt.Sprintf("    %s = { source = %q }", c.ID.Provider.Type, c.ID.Provider)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return append(lines, "  }", "}")
}

// configuring returns a CLI configuration with which engines install the providers from the
// mirror. It lists each provider: a pattern for a whole host would also select all other
// providers of that host. It does not exclude providers from direct if a registry may have
// them too. Registry is the host that serves all of them as a registry; it may be empty.
func configuring(to string, providers []sources.Provider, registry sources.Host) []string {
	var include, exclude []string
	for _, p := range providers {
		name := fmt.Sprintf("%q", p)
		include = append(include, name)
		if !published(p) {
			exclude = append(exclude, name)
		}
	}
	path, err := job.HclPath(to)
	if err != nil {
		return nil
	}
	title := "# in the CLI configuration"
	if registry != "" {
		title += fmt.Sprintf("; clients of larder serve at %s need none", registry)
	}
	lines := []string{
		title, "provider_installation {", "  filesystem_mirror {",
		"    path    = " + path, fmt.Sprintf("    include = [%s]", strings.Join(include, ", ")),
		"  }",
	}
	if len(exclude) == 0 {
		return append(lines, "  direct {}", "}")
	}
	return append(lines, "  direct {", fmt.Sprintf("    exclude = [%s]", strings.Join(exclude, ", ")), "  }", "}")
}

// registryOf returns the host of signed builds of the user's own providers, for which larder serve is a registry. It is
// empty if there are others, or several hosts.
func registryOf(there []legacy.Candidate) sources.Host {
	host := there[0].ID.Provider.Host
	for _, c := range there {
		if !own(c) || !c.Signed() || c.ID.Provider.Host != host {
			return ""
		}
	}
	return host
}

// own reports whether a candidate is a build of the user's own provider, for a registry of theirs.
func own(c legacy.Candidate) bool {
	return (c.Built || c.Signed()) && !published(c.ID.Provider)
}

// moving returns the commands that replace provider addresses in states. Terraform itself
// replaces those of HashiCorp's providers, and Terraform 0.12 had none for a registry of the user's.
func moving(there []legacy.Candidate) []string {
	var lines []string
	for _, c := range there {
		p := c.ID.Provider
		if !c.Former() || published(p) && p.Namespace == "hashicorp" || own(c) {
			continue
		}
		line := fmt.Sprintf("terraform state replace-provider registry.terraform.io/-/%s %s", p.Type, p)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}
