package builder

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/larder-cli/larder/sources"
)

// Hall makes a directory on the mirror's own file system for archives on their
// way into it by [Builder.Adopt]. What is in it stays until the caller removes it,
// so that who is interrupted finds it again under the same name. Those of other
// names are removed: there is only one writer, which has left them unfinished.
func (b *Builder) Hall(name string) (string, error) {
	entries, err := os.ReadDir(b.state("import"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if e.Name() != name {
			b.warn(os.RemoveAll(b.state("import", e.Name())))
		}
	}
	dir := b.state("import", name)
	return dir, refusal(os.MkdirAll(dir, 0o755))
}

// Adopt makes an archive part of the mirror that lies at s.Dir, in a [Builder.Hall],
// from where it is moved. The caller has verified it, seen to it that it is on the
// medium, and says all there is to know of it. If it is the mirror's own already,
// only what is known of it changes. The Builder is for packed packages. Until
// [Builder.Finish] the index does not name it.
func (b *Builder) Adopt(ctx context.Context, s sources.Stored) error {
	b.busy.RLock()
	defer b.busy.RUnlock()
	defer b.turn(s.ID)()
	return named(s.ID, refusal(b.adopt(ctx, s)))
}

func (b *Builder) adopt(ctx context.Context, s sources.Stored) error {
	if err := b.canHave(s.ID.Provider.Host); err != nil {
		return err
	}
	if err := b.keepEvidence(s.ID, s.Signed); err != nil {
		return err
	}
	at := b.place(s.ID, false)
	if s.Dir != at.path {
		if err := b.show(ctx, at, s.Dir); err != nil {
			return err
		}
	}
	b.note(at, record{
		Mark: mark(at), H1: s.H1, ZipH1: s.ZipH1, ZH: s.ZH, Verdict: s.Verdict, Origin: s.Origin,
		Evidence: digest(s.Signed), Since: b.opts.Now().UTC(),
	})
	return nil
}
