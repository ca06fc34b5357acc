package work

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// ImportExports reads exports one after another. A failed file does not stop the import of
// other files, and a failed package does not stop the import of later packages.
func ImportExports(ctx context.Context, s *Session, files []string) error {
	k, err := findCache(ctx, s)
	if err != nil {
		return err
	}
	if k.cache, err = k.openCache(k.path, func(*cachedir.Options) {}); err != nil {
		return err
	}
	release, err := k.cache.Use(ctx) // protects the imported packages until they are copied
	if err != nil {
		return err
	}
	defer release()
	im := &importer{targetCache: k, into: installer.New(nil, k.cache, k.client, k.installerOptions(nil))}
	defer im.close()
	var errs []error
	for _, file := range files {
		errs = append(errs, im.open(ctx, file))
	}
	if err := im.acceptAll(ctx); err != nil {
		return err
	}
	for _, e := range im.exports {
		errs = append(errs, im.read(ctx, e))
	}
	err = errors.Join(errs...)
	im.show(len(sources.Errors(err)))
	return err
}

// An importer imports packages, and counts them.
type importer struct {
	*targetCache
	into    *installer.Installer
	exports []opened

	changes []report.Change
}

// opened is an export whose manifest was read.
type opened struct {
	*export.Reader
	name   string
	file   io.Closer
	hidden fs.FileMode // see [disk.Hidden]
}

// show prints the result for each package.
func (im *importer) show(failed int) {
	im.out.Changes(im.changes)
	sum := report.CacheImportSum{Packages: len(im.changes), Failed: failed}
	for _, c := range im.changes {
		if !c.Unchanged {
			sum.Imported++
		}
	}
	im.out.Summary(sum)
	text := "Imported " + ui.Count(sum.Imported, "package")
	if there := sum.Packages - sum.Imported; there > 0 {
		text += fmt.Sprintf("; %d already there", there)
	}
	if failed > 0 {
		text += fmt.Sprintf("; %d failed", failed)
	}
	im.out.Conclude("%s", text)
}

// open opens a file, or standard input if its name is "-", and reads its manifest.
func (im *importer) open(ctx context.Context, name string) error {
	e := opened{name: "standard input", file: io.NopCloser(nil)}
	var from io.Reader
	if name == "-" {
		from = interruptible(ctx, os.Stdin)
	} else {
		var err error
		if e.name, err = Existing(im.dir, name, File, "name a file that larder cache export has written"); err != nil {
			return err
		}
		f, info, err := disk.OpenFile(e.name)
		if err != nil {
			return err
		}
		// Directories don't count: an export is made to be carried elsewhere.
		from, e.file, e.hidden = f, f, disk.HiddenBy(info)
	}
	var err error
	if e.Reader, err = export.NewReader(from); err != nil {
		e.file.Close()
		if b, bundleErr := bundle.Open(e.name); name != "-" && bundleErr == nil {
			b.Close()
			err = sources.WithHint(errors.New("a bundle, not a file of larder cache export"), "to add its packages to a mirror, run larder bundle import %s DIR", name)
		}
		return fmt.Errorf("%s: %w", e.name, err)
	}
	im.exports = append(im.exports, e)
	return nil
}

func (im *importer) close() {
	for _, e := range im.exports {
		e.file.Close()
	}
}

// acceptAll fails before anything is imported if a package doesn't meet the requirement of the
// flags.
func (im *importer) acceptAll(ctx context.Context) error {
	var all []sources.Stored
	for _, e := range im.exports {
		for _, s := range e.Packages() {
			all = append(all, im.into.Foresee(ctx, s.ID, s.H1, claimsOf(s, e.name)))
		}
	}
	return im.accept(ctx, all)
}

// claimsOf returns what an export claims about a package.
func claimsOf(s sources.Stored, from string) sources.Provenance {
	return sources.Provenance{Origin: from, ZH: s.ZH, Signed: s.Signed, Imported: true}
}

// interruptible returns a reader of r that ends with ctx, even while a read of r blocks.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { out.CloseWithError(ctx.Err()) })
	return out
}

// read imports an export. A package that fails does not stop it, but an error of the export
// itself does.
func (im *importer) read(ctx context.Context, in opened) error {
	var errs []error
	for ctx.Err() == nil {
		contents, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", in.name, err))
			break
		}
		errs = append(errs, im.take(ctx, contents, in))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// take imports the packages with the same contents: the first from the export, the others
// from the first.
func (im *importer) take(ctx context.Context, contents *export.Contents, in opened) error {
	payload := sources.Payload{Files: contents.Files, Hidden: in.hidden}
	for i, s := range contents.Packages {
		outcome, err := im.into.Import(ctx, s.ID, contents.H1, payload, claimsOf(s, in.name))
		if err != nil {
			return errors.Join(err, notTaken(contents.Packages[i+1:]))
		}
		payload = sources.Payload{Dir: outcome.Package.Dir}
		im.changes = append(im.changes, report.Change{Outcome: outcome, Unchanged: outcome.How != installer.Imported})
	}
	return nil
}

// notTaken reports packages as missing if the package with their contents failed.
func notTaken(packages []sources.Stored) error {
	var errs []error
	for _, s := range packages {
		err := errors.New("not imported: another package with the same contents was refused")
		errs = append(errs, &sources.PackageError{ID: s.ID, Err: err})
	}
	return errors.Join(errs...)
}
