package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// A Placed payload was put in its place, or was there already.
type Placed struct {
	Payload
	How How
	To  string // directory of the modules, or file of the engine

	dir, below string // the directory that the user named, and the path below it
}

const scratchPrefix = ".larder-import-"

// plan decides what to do with each payload.
func (in *importer) plan(ctx context.Context) error {
	for _, p := range in.bundle.Manifest.Payload {
		to := Placed{Payload: p, dir: in.opts.ModulesTo, below: path.Join(p.Root, DataPath, modulesName)}
		if p.Kind == EngineBinary {
			to.dir, to.below = in.opts.EngineTo, p.Files[0].Name
		}
		if to.dir == "" {
			in.result.Left = append(in.result.Left, p)
			continue
		}
		if p.Kind == EngineBinary && p.Files[0].SHA256 != in.opts.EngineSHA256 {
			err := fmt.Errorf("the %s has the SHA-256 %x, not the expected %x", p, p.Files[0].SHA256, in.opts.EngineSHA256)
			return sources.WithHint(err,
				"ask the sender for the SHA-256 that bundle create printed, and don't run this engine")
		}
		for _, f := range p.Files {
			if !filepath.IsLocal(filepath.FromSlash(path.Join(to.below, f.Name))) {
				return fmt.Errorf("%s: %s: this system does not allow a file with this name", p, f.Name)
			}
		}
		var err error
		to.To = filepath.Join(to.dir, filepath.FromSlash(to.below))
		if to.How, err = in.compare(ctx, to); err != nil {
			return err
		}
		in.result.Placed = append(in.result.Placed, to)
	}
	return nil
}

// compare compares a payload with what is in its place, and returns what to do with it.
func (in *importer) compare(ctx context.Context, p Placed) (How, error) {
	base, err := disk.Open(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Added, nil
	}
	if err != nil {
		return "", err
	}
	defer base.Close()
	info, err := base.Lstat(p.below)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Added, nil
	case err != nil:
		return "", err
	case p.Kind == EngineBinary && info.IsDir():
		return "", sources.WithHint(fmt.Errorf("%s is a directory", p.To), "choose a different directory with --engine-to")
	}
	same, err := p.isThere(ctx, info)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil && same:
		return Known, nil
	case in.opts.Replace:
		return Replaced, nil
	}
	err = cmp.Or(err, fmt.Errorf("%s differs from the bundle's %s", p.To, p))
	return "", sources.WithHint(err, "to replace it, add --replace")
}

// isThere reports whether the place contains the payload and nothing else, except git repositories.
func (p Placed) isThere(ctx context.Context, info fs.FileInfo) (bool, error) {
	var files []File
	var err error
	switch {
	case p.Kind == RootModules && info.IsDir():
		files, err = filesIn(ctx, p.To, maxFiles, func(error) {})
	case p.Kind == EngineBinary && info.Mode().IsRegular():
		var f File
		f, err = readFile(ctx, p.Files[0].Name, p.To)
		f.Executable = info.Mode()&0o111 != 0
		files = []File{f}
	}
	return slices.EqualFunc(files, p.Files, func(a, b File) bool {
		return a.Name == b.Name && a.SHA256 == b.SHA256 && (a.Executable == b.Executable || runtime.GOOS == "windows")
	}), err
}

// place puts a payload in its place. It appears by rename, whole. Another import may have put it there in the meantime.
func (in *importer) place(ctx context.Context, p *Placed) (err error) {
	if p.How == Known {
		return nil
	}
	base, err := disk.Make(p.dir)
	if err != nil {
		return err
	}
	defer base.Close()
	base.Sweep(scratchPrefix, time.Now(), in.opts.Warn)
	scratch, err := base.Scratch(scratchPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	made, err := in.bundle.receive(ctx, scratch, p.Payload)
	if err != nil {
		return disk.Explain(err, "the "+p.String())
	}
	if p.How, err = in.compare(ctx, *p); err != nil || p.How == Known {
		return err
	}
	parent := base
	if above := path.Dir(p.below); above != "." {
		if parent, err = base.MakeSub(above); err != nil {
			return err
		}
		defer parent.Close()
	}
	_, err = scratch.Replace(made, parent, path.Base(p.below))
	if p.Kind == EngineBinary {
		err = errors.Join(err, parent.Sync())
	}
	return err
}

// receive writes the files of a payload into a scratch directory, and returns the name of the directory of the modules,
// or of the engine, there. Only an engine is synced: get does not sync modules either, and the next import reads them
// again.
func (b *Bundle) receive(ctx context.Context, scratch *disk.Scratch, p Payload) (made string, err error) {
	made = scratch.Name()
	dir, err := scratch.Mkdir(made)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	to := archive.Dest{Dir: dir, Hidden: b.hidden, Files: 2 * maxFiles} // their directories count too
	c, err := archive.Receive(ctx, b.incoming(p.dir(), p.Files), to)
	if err == nil && c.H1 != h1Of(p.Files) {
		err = b.finding(ChangedFile, nil, fmt.Errorf("%s: differs from the manifest", p))
	}
	if err != nil || p.Kind == RootModules {
		return made, err
	}
	engine := scratch.Name()
	return engine, cmp.Or(dir.SyncTree(ctx), disk.Rename(dir, p.Files[0].Name, scratch.Dir, engine))
}
