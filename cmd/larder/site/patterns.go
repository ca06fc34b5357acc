package site

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// A Pattern selects packages to list: [[HOST/]NAMESPACE/]TYPE[@VERSION]. Each part may contain
// *, and an omitted part matches everything. In include and exclude, an omitted host means
// the default hosts instead: a list may show more.
type Pattern struct {
	typed                          string
	Host, Namespace, Typ, Versions string
}

// ReadPatterns parses patterns.
func (s *Site) ReadPatterns(args []string) ([]Pattern, error) {
	if err := s.MisplacedVersion(args); err != nil {
		return nil, err
	}
	var all []Pattern
	for _, arg := range args {
		address, version, _ := sources.CutVersion(arg)
		parts := strings.Split(strings.ToLower(address), "/")
		_, err := path.Match(address+version, "")
		if address == "" || err != nil || len(parts) > 3 || slices.Contains(parts, "") {
			err := fmt.Errorf("%q is not a pattern for providers", arg)
			return nil, report.Usage(sources.WithHint(err,
				"write it as [[HOST/]NAMESPACE/]TYPE, such as aws, hashicorp/* or */aws"))
		}
		parts = append(slices.Repeat([]string{"*"}, 3-len(parts)), parts...)
		all = append(all, Pattern{arg, parts[0], parts[1], parts[2], version})
	}
	return all, nil
}

// Matches reports whether the pattern selects a package.
func (p Pattern) Matches(id sources.PackageID) bool {
	return p.MatchesProvider(id.Provider) && matches(p.Versions, id.Version.String())
}

// MatchesProvider reports whether the pattern selects packages of a provider, if it has the versions.
func (p Pattern) MatchesProvider(of sources.Provider) bool {
	return matches(p.Host, string(of.Host)) && matches(p.Namespace, of.Namespace) && matches(p.Typ, of.Type)
}

func matches(pattern, text string) bool {
	ok, _ := path.Match(pattern, text) // the pattern is valid: it was parsed before
	return pattern == "" || ok
}

// Selected reports whether any pattern matches a package. Without patterns, all packages are
// selected.
func Selected(patterns []Pattern, id sources.PackageID) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p Pattern) bool { return p.Matches(id) })
}

// Unmatched warns of patterns without a matching package, and suggests similar addresses.
func Unmatched(out *report.Output, patterns []Pattern, all []sources.PackageID) {
	for _, p := range patterns {
		if slices.ContainsFunc(all, p.Matches) {
			continue
		}
		if near := NearestAddress(p.typed, ProvidersOf(all)); near != "" {
			out.WarnHint(fmt.Sprintf("did you mean %q?", near), "no package matches %q", p.typed)
		} else {
			out.Warn("no package matches %q", p.typed)
		}
	}
}

// ProvidersOf returns the providers of packages, without duplicates.
func ProvidersOf(all []sources.PackageID) []sources.Provider {
	var providers []sources.Provider
	for _, id := range all {
		providers = append(providers, id.Provider)
	}
	slices.SortFunc(providers, sources.Provider.Compare)
	return slices.Compact(providers)
}

// NearestAddress returns the most similar address of the known providers, with as many parts
// as typed, or "" if there is none.
func NearestAddress(typed string, known []sources.Provider) string {
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
