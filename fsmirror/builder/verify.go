package builder

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// A FindingKind is a kind of problem in a mirror.
type FindingKind string

// The kinds of problems.
const (
	Changed     FindingKind = "changed package"  // differs from the stored package
	Broken      FindingKind = "broken package"   // engines cannot install or run it
	Missing     FindingKind = "missing package"  // the index names it, but it does not exist
	Unindexed   FindingKind = "not in the index" // a network mirror would not serve it
	BadIndex    FindingKind = "wrong index"      // wrong entries, or an invalid document
	BadEvidence FindingKind = "broken evidence"  // does not verify the package
	Twice       FindingKind = "duplicate"        // a package that also exists under another name
	Astray      FindingKind = "stray"            // probably a misplaced or misnamed package
	Unfinished  FindingKind = "unfinished"       // the last writer did not finish
)

// A Finding is a problem in a mirror.
type Finding struct {
	Kind    FindingKind
	Path    string             // relative to the mirror, with forward slashes
	Package *sources.PackageID // nil if the finding is not about a package
	Text    string             // description of the problem
}

func (f Finding) String() string { return f.Path + ": " + string(f.Kind) + ": " + f.Text }

// A Verification is the result of reading all files in a mirror.
type Verification struct {
	Findings  []Finding // sorted by path
	Packages  int       // packages read
	Bytes     int64     // bytes of these packages
	Unvouched int       // those of Sound without evidence

	Sound []sources.Stored // those of Packages without a finding, sorted
}

// A verifier reads packages concurrently.
type verifier struct {
	*Builder
	Verification
	report func(done, of int64)
	total  int64
	mu     sync.Mutex
	fresh  map[string]record // hashes of the archives, by path
	broken map[any]bool      // packages by path, and evidence by release, that are findings
}

// Verify reads all files in a mirror. It compares packages with their records and
// their evidence, and the index with the packages. It changes nothing and opens no
// connection. Report is called with the number of bytes read so far, one call at a
// time. It may be nil.
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
	v := &verifier{Builder: b, report: report, fresh: map[string]record{}, broken: map[any]bool{}}
	for _, s := range strays {
		v.found(Astray, s.Path, nil, "it %s", s.Reason)
	}
	if err := v.packages(ctx, packages); err != nil {
		return nil, err
	}
	if err := v.index(packages); err != nil {
		return nil, err
	}
	if name := own + "/" + unsettled; b.has(name) {
		v.found(Unfinished, b.dir.Path(name), nil, "the last process that wrote to the mirror was interrupted")
	}
	slices.SortStableFunc(v.Findings, func(f, g Finding) int { return cmp.Compare(f.Path, g.Path) })
	slices.SortStableFunc(v.Sound, func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	return &v.Verification, nil
}

// found adds a finding.
func (v *verifier) found(kind FindingKind, path string, id *sources.PackageID, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := strings.TrimPrefix(fmt.Sprintf(format, args...), path+": ")
	v.Findings = append(v.Findings, Finding{kind, v.relative(path), id, text})
	switch kind {
	case Broken, Changed:
		v.broken[path] = true
	case BadEvidence:
		v.broken[id.Release()] = true
	}
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

// check reads a package and judges it. It returns an error only if ctx is done.
func (v *verifier) check(ctx context.Context, e Entry) error {
	before, _ := mark(e.at)
	fresh, contents, err := hash(ctx, e.at.path)
	fresh.Mark = before
	var executable string
	if err == nil {
		executable, err = archive.ExecutableIn(contents, e.ID.Provider.Type)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.found(Broken, e.at.path, &e.ID, "%v", err)
	} else {
		v.judge(ctx, e, fresh)
		if err := archive.CheckExecutable(e.at.path, executable, e.ID); e.Unpacked && err != nil {
			v.found(Broken, e.at.path, &e.ID, "%v", err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
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

// judge compares a package with its record and its evidence.
func (v *verifier) judge(ctx context.Context, e Entry, fresh record) {
	old, err := v.recall(e.at)
	if disk.IsUnread(err) {
		v.found(Broken, e.at.path, &e.ID, "%v", err)
		return
	}
	changed := err == nil && !old.same(fresh)
	if changed {
		v.found(Changed, e.at.path, &e.ID, "it is %s, but was stored as %s", cmp.Or(fresh.ZH, fresh.H1), differing(old, fresh))
	}
	if fresh.ZH == "" && old.H1 == fresh.H1 {
		fresh.ZH = old.ZH // of the original archive
	}
	evidenced := err == nil && old.Evidence != ""
	if changed { // about another package
		old = record{}
	}
	if fresh.Proof, fresh.Evidence = old.Proof, old.Evidence; old.H1 == "" {
		fresh = v.knows(e.ID, fresh)
	}
	proof, err := v.evidence.Check(ctx, e.ID, fresh.Facts)
	if ctx.Err() != nil {
		return
	}
	if err == nil && evidenced && !v.hasEvidence(e.ID) {
		err = store.ErrMissing
	}
	if err != nil {
		v.found(BadEvidence, e.at.path, &e.ID, "%v", err)
	}
	if changed || err != nil {
		return
	}
	v.remember(e.at, old, fresh, proof)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !proof.Signed() {
		v.Unvouched++
	}
	v.Sound = append(v.Sound, sources.Stored{
		ID: e.ID, Dir: e.at.path, H1: fresh.H1, ZipH1: fresh.ZipH1, ZH: fresh.ZH,
		Proof: proof, Report: v.opts.Judge.Report(e.ID.Provider, proof),
	})
}

// remember records what was proved about a sound package, so that later commands know it.
func (v *verifier) remember(at spot, old, fresh record, proof sources.Proof) {
	now, err := mark(at)
	if err != nil || now == "" || now != fresh.Mark {
		return // it was changed since it was read
	}
	fresh.Origin, fresh.Filename, fresh.Since = old.Origin, old.Filename, old.Since
	if fresh.Since.IsZero() {
		fresh.Since = v.opts.Now().UTC()
	}
	fresh.Proof = proof
	if signed, err := v.evidence.Marked(at.id.Release()); err == nil && proof.Signed() {
		fresh.Evidence = evidence.Reference(signed)
	}
	v.note(at, fresh)
	v.learn(at.id, fresh.Facts)
}

// differing returns the hash of a record that is comparable with a fresh one.
func differing(old, fresh record) sources.Hash {
	if fresh.ZH != "" && old.ZH != "" {
		return old.ZH
	}
	return old.H1
}
