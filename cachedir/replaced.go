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
)

// replacedDir is where the directory of installed packages has those that were replaced
// and had changed files, in their place below it. No engine looks there, as it is no host
// name, and no sweep does. There is at most one for each installed package.
const replacedDir = ".larder-replaced"

// A content is what a package consists of, as far as that is known.
type content struct {
	h1    sources.Hash
	sizes sums // in bytes, of each file
	sums  sums // nil if they are not known
}

func contentOf(h1 sources.Hash, files []mark, s sums) content {
	c := content{h1, make(sums, len(files)), s}
	for _, m := range files {
		c.sizes[m.Path] = strconv.FormatInt(m.Size, 10)
	}
	return c
}

// changed says how what is installed in target differs from the content that takes its
// place. It is not ok if nothing would be lost: there are no files, a link, or the same
// content. It reads files only where all have the right sizes.
func (c content) changed(ctx context.Context, target string) (how string, ok bool) {
	info, err := os.Lstat(target)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist), err == nil && info.Mode()&fs.ModeSymlink != 0:
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
	if how := contentOf("", marks, nil).sizes.differ(c.sizes, ""); how != "" {
		return how, true
	}
	now, err := hash(ctx, target)
	switch {
	case err != nil:
		return unscanned(target, err), true
	case now.H1 == c.h1:
		return "", false
	}
	return now.Sums.differ(c.sums, ""), true
}

// unscanned says why a package in target can't be read, and which file of it.
func unscanned(target string, err error) string {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		if name, relErr := filepath.Rel(target, file.Path); relErr == nil {
			return name + ": " + file.Err.Error()
		}
	}
	return strings.TrimPrefix(err.Error(), sources.ErrNotFound.Error()+": ")
}

// A replacement is of an installed package that has changed files.
type replacement struct {
	id   sources.PackageID
	how  string    // they were changed; empty if that is not known
	home *disk.Dir // where it is kept
}

// replacing prepares for the replacement of the package installed in target, below the
// directory providers, by one with content c. It returns nil if nothing would be lost: nor
// is it if was, the record of what is installed, is that of a package as it once came.
func (c content) replacing(ctx context.Context, providers *disk.Dir, id sources.PackageID, target string, was record) (*replacement, error) {
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
	home, err := providers.MakeSub(path.Join(replacedDir, path.Dir(id.Path())))
	if err != nil {
		return nil, err
	}
	return &replacement{id, how, home}, nil
}

// close is to be called in the end, also of nil.
func (r *replacement) close() {
	if r != nil {
		r.home.Close()
	}
}

// keep moves the replaced package, called old in a scratch directory, to where the user
// finds it. The one that was kept there before is removed with the scratch directory. The
// error is the warning that says so.
func (r *replacement) keep(scratch *disk.Scratch, old string) error {
	leaf := path.Base(r.id.Path())
	if _, err := scratch.Replace(old, r.home, leaf); err != nil {
		return scratch.Rescue(old, err)
	}
	how := ""
	if r.how != "" {
		how = ": " + r.how
	}
	return fmt.Errorf("%s: replaced the installed package, whose files were changed%s; the old files are now in %s", r.id, how, r.home.Path(leaf))
}
