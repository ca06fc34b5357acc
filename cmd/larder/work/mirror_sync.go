package work

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
)

// A SyncRequest says what to put into a mirror, and how.
type SyncRequest struct {
	FillRequest
	Unpacked    bool
	WriteConfig string // file to write, as typed; may be empty
	HTML        bool   // write a page for people
}

// SyncMirror puts packages into a mirror, whose directory is one of the arguments. It
// opens and locks the mirror before any request, so that two concurrent runs don't download the same
// packages. It creates no mirror if no provider is required.
func SyncMirror(ctx context.Context, s *Session, request SyncRequest) error {
	f := newFilling(s, request.FillRequest)
	typed, others, err := f.pick(target{"mirror sync", "the directory of the mirror", f.mayBeMirror}, request.Arguments)
	if err != nil {
		return err
	}
	if err := cmp.Or(directoryOnly(typed), f.take(others)); err != nil {
		return err
	}
	dir := Absolute(f.workDir, typed)
	m, err := f.here(ctx)
	if err != nil {
		return err
	}
	if err := m.noCache(dir); err != nil {
		return err
	}
	config, err := m.newMirrorConfig(request.WriteConfig, dir)
	if err != nil {
		return err
	}
	opts := builder.Options{Unpacked: request.Unpacked, ReadOnly: f.flags.DryRun}
	if request.HTML {
		if err := checkPage(dir); err != nil {
			return err
		}
		opts.Closing = writePage(ctx, dir)
	}
	isNew := false
	err = f.runMirror(ctx, func() (*builder.Builder, error) {
		return m.openMirror(ctx, dir, m.sharing(opts))
	}, nil, func(b *builder.Builder, sum report.FillSum) error {
		if b == nil || sum.Empty() {
			return nil
		}
		if f.flags.DryRun {
			f.output.Conclude("%s", sum.SyncedText(f.output))
			return nil
		}
		entries, err := b.List(ctx, builder.ListOptions{})
		total := totalOf(entries)
		if err == nil && total.Packages > 0 {
			f.output.Conclude("%s. %s", sum.SyncedText(f.output), total.Text(dir))
		} else if err == nil {
			f.output.Conclude("%s", sum.SyncedText(f.output))
		}
		isNew = total.Packages > 0 && total.Packages == sum.Fetched
		return err
	})
	err = hintRepair(err, typed)
	if f.left {
		f.output.Conclude("%s contains an interrupted download, which the next run continues", dir)
	}
	if f.empty || f.flags.DryRun || err != nil && config.path != "" {
		return err
	}
	return errors.Join(err, m.finish(config, isNew))
}

// mayBeMirror reports whether path may be a mirror to update. With --recursive, it must look
// like a mirror.
func (f *filling) mayBeMirror(path string, info os.FileInfo) bool {
	if !info.IsDir() || isRootModule(path) {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || !f.flags.Recursive || len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == ".larder" || e.IsDir() && strings.Contains(e.Name(), ".") && e.Name()[0] != '.' // directory of a host
	})
}
