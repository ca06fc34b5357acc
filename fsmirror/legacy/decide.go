package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
)

const whereItLies = "its path"

// Clues are the facts from which the identity of a file is inferred.
type clues struct {
	typ          string           // as in the name, perhaps invalid
	provider     sources.Provider // inferred from the path; the zero Provider if unknown
	version      string           // empty if unknown
	versionFrom  string
	protocol     string
	platform     sources.Platform // the zero Platform if unknown; the header may contain it
	platformFrom string
	header       header
}

// cluesOf returns the clues in an executable's name and header.
func cluesOf(file string, h header) clues {
	n, _ := parseExecutableName(file)
	return clues{typ: n.typ, version: n.version, versionFrom: "its name", protocol: n.protocol, header: h}
}

// clues returns the clues in the path of an unpacked package in a mirror, and in the header of
// its executable.
func (l layout) clues(h header) clues {
	return clues{
		typ: l.provider.Type, version: l.version.String(), versionFrom: whereItLies,
		provider: l.provider, platform: l.platform, platformFrom: whereItLies, header: h,
	}
}

// decide adds found as a candidate for each platform of the file.
func (s *search) decide(c clues, found Candidate) error {
	var id sources.PackageID
	var from Inferred
	var err error
	if id.Provider, from.Provider, err = s.provider(c); err != nil {
		return err
	}
	if id.Version, from.Version, err = s.version(c); err != nil {
		return err
	}
	var platforms []sources.Platform
	if platforms, from.Platform, err = s.platforms(c); err != nil {
		return err
	}
	for _, id.Platform = range platforms {
		found.ID, found.Inferred, found.clues, found.Warnings = id, from, c, warnings(c, id)
		if found.Kind == Executable || found.Kind == Bundled {
			was := path.Base(filepath.ToSlash(cmp.Or(found.Within, found.Path)))
			found.files = slices.Clone(found.files)
			found.files[0].name = executableName(was, id)
			if is := found.files[0].name; is != was {
				found.Warnings = append(found.Warnings, fmt.Sprintf("it is renamed to %s in the package, because engines would not find %s", is, was))
			}
		}
		s.found.Candidates = append(s.found.Candidates, found)
	}
	return nil
}

// required returns the only provider of a type that the root module requires, or why there is none.
func (s *search) required(typ string) (p sources.Provider, err error) {
	var all []string
	for _, r := range s.opts.Required {
		if r.Type == typ {
			p = r
			all = append(all, r.String())
		}
	}
	const none = "the name has no namespace"
	switch {
	case len(all) > 1:
		return p, fmt.Errorf(none+", and the root module here requires %s", strings.Join(all, " and "))
	case len(all) == 1:
		return p, nil
	case s.opts.Unread != nil:
		return p, fmt.Errorf(none+", and the root module here can't be read: %v", s.opts.Unread)
	}
	return p, fmt.Errorf(none+", and no root module here requires a provider of type %q", typ)
}

// provider returns the provider and what it is inferred from.
func (s *search) provider(c clues) (sources.Provider, string, error) {
	switch {
	case s.opts.As != nil:
		return s.opts.As.Provider, "--as", nil
	case c.provider.Legacy(), c.provider.BuiltIn():
		err := fmt.Errorf("%s is not a provider that can be installed", c.provider)
		return sources.Provider{}, "", sources.WithHint(err, "name it with --as HOST/NAMESPACE/TYPE@VERSION")
	case c.provider != sources.Provider{}:
		return c.provider, whereItLies, nil
	case s.opts.Prefix == "":
		p, err := s.required(c.typ)
		if err == nil {
			return p, "the root module", nil
		}
		return sources.Provider{}, "", sources.WithHint(err,
			"add --namespace registry.terraform.io/hashicorp if it is HashiCorp's; for your own provider choose one, such as example.com/acme")
	}
	p, err := sources.ParseProvider(s.opts.Prefix+"/"+c.typ, s.opts.Engine)
	if err != nil && strings.Contains(c.typ, "_") {
		local, _, _ := strings.Cut(c.typ, "_")
		err = sources.WithHint(fmt.Errorf("type %q: addresses cannot contain underscores", c.typ),
			"rename it with --as %s/%s@VERSION; in required_providers, use the local name %q if its resources are named %s_…",
			s.opts.Prefix, strings.ReplaceAll(c.typ, "_", "-"), local, c.typ)
	}
	return p, "--namespace", err
}

func (s *search) version(c clues) (v sources.Version, from string, err error) {
	const say = "give the version with --as HOST/NAMESPACE/TYPE@VERSION"
	if s.opts.As != nil {
		return s.opts.As.Version, "--as", nil
	}
	if c.version == "" {
		return v, "", sources.WithHint(errors.New("its name contains no version"), say)
	}
	v, err = sources.ParseVersion(c.version)
	if err == nil && v.String() == "0.0.0" {
		err = errors.New("terraform and tofu never choose version 0.0.0")
	}
	if err != nil {
		err = sources.WithHint(err, say)
	}
	return v, c.versionFrom, err
}

// platforms returns the platforms of the file and what they are inferred from. A
// universal binary has several.
func (s *search) platforms(c clues) ([]sources.Platform, string, error) {
	var none sources.Platform
	said, from := c.platform, c.platformFrom
	if said == none {
		said, from = s.opts.Platform, "--platform"
	}
	switch {
	case s.opts.Platform != none && said != s.opts.Platform:
		return nil, "", fmt.Errorf("according to %s, it is for %s, not %s", from, said, s.opts.Platform)
	case said == none && c.header.format == "":
		return nil, "", sources.WithHint(errors.New("neither its directory nor its contents name the platform"),
			"add --platform OS_ARCH")
	case said == none:
		return c.header.platforms(), c.header.String(), nil
	case c.header.contradicts(said):
		return nil, "", sources.WithHint(fmt.Errorf("according to %s, it is for %s, but it is an executable for %s", from, said, strings.Join(sources.Texts(c.header.platforms()), " and ")),
			"move it to the right directory, or leave it out")
	}
	return []sources.Platform{said}, from, nil
}

// warnings returns warnings that a user should read before using the package.
func warnings(c clues, id sources.PackageID) []string {
	var all []string
	if protocol, err := strconv.Atoi(c.protocol); err == nil && protocol < 5 {
		all = append(all, fmt.Sprintf("its name states protocol %d, but terraform and tofu require 5 or later; many providers with such a name support both", protocol))
	}
	if parsed, err := sources.ParseVersion(c.version); err == nil && parsed != id.Version {
		all = append(all, fmt.Sprintf("according to its name, it is version %s", c.version))
	}
	return all
}
