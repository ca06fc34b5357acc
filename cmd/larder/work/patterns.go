package work

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// A pattern selects packages to list: [[HOST/]NAMESPACE/]TYPE[@VERSION]. Each part may contain
// *, and an omitted part matches everything. In include and exclude, an omitted host means
// the default hosts instead: a list may show more.
type pattern struct {
	typed                          string
	host, namespace, typ, versions string
}

// readPatterns parses patterns.
func (s *Session) readPatterns(args []string) ([]pattern, error) {
	if err := s.misplacedVersion(args); err != nil {
		return nil, err
	}
	var all []pattern
	for _, arg := range args {
		address, version, _ := sources.CutVersion(arg)
		parts := strings.Split(strings.ToLower(address), "/")
		_, err := path.Match(address+version, "")
		if address == "" || err != nil || len(parts) > 3 || slices.Contains(parts, "") {
			err := fmt.Errorf("%q is not a pattern for providers", arg)
			return nil, report.Usage(sources.WithHint(err, "write it as [[HOST/]NAMESPACE/]TYPE, such as aws, hashicorp/* or */aws"))
		}
		parts = append(slices.Repeat([]string{"*"}, 3-len(parts)), parts...)
		all = append(all, pattern{arg, parts[0], parts[1], parts[2], version})
	}
	return all, nil
}

// matches reports whether the pattern selects a package.
func (p pattern) matches(id sources.PackageID) bool {
	in := func(pattern, text string) bool {
		ok, _ := path.Match(pattern, text) // the pattern is valid: it was parsed before
		return pattern == "" || ok
	}
	return in(p.host, string(id.Provider.Host)) && in(p.namespace, id.Provider.Namespace) &&
		in(p.typ, id.Provider.Type) && in(p.versions, id.Version.String())
}

// selected reports whether any pattern matches a package. Without patterns, all packages are
// selected.
func selected(patterns []pattern, id sources.PackageID) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p pattern) bool { return p.matches(id) })
}

// unmatched warns of patterns without a matching package, and suggests similar addresses.
func unmatched(out *report.Output, patterns []pattern, all []sources.PackageID) {
	for _, p := range patterns {
		if slices.ContainsFunc(all, p.matches) {
			continue
		}
		if near := nearestAddress(p.typed, providersOf(all)); near != "" {
			out.WarnHint(fmt.Sprintf("did you mean %q?", near), "no package matches %q", p.typed)
		} else {
			out.Warn("no package matches %q", p.typed)
		}
	}
}

// providersOf returns the providers of packages, without duplicates.
func providersOf(all []sources.PackageID) []sources.Provider {
	var providers []sources.Provider
	for _, id := range all {
		providers = append(providers, id.Provider)
	}
	slices.SortFunc(providers, sources.Provider.Compare)
	return slices.Compact(providers)
}

// nearestAddress returns the most similar address of the known providers, with as many parts
// as typed, or "" if there is none.
func nearestAddress(typed string, known []sources.Provider) string {
	address, _, _ := sources.CutVersion(typed)
	parts := strings.Count(address, "/")
	var written []string
	for _, p := range known {
		all := strings.Split(p.String(), "/")
		written = append(written, strings.Join(all[max(0, 2-parts):], "/"))
	}
	if near := sources.Nearest(address, written); near != address {
		return near
	}
	return ""
}
