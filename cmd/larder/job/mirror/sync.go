package mirror

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
)

// A SyncRequest says what to put into a mirror, and how.
type SyncRequest struct {
	job.FillRequest
	Unpacked    bool
	Snapshot    string // manifest of a signed set, which the mirror will equal, as typed; may be empty
	WriteConfig string // file to write, as typed; may be empty
	HTML        bool   // write a page for people
}

// Sync puts packages into a mirror, whose directory is one of the arguments. It
// opens the mirror before any request. It creates no mirror if no provider is required.
func Sync(ctx context.Context, s *site.Site, request SyncRequest) error {
	f := job.NewFilling(s, request.FillRequest)
	target := job.Target{Command: "mirror sync", What: "the directory of the mirror", Example: "./mirror"}
	target.Is = func(path string, info os.FileInfo) bool { return mayBeMirror(f, path, info) }
	typed, others, err := job.Pick(f.Wanted.Site, target, request.Arguments)
	if err != nil {
		return err
	}
	dir := site.Absolute(f.WorkDir, typed)
	m, err := f.Here(ctx)
	if err != nil {
		return err
	}
	if err := cmp.Or(site.DirectoryOnly(typed), take(ctx, f, m, request.Snapshot, others)); err != nil {
		return err
	}
	config, err := job.NewMirrorConfig(m, request.WriteConfig, dir)
	if err != nil {
		return err
	}
	opts := builder.Options{Unpacked: request.Unpacked, ReadOnly: f.Flags.DryRun}
	if request.HTML {
		if err := job.RequestPage(ctx, dir, &opts); err != nil {
			return err
		}
	}
	isNew := false
	err = f.RunMirror(ctx, func() (*builder.Builder, error) {
		b, err := job.OpenMirror(ctx, m, dir, m.Sharing(opts))
		if err == nil && f.Approved != nil {
			b.Approve(f.Approved)
		}
		return b, err
	}, nil, func(b *builder.Builder, sum report.FillSum) (err error) {
		isNew, err = synced(ctx, f, b, dir, sum)
		return err
	})
	err = hintRepair(err, typed)
	if f.Left {
		f.Output.Conclude("%s contains an interrupted download, which the next run continues", dir)
	}
	if config.Path != "" && err != nil && !f.Flags.DryRun {
		f.Output.Warn("%s was not written, because packages are missing in the mirror", config.Path)
	}
	if f.Empty || f.Flags.DryRun || err != nil && config.Path != "" {
		return err
	}
	return errors.Join(err, job.FinishConfig(m, config, isNew))
}

// take takes what a sync puts into the mirror: the set of a snapshot, or what the other arguments select.
func take(ctx context.Context, f *job.Filling, m *site.Root, snapshot string, others []string) (err error) {
	if snapshot == "" {
		return f.Take(others)
	}
	if len(others) > 0 {
		return report.Usage(errors.New("--snapshot selects all packages and cannot be combined with other arguments"))
	}
	f.RequirePlatforms = true
	if f.Approved, err = readSnapshot(ctx, m, snapshot); err == nil {
		f.Selected = selectedBy(f.Approved)
	}
	return err
}

// synced completes a sync, and reports whether the mirror is new. The mirror is nil if none was opened.
func synced(ctx context.Context, f *job.Filling, b *builder.Builder, dir string, sum report.FillSum) (bool, error) {
	if b == nil || sum.Empty() {
		return false, nil
	}
	if f.Approved != nil && sum.Failed+sum.Missing == 0 {
		if err := equal(ctx, f, b, f.Approved, &sum); err != nil {
			return false, err
		}
		f.Output.Summary(sum)
	}
	if f.Flags.DryRun {
		f.Output.Conclude("%s", sum.Text(f.Output))
		return false, nil
	}
	entries, err := b.Entries(ctx)
	if err == nil && len(entries) > 0 {
		f.Output.Conclude("%s. %s", sum.Text(f.Output), report.MirrorText(dir, entries))
	} else if err == nil {
		f.Output.Conclude("%s", sum.Text(f.Output))
	}
	return len(entries) > 0 && len(entries) == sum.Fetched, err
}

// mayBeMirror reports whether path may be a mirror to update. With --recursive, it must look
// like a mirror.
func mayBeMirror(f *job.Filling, path string, info os.FileInfo) bool {
	if !info.IsDir() || job.IsRootModule(path) {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || !f.Flags.Recursive || len(entries) == 0 || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		isHost := e.IsDir() && strings.Contains(e.Name(), ".") && e.Name()[0] != '.'
		return e.Name() == ".larder" || isHost
	})
}
