package legacy

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Clues are the parts of a package's identity in the name and the path of a file.
type clues struct {
	typ      string           // as in the name, perhaps invalid
	version  string           // empty if unknown
	platform sources.Platform // the zero Platform if unknown
}

// decide adds found as a candidate. Its error lists the flags for everything that the name and the path lack.
func (s *search) decide(c clues, found Candidate) (err error) {
	var id sources.PackageID
	var unsaid, flags []string
	switch as := s.opts.As; {
	case as != nil:
		id.Provider, id.Version = as.Provider, as.Version
	case c.typ == "" || c.version == "":
		unsaid, flags = append(unsaid, "address", "version"), append(flags, "--as [HOST/]NAMESPACE/TYPE@VERSION")
	case s.opts.Prefix == "":
		unsaid, flags = append(unsaid, "namespace"), append(flags, "--namespace [HOST/]NAMESPACE")
	default:
		if id.Provider, id.Version, err = s.identity(c); err != nil {
			return err
		}
	}
	var none sources.Platform
	id.Platform = cmp.Or(c.platform, s.opts.Platform, sources.CurrentPlatform())
	if s.opts.Platform != none && s.opts.Platform != id.Platform {
		return fmt.Errorf("according to its path, it is for %s, not %s", c.platform, s.opts.Platform)
	}
	if len(unsaid) > 0 {
		err := fmt.Errorf("its path doesn't contain its %s", strings.Join(unsaid, ", "))
		return sources.WithHint(err, "add %s", strings.Join(flags, " "))
	}
	if base := filepath.Base(found.Path); found.Kind == Executable && !sources.NamesExecutable(base, id.Provider.Type) {
		err := fmt.Errorf("engines would not find %s in a file of this name", id.Provider)
		name := fmt.Sprintf("%s%s_v%s", sources.FilePrefix, id.Provider.Type, id.Version)
		return sources.WithHint(err, "copy it to a file called %s, and import that", name)
	}
	if c.typ != "" && c.typ != id.Provider.Type {
		const form = "%s: its name is that of the provider type %q, and --as has %q"
		err := fmt.Errorf(form, found.Path, c.typ, id.Provider.Type)
		s.found.Warnings = append(s.found.Warnings, err)
	}
	if before := s.first[id]; before != "" {
		s.pass(found.Path, "would be %s, like %s, which was found first", id, before)
		return nil
	}
	s.first[id], found.ID = found.Path, id
	s.found.Candidates = append(s.found.Candidates, found)
	return nil
}

// identity returns the provider and the version of the clues.
func (s *search) identity(c clues) (p sources.Provider, v sources.Version, err error) {
	p, err = sources.ParseProvider(s.opts.Prefix+"/"+c.typ, s.opts.Engine)
	switch {
	case err != nil && strings.Contains(c.typ, "_"):
		return p, v, fmt.Errorf("type %q: addresses cannot contain underscores", c.typ)
	case err != nil:
		return p, v, err
	}
	v, err = sources.ParseVersion(c.version)
	if err == nil && v.String() == "0.0.0" {
		err = errors.New("terraform and tofu never choose version 0.0.0")
	}
	if err != nil {
		err = sources.WithHint(err, "add --as [HOST/]NAMESPACE/TYPE@VERSION")
	}
	return p, v, err
}
