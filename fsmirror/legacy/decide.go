package legacy

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
)

const whereItLies = "where it lies"

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

// decide adds a candidate for each platform of the file.
func (s *search) decide(c clues, found func(sources.PackageID) Candidate) error {
	var id sources.PackageID
	var from Inferred
	var err error
	if id.Provider, from.Provider, err = s.provider(c); err != nil {
		return err
	}
	if id.Version, from.Version, err = s.version(c); err != nil {
		return err
	}
	platforms, platformFrom, err := s.platforms(c)
	if err != nil {
		return err
	}
	from.Platform = platformFrom
	for _, id.Platform = range platforms {
		candidate := found(id)
		candidate.ID, candidate.Inferred, candidate.clues = id, from, c
		candidate.Warnings = warnings(candidate)
		s.found.Candidates = append(s.found.Candidates, candidate)
	}
	return nil
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
		return sources.Provider{}, "", sources.WithHint(errors.New("the name has no namespace"),
			"add --namespace registry.terraform.io/hashicorp if it is HashiCorp's; for your own provider choose one, such as example.com/acme")
	}
	p, err := sources.ParseProvider(s.opts.Prefix+"/"+c.typ, s.opts.Engine)
	if err != nil && strings.Contains(c.typ, "_") {
		local, _, _ := strings.Cut(c.typ, "_")
		err = sources.WithHint(fmt.Errorf("type %q: addresses allow no underscores", c.typ),
			"rename it with --as %s/%s@VERSION; where a module requires it, %q is its local name if its resources are named %s_…",
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
		return nil, "", fmt.Errorf("%s says that it is for %s, not %s", from, said, s.opts.Platform)
	case said == none && c.header.format == "":
		return nil, "", sources.WithHint(errors.New("neither its directory nor its contents name the platform"),
			"add --platform OS_ARCH")
	case said == none:
		return c.header.platforms(), c.header.String(), nil
	case c.header.contradicts(said):
		return nil, "", sources.WithHint(fmt.Errorf("%s says that it is for %s, but it is an executable for %s", from, said, strings.Join(sources.Texts(c.header.platforms()), " and ")),
			"move it to the right directory, or leave it out")
	}
	return []sources.Platform{said}, from, nil
}

// warnings returns the warnings that a user should read before using a candidate.
func warnings(c Candidate) []string {
	var all []string
	if protocol, err := strconv.Atoi(c.clues.protocol); err == nil && protocol < 5 {
		all = append(all, fmt.Sprintf("its name states protocol %d, but terraform and tofu require 5 or later; many providers with such a name support both", protocol))
	}
	if v := c.clues.version; v != "" {
		if parsed, err := sources.ParseVersion(v); err == nil && parsed != c.ID.Version {
			all = append(all, fmt.Sprintf("its name says that it is version %s", v))
		}
	}
	was := filepath.Base(c.Path)
	if c.Within != "" {
		was = filepath.Base(filepath.FromSlash(c.Within))
	}
	if len(c.files) == 1 && c.Kind != Directory && c.files[0].name != was {
		all = append(all, fmt.Sprintf("it is named %s in the package, as engines would not find %s", c.files[0].name, was))
	}
	return all
}
