package legacy

import (
	"archive/zip"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// zip examines an archive. It is a package if it has the name of a published one, or if it was given and the options
// describe it.
func (s *search) zip(at spot) {
	typ, v, platform, published := fsmirror.ParseArchiveName(at.name())
	if !published && (!at.given() || s.opts.As == nil) {
		if err := errors.New("does not have the name of a published package"); at.given() || isProvider(at.name()) {
			s.problem(at, sources.WithHint(fmt.Errorf("it %w", err), "name it %sTYPE_VERSION_OS_ARCH.zip", sources.FilePrefix))
		} else {
			s.pass(at.path, "%v", err)
		}
		return
	}
	f, info, err := disk.OpenFile(at.path)
	if err != nil {
		s.unreadable(at, err)
		return
	}
	defer f.Close()
	files, err := archive.Files(f, info.Size(), archive.Limits{})
	if err == nil {
		err = s.archive(at, clues{typ: typ, version: v.String(), platform: platform}, files)
	}
	s.problem(at, err)
}

// archive adds an unchanged archive as a candidate. If it is in a mirror, there may be evidence for it.
func (s *search) archive(at spot, c clues, files []*zip.File) error {
	mirror, typ := "", c.typ
	if l, ok := parseHome(at.elems[:max(len(at.elems)-1, 0)], s.opts.Engine); ok && l.provider.Type == c.typ {
		c.provider = l.provider
		mirror = filepath.Join(append([]string{at.root}, l.base...)...)
	}
	if s.opts.As != nil {
		typ = s.opts.As.Provider.Type
	}
	if !slices.ContainsFunc(files, func(f *zip.File) bool { return sources.NamesExecutable(f.Name, typ) }) {
		err := fmt.Errorf("no executable in it is named %s, %[1]s_… or %[1]s.…", sources.FilePrefix+typ)
		return sources.WithHint(err, "larder imports archives unchanged: to give the provider another name, unpack the archive and import the executable")
	}
	return s.decide(c, Candidate{Kind: Archive, Path: at.path, Mirror: mirror})
}
