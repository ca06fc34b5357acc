package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/trust"
)

// The policy and the required signatures of a server: a serving is [server.Rules].

// A checkedArchive is an archive in the mirror, as it was when it was checked.
type checkedArchive struct {
	id            sources.PackageID
	state, stated string // of the file, and in its document
	set           string // the state of the signed set
}

// mostChecked is how many checks are remembered.
const mostChecked = 20_000

// forbidden makes an error of the policy one that clients get.
func forbidden(err error) error { return fmt.Errorf("%w: %w", server.ErrForbidden, err) }

// judged returns the error of a fetch. If the rules refuse the package, clients learn that.
func judged(err error) error {
	_, byPolicy := errors.AsType[*policy.Violation](err)
	if _, unsigned := errors.AsType[*trust.NotSignedError](err); byPolicy || unsigned {
		return forbidden(err)
	}
	return err
}

// Allowed implements [server.Rules].
func (v *serving) Allowed(
	ctx context.Context, p sources.Provider, versions []sources.Version,
) (allowed []sources.Version, err error) {
	if err := v.Policy.CheckProvider(p); err != nil {
		return nil, forbidden(err)
	}
	if err := v.Policy.Learn(ctx, p, versions...); err != nil {
		return nil, err
	}
	if v.upstream == nil && !v.CheckedOut(v.dir) { // the mirror has these versions; upstream notes what it lists itself
		v.Policy.See(ctx, p, sources.Listing{Vouched: versions})
	}
	var first error
	for _, version := range versions {
		if err := v.Policy.Check(p, version); err == nil {
			allowed = append(allowed, version)
		} else if first == nil {
			first = err
		}
	}
	if len(allowed) == 0 && first != nil {
		return nil, forbidden(first)
	}
	return allowed, nil
}

// shown returns the packages that clients may have.
func (v *serving) shown(ctx context.Context, all []builder.Entry) (some []builder.Entry, err error) {
	for _, e := range all {
		if err := v.Policy.Learn(ctx, e.ID.Provider, e.ID.Version); err != nil {
			return nil, err
		}
		if v.Policy.Check(e.ID.Provider, e.ID.Version) == nil && v.Judge().Check(e.ID, e.Stored.Report) == nil {
			some = append(some, e)
		}
	}
	return some, nil
}

// Check implements [server.Rules]. It hashes an archive once that has changed since it was stored, and one that must be
// signed if someone else may have put it there.
func (v *serving) Check(
	ctx context.Context, id sources.PackageID, f *os.File, info fs.FileInfo, stated []sources.Hash,
) (sources.Report, error) {
	key := checkedArchive{id, disk.Print(f.Name(), info), fmt.Sprint(stated), v.setState()}
	proved, err := v.checked.Get(ctx, key, func() (sources.Report, error) {
		return v.check(ctx, id, f, info, stated)
	})
	damaged := (*server.DamagedError)(nil)
	if err != nil && !errors.Is(err, server.ErrForbidden) && !errors.As(err, &damaged) {
		v.checked.Forget(key) // it may not last
	}
	return proved, err
}

func (v *serving) check(
	ctx context.Context, id sources.PackageID, f *os.File, info fs.FileInfo, stated []sources.Hash,
) (none sources.Report, err error) {
	b, err := job.OpenMirror(ctx, v.Root, v.dir, builder.Options{ReadOnly: true})
	if err != nil {
		return none, err
	}
	defer b.Close()
	held, err := b.Find(ctx, fsmirror.Package{ID: id, Location: sources.Location{Archive: f.Name()}})
	if err != nil {
		if ctx.Err() == nil && !disk.IsUnread(err) && !errors.Is(err, sources.ErrNotFound) {
			err = &server.DamagedError{Path: f.Name(), Err: err}
		}
		return none, err
	}
	if held.Differs != "" {
		return none, &server.DamagedError{Path: f.Name(), Err: &builder.ChangedError{Was: held.Differs, Is: held.ZH}}
	}
	if sources.AnyUsable(stated) && !sources.MatchesAny(stated, held.Hashes()...) {
		return none, &server.DamagedError{Path: f.Name(), Err: errors.New("VERSION.json has none of its hashes")}
	}
	_, signed := v.Policy.SignedBy(id.Provider)
	signed = signed || v.Judge().NeedsApproval(id.Provider)
	if !signed && len(v.Policy.KeyRules(id.Provider)) == 0 && v.Flags.Require == trust.RequireNothing {
		return held.Report, nil
	}
	if !disk.Own(info) { // it may not be the archive that was looked at
		sum, _, err := disk.Hash(ctx, io.NewSectionReader(f, 0, info.Size()), info.Size())
		if err != nil {
			return none, err
		}
		if zh := sources.ZipHash(sum); zh != held.ZH {
			return none, forbidden(&builder.ChangedError{Was: held.ZH, Is: zh})
		}
	}
	if err := v.Judge().Check(id, held.Report); err != nil {
		if _, broken := b.Set(); broken != nil && !errors.Is(broken, sources.ErrNotFound) {
			v.Output.WarnOf(broken)
		}
		return none, forbidden(err)
	}
	return held.Report, nil
}

// setState returns the state of the files of the mirror's signed set.
func (v *serving) setState() (state string) {
	for _, suffix := range evidence.SetFiles {
		name := filepath.Join(v.dir, filepath.FromSlash(evidence.SetPath+suffix))
		if info, err := os.Stat(name); err == nil {
			state += disk.Print(name, info) + " "
		}
	}
	return state
}

// warnSet warns about the signed set of the mirror, if it is broken.
func (v *serving) warnSet(ctx context.Context) {
	b, err := job.OpenMirror(ctx, v.Root, v.dir, builder.Options{ReadOnly: true})
	if err != nil {
		return
	}
	defer b.Close()
	if _, err := b.Set(); err != nil && !errors.Is(err, sources.ErrNotFound) {
		v.Output.WarnHint("larder mirror verify "+site.ShellQuoted(v.request.Dir)+" checks the mirror", "%v", err)
	}
}
