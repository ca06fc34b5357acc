package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report/webpage"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Page returns a page for people about packages, as a file that any web server can serve. Without a time, it depends
// only on them.
func Page(entries []builder.Entry, made time.Time) ([]byte, error) {
	return webpage.Page{Title: "Provider mirror", Entries: entries, Made: made}.HTML()
}

// WritePage returns what writes the page into the mirror in dir, for [builder.Options]. It renews a page from larder,
// and creates one if that is requested. It leaves a mirror without packages alone, which may be removed.
func WritePage(ctx context.Context, dir string, requested bool) func(*builder.Builder) error {
	ctx = context.WithoutCancel(ctx) // what was interrupted has changed the mirror, too
	return func(b *builder.Builder) error {
		ours, err := OwnPage(dir)
		if !ours && !(requested && errors.Is(err, fs.ErrNotExist)) {
			return nil // the page is not larder's, or it can't be known
		}
		entries, err := b.List(ctx, builder.ListOptions{})
		if err != nil || !ours && len(entries) == 0 {
			return err
		}
		text, err := Page(entries, time.Now())
		if err != nil {
			return err
		}
		return disk.WriteFile(filepath.Join(dir, fsmirror.Page), text, disk.Lazily)
	}
}

// RequestPage makes a builder with the options write the page into the mirror in dir. It returns an error if there is a
// file that larder did not write.
func RequestPage(ctx context.Context, dir string, opts *builder.Options) error {
	ours, err := OwnPage(dir)
	if ours || errors.Is(err, fs.ErrNotExist) {
		opts.Closing = WritePage(ctx, dir, true)
		return nil
	}
	err = fmt.Errorf("%s already exists and was not written by larder", filepath.Join(dir, fsmirror.Page))
	return sources.WithHint(err, "rename it, or leave out --html")
}

// PushPage writes a page of what a bucket has into it. Only packages that the mirror has too, as this user knows them,
// have verification results. Without a time, the page stays if nothing has changed.
func PushPage(
	ctx context.Context, m *site.Root, to *publish.Bucket, r site.PlaceRequest, mirror map[sources.PackageID]builder.Entry,
) error {
	return to.WritePage(ctx, webpage.IsPage, func() ([]byte, error) {
		all, err := Browse(ctx, m, r, nil, nil)
		var entries []builder.Entry
		for _, id := range all.Ids() {
			e, is := mirror[id], all.Archives[id]
			if !slices.Contains(is.Hashes, e.Stored.ZH) {
				e = builder.Entry{ID: id, Size: is.Size}
			}
			entries = append(entries, e)
		}
		if err = cmp.Or(err, all.Err()); err != nil {
			return nil, err
		}
		return Page(entries, time.Time{})
	})
}

// OwnPage reports whether the mirror has a page that larder wrote. It follows no links.
func OwnPage(dir string) (bool, error) {
	d, err := disk.Open(dir)
	if err != nil {
		return false, err
	}
	defer d.Close()
	f, _, err := d.OpenFile(fsmirror.Page)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, webpage.HeadSize))
	return err == nil && webpage.IsPage(head), err
}
