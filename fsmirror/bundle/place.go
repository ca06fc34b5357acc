package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Placed payload was put in its place, or was there already.
type Placed struct {
	Payload
	How How
	To  string // directory of the modules, or file of the engine
}

// A placing puts the requested payloads of an import in their places. Each appears by
// rename, whole, after all of the bundle was verified and the mirror was updated.
type placing struct {
	*importer
	unwanted []Payload
	placed   []Placed

	scratches map[string]*scratch // by the directories that the user named
}

// A scratch directory is in a directory that the user named.
type scratch struct {
	*disk.Scratch
	base *disk.Dir
}

const scratchPrefix = ".larder-import-"

// wanted returns the directory that the user named for a payload, and the path of the
// payload below it. The directory is empty if the payload was not requested.
func (o ImportOptions) wanted(p Payload) (dir, below string) {
	if p.Kind == EngineBinary {
		return o.EngineTo, p.Files[0].Name
	}
	return o.ModulesTo, path.Join(p.Root, DataPath, modulesName)
}

// prepare verifies the payloads, also those that were not requested, and decides what to
// do with the others. It changes nothing.
func (pl *placing) prepare(ctx context.Context) error {
	pl.progress.of += pl.bundle.Manifest.PayloadSize()
	for _, p := range pl.bundle.Manifest.Payload {
		if err := pl.bundle.verifyFiles(ctx, &pl.progress, p.dir(), p.Files); err != nil {
			return err
		}
	}
	for _, p := range pl.bundle.Manifest.Payload {
		dir, below := pl.opts.wanted(p)
		if dir == "" {
			pl.unwanted = append(pl.unwanted, p)
			continue
		}
		how, err := pl.decide(ctx, p, dir, below)
		if err != nil {
			return err
		}
		pl.placed = append(pl.placed, Placed{p, how, filepath.Join(dir, filepath.FromSlash(below))})
	}
	return nil
}

// decide compares a payload with the existing files at its destination.
func (pl *placing) decide(ctx context.Context, p Payload, dir, below string) (How, error) {
	to := filepath.Join(dir, filepath.FromSlash(below))
	if p.Kind == EngineBinary && p.Files[0].SHA256 != pl.opts.EngineSHA256 {
		err := fmt.Errorf("the %s has the SHA-256 %x, not the expected %x", p, p.Files[0].SHA256, pl.opts.EngineSHA256)
		return "", sources.WithHint(err, "ask the sender for the SHA-256 that larder bundle create printed, and don't run this engine")
	}
	for _, f := range p.Files {
		if !filepath.IsLocal(filepath.FromSlash(path.Join(below, f.Name))) {
			return "", fmt.Errorf("%s: %s: this system does not allow a file with this name", p, f.Name)
		}
	}
	base, err := disk.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Added, nil
	}
	if err != nil {
		return "", err
	}
	defer base.Close()
	info, err := base.Lstat(below)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Added, nil
	case err != nil:
		return "", err
	case p.Kind == EngineBinary && info.IsDir():
		return "", sources.WithHint(fmt.Errorf("%s is a directory", to), "choose a different directory with --engine-to")
	}
	same, err := p.isAt(ctx, base, below)
	switch {
	case err != nil:
		return "", err
	case same:
		return Known, nil
	case pl.opts.Replace:
		return Replaced, nil
	}
	return "", sources.WithHint(fmt.Errorf("%s differs from the bundle's %s", to, p), "to replace it, add --replace")
}

// isAt reports whether below in base already contains the payload and nothing else. Git repositories
// do not count, because bundles do not contain them.
func (p Payload) isAt(ctx context.Context, base *disk.Dir, below string) (bool, error) {
	if p.Kind == EngineBinary {
		return p.Files[0].isAt(ctx, base, below)
	}
	for _, f := range p.Files {
		if same, err := f.isAt(ctx, base, path.Join(below, f.Name)); !same || err != nil {
			return false, err
		}
	}
	n := 0
	err := filepath.WalkDir(base.Path(below), func(_ string, e fs.DirEntry, err error) error {
		switch {
		case err == nil && e.IsDir() && isRepository(e.Name()):
			return fs.SkipDir
		case err == nil && !e.IsDir() && !isRepository(e.Name()):
			n++
		}
		return err
	})
	return n == len(p.Files), err
}

