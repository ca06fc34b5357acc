package legacy

import (
	"archive/zip"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// zip examines an archive. It is a package if it has the name of a published one, or
// if it contains exactly one provider and not Terraform.
func (s *search) zip(at spot) {
	named := isProvider(at.name())
	f, info, err := disk.OpenFile(at.path)
	if err != nil {
		s.unreadable(at, err)
		return
	}
	defer f.Close()
	files, err := archive.Files(f, info.Size(), archive.Limits{})
	providers, terraform := contents(files)
	typ, version, platform, published := fsmirror.ParseArchiveName(at.name())
	switch {
	case err != nil && (named || at.given()):
		s.problem(at, err)
	case err != nil:
		s.pass(at.path, "cannot be read as an archive: %v", err)
	case published:
		const itsName = "its name"
		c := clues{typ: typ, version: version.String(), versionFrom: itsName, platform: platform, platformFrom: itsName}
		s.problem(at, s.published(at, c, providers))
	case len(providers) == 1 && !terraform && !strings.Contains(providers[0].Name, "/"): // a package under another name
		s.problem(at, s.archive(at, cluesOf(providers[0].Name, header{}), "", providers))
	case len(providers) > 0:
		for _, p := range providers {
			s.problem(at, s.bundled(at, p))
		}
	case named || at.given():
		s.problem(at, errors.New("it contains no provider"))
	default:
		s.pass(at.path, "contains no provider")
	}
}

// contents returns the providers among files, and whether one of the files is
// Terraform.
func contents(files []*zip.File) (providers []*zip.File, terraform bool) {
	for _, f := range files {
		switch base := path.Base(f.Name); {
		case isProvider(base):
			providers = append(providers, f)
		case base == "terraform", base == "terraform.exe":
			terraform = true
		}
	}
	return providers, terraform
}

func headerInZip(f *zip.File) (header, error) {
	r, err := f.Open()
	if err != nil {
		return header{}, err
	}
	defer r.Close()
	return readHeader(r)
}

// published examines an archive that has the name of a published one.
func (s *search) published(at spot, c clues, providers []*zip.File) error {
	mirror := ""
	if l, ok := parseHome(at.elems[:max(len(at.elems)-1, 0)], s.opts.Engine); ok && l.provider.Type == c.typ {
		c.provider = l.provider
		mirror = filepath.Join(append([]string{at.root}, l.base...)...)
	}
	return s.archive(at, c, mirror, providers)
}

// archive adds an unchanged archive as a candidate. If it is from a mirror, there may
// be evidence for it.
func (s *search) archive(at spot, c clues, mirror string, providers []*zip.File) error {
	typ := c.typ
	if s.opts.As != nil {
		typ = s.opts.As.Provider.Type
	}
	i := slices.IndexFunc(providers, func(f *zip.File) bool { return sources.NamesExecutable(f.Name, typ) })
	if i < 0 {
		err := fmt.Errorf("no executable in it is named %s, %[1]s_… or %[1]s.…", sources.FilePrefix+typ)
		return sources.WithHint(err, "larder imports archives unchanged: to give the provider another name, unpack the archive and import the executable")
	}
	var err error
	if c.header, err = headerInZip(providers[i]); err != nil {
		return err
	}
	return s.decide(c, Candidate{Kind: Archive, Path: at.path, Mirror: mirror})
}

// bundled examines a provider in an archive with several. Since 0.13 these are in the
// layout of a mirror.
func (s *search) bundled(at spot, provider *zip.File) error {
	h, err := headerInZip(provider)
	if err != nil {
		return fmt.Errorf("%s: %w", provider.Name, err)
	}
	c := cluesOf(path.Base(provider.Name), h)
	if p, ok := platformAtEnd(at.name()); ok {
		c.platform, c.platformFrom = p, "the archive's name"
	}
	if l, ok := parseUnpacked(strings.Split(path.Dir(provider.Name), "/"), s.opts.Engine); ok {
		c = l.clues(h)
	}
	packed := file{from: at.path, entry: provider.Name, runs: true}
	err = s.decide(c, Candidate{Kind: Bundled, Path: at.path, Within: provider.Name, files: []file{packed}})
	if err != nil {
		return fmt.Errorf("%s: %w", provider.Name, err)
	}
	return nil
}
