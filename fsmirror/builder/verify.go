package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A FindingKind is what sort of thing is wrong in a mirror.
type FindingKind string

// The kinds of findings.
const (
	Changed     FindingKind = "changed package"  // other bytes than when it came
	Broken      FindingKind = "broken package"   // none that an engine could install
	Missing     FindingKind = "missing package"  // the index names it, and it is not there
	Unindexed   FindingKind = "not in the index" // a package that a network mirror would not have
	BadIndex    FindingKind = "wrong index"      // says what is not so, or makes no sense
	BadEvidence FindingKind = "broken evidence"  // does not vouch for the package
	Twice       FindingKind = "duplicate"        // a package that is there under another name too
	Astray      FindingKind = "stray"            // may have been meant to be a package
	Unfinished  FindingKind = "unfinished"       // who wrote last did not finish
)

// A Finding is one thing that is wrong in a mirror.
type Finding struct {
	Kind    FindingKind
	Path    string             // below the mirror, with forward slashes
	Package *sources.PackageID // nil if it is not about one
	Text    string             // what is wrong
}

func (f Finding) String() string { return f.Path + ": " + string(f.Kind) + ": " + f.Text }

// A Verification is what was found out by reading everything in a mirror.
type Verification struct {
	Findings  []Finding // by path
	Packages  int       // that were read
	Bytes     int64     // of them
	Unvouched int       // of them, those for which no evidence vouches

	Vouched []sources.Stored // of them, those with evidence that is right for them
}

// A verifier reads packages side by side.
type verifier struct {
	*Builder
	Verification
	report func(done, of int64)
	total  int64
	mu     sync.Mutex
	fresh  map[string]record // what archives are found to be, by path
}

// Verify reads everything in a mirror and compares it: packages with what they were
// when they came and with the evidence, the index with the packages. It changes
// nothing and opens no connection. Report is told how many of the packages' bytes
// have been read, one call at a time; it may be nil.
func (b *Builder) Verify(ctx context.Context, report func(done, of int64)) (*Verification, error) {
	release, err := b.share(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	mirror := fsmirror.New(b.path, fsmirror.Options{})
	packages, err := mirror.Packages(ctx)
	if err != nil {
		return nil, err
	}
	strays, err := mirror.Strays(ctx)
	if err != nil {
		return nil, err
	}
	v := &verifier{Builder: b, report: report, fresh: map[string]record{}}
	for _, s := range strays {
		v.found(Astray, s.Path, nil, "it %s", s.Reason)
	}
	if err := v.packages(ctx, packages); err != nil {
		return nil, err
	}
	if err := v.index(packages); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(b.state(unsettled)); err == nil {
		v.found(Unfinished, b.state(unsettled), nil, "the last process that wrote to the mirror was interrupted")
	}
	slices.SortStableFunc(v.Findings, func(f, g Finding) int { return cmp.Compare(f.Path, g.Path) })
	return &v.Verification, nil
}

// found notes what is wrong.
func (v *verifier) found(kind FindingKind, path string, id *sources.PackageID, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Findings = append(v.Findings, Finding{kind, v.relative(path), id, fmt.Sprintf(format, args...)})
}

// packages reads all packages.
func (v *verifier) packages(ctx context.Context, packages []fsmirror.Package) error {
	first := map[sources.PackageID]spot{}
	var entries []Entry
	for _, pkg := range packages {
		e, err := v.entry(spotOf(pkg))
		if err != nil {
			v.found(Broken, spotOf(pkg).path, &pkg.ID, "%v", err)
			continue
		}
		if other, ok := first[pkg.ID]; ok && other.unpacked == e.Unpacked {
			v.found(Twice, e.at.path, &pkg.ID, "terraform and tofu use %s", v.relative(other.path))
		} else if !ok {
			first[pkg.ID] = e.at
		}
		v.total += e.Size
		entries = append(entries, e)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range entries {
		g.Go(func() error { return v.check(ctx, e) })
	}
	return g.Wait()
}

// check reads a package and judges it. The error is only that of ctx.
func (v *verifier) check(ctx context.Context, e Entry) error {
	fresh, contents, err := hash(ctx, e.at.path)
	if err == nil {
		_, err = archive.ExecutableIn(contents, e.ID.Provider.Type)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.found(Broken, e.at.path, &e.ID, "%v", err)
	} else {
		v.judge(e, fresh)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.fresh[e.at.path] = fresh
	}
	v.Packages++
	v.Bytes += e.Size
	if v.report != nil {
		v.report(v.Bytes, v.total)
	}
	return nil
}

// judge compares a package with what is known of it.
func (v *verifier) judge(e Entry, fresh record) {
	old, foreign, err := v.claimed(e.at)
	if disk.IsUnread(err) {
		v.found(Broken, e.at.path, &e.ID, "%v", err)
		return
	}
	if err == nil && !old.same(fresh) {
		v.found(Changed, e.at.path, &e.ID, "it is %s, but was stored as %s", cmp.Or(fresh.ZH, fresh.H1), differing(old, fresh))
	}
	if fresh.ZH == "" && old.H1 == fresh.H1 && !foreign {
		fresh.ZH = old.ZH // of the archive that it came from
	}
	recorded := old
	if foreign {
		old.Verdict, old.Evidence = 0, "" // claims of others
	}
	if old.Mark != "" && !old.same(fresh) {
		old = record{} // which is about another package
	}
	kept, err := evidence.Read(v.evidence(e.ID.Provider, e.ID.Version))
	sound := sources.Stored{ID: e.ID, H1: fresh.H1, ZipH1: fresh.ZipH1, ZH: fresh.ZH}
	switch {
	case errors.Is(err, sources.ErrNotFound) && recorded.Evidence != "":
		err = errEvidenceGone
	case errors.Is(err, sources.ErrNotFound), err == nil && (fresh.ZH == "" || v.opts.Vouch == nil):
		v.mu.Lock()
		defer v.mu.Unlock()
		v.Unvouched++
		return
	case err == nil:
		sound, err = v.vouchFor(sound, old, kept)
	}
	if err != nil {
		v.found(BadEvidence, e.at.path, &e.ID, "%v", err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Vouched = append(v.Vouched, sound)
}

// vouchFor finds out what the evidence is worth for a package. It must be worth what it
// was when the package was stored.
func (v *verifier) vouchFor(s sources.Stored, old record, kept *sources.Signed) (sources.Stored, error) {
	s.Signed, _ = evidence.Resolve(kept, old.Evidence)
	verdict, err := v.opts.Vouch(s)
	if err == nil && old.Evidence != "" && verdict < old.Verdict {
		err = fmt.Errorf("it was stored as %q, but the evidence makes it %q now", old.Verdict, verdict)
	}
	s.Verdict = verdict
	return s, err
}

// differing is the hash of a record that is to be compared with a fresh one.
func differing(old, fresh record) sources.Hash {
	if fresh.ZH != "" && old.ZH != "" {
		return old.ZH
	}
	return old.H1
}
