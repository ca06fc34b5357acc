package builder

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Abort is [Builder.Close] after a failure. If Open created the directory of the mirror, and there is no
// package in it, Abort removes it, with the directories above it that Open created. Left reports whether it
// stays for an interrupted download or import, which the next run continues.
func (b *Builder) Abort() (left bool, err error) {
	err = b.Close()
	all, readErr := os.ReadDir(b.path)
	if b.made == "" || readErr != nil || len(all) > 1 || len(all) == 1 && all[0].Name() != own {
		return false, err
	}
	for _, name := range []string{imports, partial} {
		if begun, _ := os.ReadDir(filepath.Join(b.path, own, name)); len(begun) > 0 {
			return true, err
		}
	}
	return false, errors.Join(err, b.removeMade())
}

// removeMade removes the directories that Open created.
func (b *Builder) removeMade() error {
	parent, err := disk.Open(filepath.Dir(b.path))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.RemoveTree(filepath.Base(b.path)); err != nil || b.made == b.path {
		return err
	}
	above, err := disk.Open(filepath.Dir(b.made))
	if err != nil {
		return err
	}
	defer above.Close()
	rel, err := filepath.Rel(filepath.Dir(b.made), filepath.Dir(b.path))
	if err != nil {
		return err
	}
	return above.RemoveEmpty(filepath.ToSlash(rel))
}

// topMissing returns the topmost directory that must be created for dir, or "" if dir exists.
func topMissing(dir string) (top string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return top
		}
		top, dir = dir, filepath.Dir(dir)
	}
}

const imports = "import" // below .larder

// ImportDir opens the directory for the archives of one import, before
// [Builder.Adopt] moves them into the mirror. The ID is 64 hexadecimal digits. The
// directory stays until [Builder.RemoveImportDir], so that an interrupted import can
// continue. The directories of other imports are removed: this is the only process
// that writes, so those imports were interrupted.
func (b *Builder) ImportDir(id string) (*disk.Dir, error) {
	all, err := b.own.MakeSub(imports)
	if err != nil {
		return nil, disk.Explain(err, b.opts.Place)
	}
	defer all.Close()
	entries, err := all.ReadDir()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() != id && isImportID(e.Name()) {
			b.warn(all.RemoveTree(e.Name()))
		}
	}
	dir, err := all.MakeSub(id)
	return dir, disk.Explain(err, b.opts.Place)
}

func isImportID(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == 64 && strings.ToLower(name) == name
}

// RemoveImportDir removes the directory that [Builder.ImportDir] opened.
func (b *Builder) RemoveImportDir(id string) error {
	return store.Within(b.own, imports, func(all *disk.Dir) error { return all.RemoveTree(id) })
}

// Adopt adds an archive to the mirror and records the contents of s and what was proved
// about it. It moves the archive from the directory from, a [Builder.ImportDir], to the
// same relative path in the mirror. The caller has verified and synced the archive, which
// verified describes; Adopt fails if another file has taken its place. If from is nil, the
// archive is in the mirror already. The Builder must store packed packages.
// [Builder.Finish] adds the archive to the index.
func (b *Builder) Adopt(ctx context.Context, s sources.Stored, from *disk.Dir, verified fs.FileInfo) error {
	leave, err := b.enter(ctx, s.ID)
	if err != nil {
		return err
	}
	defer leave()
	done, err := b.alter(ctx)
	if err != nil {
		return err
	}
	defer done()
	return sources.InPackage(s.ID, disk.Explain(b.adopt(ctx, s, from, verified), b.opts.Place))
}

func (b *Builder) adopt(ctx context.Context, s sources.Stored, from *disk.Dir, verified fs.FileInfo) (err error) {
	at := b.place(s.ID, false)
	if err := b.checkPlace(at); err != nil {
		return err
	}
	if err := b.canHave(s.ID.Provider.Host); err != nil {
		return err
	}
	r := record{Facts: store.Of(s)}
	r.Since = b.opts.Now().UTC()
	if err := b.evidence.Keep(ctx, s.ID, &r.Facts, s.Signed); err != nil {
		return err
	}
	if from != nil {
		if err := b.move(at, from, verified); err != nil {
			return err
		}
	}
	if r.Mark, err = mark(at); err != nil {
		return err
	}
	b.added(at, r)
	return nil
}

// move publishes the archive of at from the directory from, where it has the same
// path.
func (b *Builder) move(at spot, from *disk.Dir, verified fs.FileInfo) error {
	dir, name := split(b.relative(at.path))
	in, err := from.Sub(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	made := b.work.Name()
	if err := disk.Move(in, name, b.work.Dir, made, verified); err != nil {
		return err
	}
	return b.publish(at, made)
}
