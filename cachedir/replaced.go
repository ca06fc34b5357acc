package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// These directories contain replaced packages whose files had been changed, each at
// its original relative path, and at most one for each package. One is below the
// directory of installed packages. Engines ignore it because its name is not a host
// name, and no sweep removes it. The other one is in the state of a cache.
const (
	replacedDir   = ".larder-replaced"
	replacedAside = "aside/" + replacedName
	replacedName  = "replaced"
)

// A content describes the contents of a package, as far as known.
type content struct {
	h1    sources.Hash
	sizes store.Sums // in bytes, by file
	sums  store.Sums // nil if unknown
}

func contentOf(h1 sources.Hash, files []mark, s store.Sums) content {
	c := content{h1, make(store.Sums, len(files)), s}
	for _, m := range files {
		c.sizes[m.Path] = strconv.FormatInt(m.Size, 10)
	}
	return c
}

// changed describes how the package installed in target differs from the content that
// replaces it. It reports false if the replacement loses nothing: target has no
// files, is a link or has the same contents. It reads files only if all sizes match.
func (c content) changed(ctx context.Context, target string) (how string, ok bool) {
	info, err := os.Lstat(target)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist), err == nil && disk.IsLink(info.Mode()):
		return "", false
	case err == nil && !info.IsDir():
		return "it was not a directory", true
	}
	marks, err := scan(target)
	if err != nil {
		return unscanned(target, err), true
	}
	if len(marks) == 0 {
		return "", false
	}
	if how := contentOf("", marks, nil).sizes.Differ(c.sizes, ""); how != "" {
		return how, true
	}
	now, err := hash(ctx, target)
	switch {
	case err != nil:
		return unscanned(target, err), true
	case now.H1 == c.h1:
		return "", false
	}
	return now.Sums.Differ(c.sums, ""), true
}

// unscanned returns the reason why a package in target can't be read, and the name of
// the file.
func unscanned(target string, err error) string {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		if name, relErr := filepath.Rel(target, file.Path); relErr == nil {
			return name + ": " + file.Err.Error()
		}
	}
	return strings.TrimPrefix(err.Error(), sources.ErrNotFound.Error()+": ")
}

// A replacement replaces a package whose files were changed.
type replacement struct {
	id   sources.PackageID
	what string    // "installed", "cached"
	how  string    // how they were changed; empty if unknown
	home *disk.Dir // directory that keeps the old package
}

// replacing prepares the replacement of the package id in target, which is in a
// working directory, or in a cache with a state, by a package with content c. It
// returns nil if the replacement loses nothing. That is also the case if was, the
// record of the package, describes an unchanged package.
func (c content) replacing(ctx context.Context, in *disk.Dir, cached bool, id sources.PackageID, target string, was record) (*replacement, error) {
	if was.H1 != "" && was.Origin != "" && was.was == nil {
		return nil, nil
	}
	how, ok := c.changed(ctx, target)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !ok {
		return nil, nil
	}
	what, kept := "installed", replacedDir
	if cached {
		what, kept = "cached", replacedAside
	}
	home, err := in.MakeSub(path.Join(kept, path.Dir(id.Path())))
	if err != nil {
		return nil, err
	}
	return &replacement{id, what, how, home}, nil
}

// close releases the directories of r. It accepts nil.
func (r *replacement) close() {
	if r != nil {
		r.home.Close()
	}
}

// keep moves the replaced package, called old in a scratch directory, to its place
// among those that are kept. The package that was kept there before is removed with the
// scratch directory. It returns a warning with the new path.
func (r *replacement) keep(scratch *disk.Scratch, old string) error {
	leaf := path.Base(r.id.Path())
	if _, err := scratch.Replace(old, r.home, leaf); err != nil {
		return scratch.Rescue(old, err)
	}
	how := ""
	if r.how != "" {
		how = ": " + r.how
	}
	return fmt.Errorf("%s: replaced the %s package, whose files were changed%s; the old files are now in %s", r.id, r.what, how, r.home.Path(leaf))
}