// isAt reports whether the file called name has the contents and the mode of f.
func (f PayloadFile) isAt(ctx context.Context, dir *disk.Dir, name string) (bool, error) {
	in, info, err := dir.OpenFile(name)
	if _, stray := errors.AsType[*disk.StrayError](err); stray || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	executable := info.Mode()&0o111 != 0
	if info.Size() != f.Size || executable != f.Executable && runtime.GOOS != "windows" {
		return false, nil
	}
	sum, _, err := disk.Hash(ctx, in, f.Size)
	return sum == f.SHA256, err
}

// around copies the payloads to scratch directories, runs the import of the packages, and
// then puts the payloads in their places.
func (pl *placing) around(ctx context.Context, packages func(context.Context) error) (err error) {
	defer func() {
		for _, s := range pl.scratches {
			err = errors.Join(err, s.Close(), s.base.Close())
		}
	}()
	made := make([]string, len(pl.placed)) // name of each payload in its scratch directory
	for i, p := range pl.placed {
		if p.How == Known {
			continue
		}
		if made[i], err = pl.make(ctx, p.Payload); err != nil {
			return disk.Explain(err, "the "+p.String())
		}
	}
	if err := packages(ctx); err != nil {
		return err
	}
	for i := range pl.placed {
		p := &pl.placed[i]
		if p.How == Known {
			continue
		}
		if err := pl.place(ctx, p, made[i]); err != nil {
			return err
		}
	}
	return nil
}

// scratch returns the scratch directory in a directory that the user named.
func (pl *placing) scratch(dir string) (*scratch, error) {
	if s := pl.scratches[dir]; s != nil {
		return s, nil
	}
	base, err := disk.Make(dir)
	if err != nil {
		return nil, err
	}
	base.Sweep(scratchPrefix, time.Now(), pl.opts.Warn)
	in, err := base.Scratch(scratchPrefix)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	pl.scratches[dir] = &scratch{in, base}
	return pl.scratches[dir], nil
}

// make copies a payload to a scratch directory and returns its name there.
func (pl *placing) make(ctx context.Context, p Payload) (string, error) {
	dir, _ := pl.opts.wanted(p)
	s, err := pl.scratch(dir)
	if err != nil {
		return "", err
	}
	made := s.Name()
	for _, e := range pl.bundle.files(p.dir(), p.Files) {
		name := made
		if p.Kind == RootModules {
			name = path.Join(made, e.relative)
		}
		if err := pl.bundle.extract(ctx, s.Dir, name, e); err != nil {
			return "", err
		}
	}
	return made, nil
}

// extract writes a file of a payload below dir. The file becomes executable when it is verified.
// Only an engine is synced: get does not sync modules either, and the next import reads them again.
func (b *Bundle) extract(ctx context.Context, dir *disk.Dir, name string, e member) error {
	in := dir
	if parent := path.Dir(name); parent != "." {
		var err error
		if in, err = dir.MakeSub(parent); err != nil {
			return err
		}
		defer in.Close()
	}
	f, err := in.Create(path.Base(name), 0o644&^b.hidden)
	if err != nil {
		return err
	}
	err = b.copy(ctx, f, e)
	if e.payload.Kind == EngineBinary {
		err = errors.Join(err, f.Sync())
	}
	if err := errors.Join(err, f.Close()); err != nil || !e.executable {
		return err
	}
	return in.LetExecute(path.Base(name))
}

// place moves a payload from its scratch directory to its place. If another import has put
// the same one there in the meantime, it stays.
func (pl *placing) place(ctx context.Context, p *Placed, made string) error {
	dir, below := pl.opts.wanted(p.Payload)
	s := pl.scratches[dir]
	parent := s.base
	if above := path.Dir(below); above != "." {
		var err error
		if parent, err = s.base.MakeSub(above); err != nil {
			return err
		}
		defer parent.Close()
	}
	name := path.Base(below)
	var err error
	switch {
	case p.How == Replaced:
		_, err = s.Replace(made, parent, name)
	case parent.Exists(name):
		same, err := p.isAt(ctx, parent, name)
		if err == nil && !same {
			err = fmt.Errorf("%s was created by another program during the import", p.To)
		}
		p.How = Known
		return err
	default:
		err = disk.Rename(s.Dir, made, parent, name)
	}
	if p.Kind == EngineBinary {
		err = errors.Join(err, parent.Sync())
	}
	return err
}
