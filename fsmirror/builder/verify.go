package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// The kinds of problems with the layout of a mirror. The index names a missing package.
const (
	Unindexed  store.Kind = "not in the index" // a network mirror would not serve it
	BadIndex   store.Kind = "wrong index"      // wrong entries, or an invalid document
	Twice      store.Kind = "duplicate"        // a package that also exists under another name
	Astray     store.Kind = "stray"            // probably a misplaced or misnamed package
	Unfinished store.Kind = "unfinished"       // the last writer did not finish
)

// A Verification is the result of reading all files in a mirror.
type Verification struct {
	Findings  []*store.Finding // sorted by path
	Packages  int              // packages read
	Bytes     int64            // bytes of these packages
	Unvouched int              // those of Sound without evidence

	Sound []sources.Stored // those of Packages without a finding, sorted
}

// A verifier compares the index with the packages that were read.
type verifier struct {
	*Builder
	Verification
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
	v := &verifier{Builder: b, fresh: map[string]record{}, broken: map[any]bool{}}
	for _, s := range strays {
		v.found(Astray, s.Path, nil, "it %s", s.Reason)
	}
	if err := v.packages(ctx, packages, report); err != nil {
		return nil, err
	}
	if err := v.index(packages); err != nil {
		return nil, err
	}
	if name := own + "/" + unsettled; b.has(name) {
		v.found(Unfinished, b.dir.Path(name), nil, "the last process that wrote to the mirror was interrupted")
	}
	slices.SortStableFunc(v.Findings, func(f, g *store.Finding) int { return cmp.Compare(f.Path, g.Path) })
	slices.SortStableFunc(v.Sound, func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	return &v.Verification, nil
}

// found adds a finding about a path.
func (v *verifier) found(kind store.Kind, path string, id *sources.PackageID, format string, args ...any) {
	v.note(path, &store.Finding{Kind: kind, Path: v.relative(path), Package: id, Err: fmt.Errorf(format, args...)})
}

// note adds a finding about the package or the document at a path.
func (v *verifier) note(path string, f *store.Finding) {
	v.Findings = append(v.Findings, f)
	switch f.Kind {
	case store.Broken, store.Changed, store.Unreadable:
		v.broken[path] = true
	case store.BadEvidence:
		v.broken[f.Package.Release()] = true
	}
}

// packages verifies all packages.
func (v *verifier) packages(ctx context.Context, packages []fsmirror.Package, report func(done, of int64)) error {
	first := map[sources.PackageID]spot{}
	var entries []Entry
	for _, pkg := range packages {
		e, err := v.entry(spotOf(pkg))
		if err != nil {
			v.found(store.Broken, spotOf(pkg).path, &pkg.ID, "%w", err)
			continue
		}
		if other, ok := first[pkg.ID]; ok && other.unpacked == e.Unpacked {
			v.found(Twice, e.at.path, &pkg.ID, "terraform and tofu use %s", v.relative(other.path))
		} else if !ok {
			first[pkg.ID] = e.at
		}
		entries = append(entries, e)
	}
	subjects := make([]store.Subject, len(entries))
	for i, e := range entries {
		subjects[i] = v.subject(e)
	}
	return v.evidence.Verify(ctx, subjects, report)
}

// subject returns a package as it is to be verified.
func (v *verifier) subject(e Entry) store.Subject {
	s := store.Subject{ID: e.ID, Path: e.Path, Dir: e.at.path, Size: e.Size}
	read := record{}
	s.Read = func(ctx context.Context) (store.Facts, error) {
		before, _ := mark(e.at)
		fresh, contents, err := hash(ctx, e.at.path)
		if err == nil {
			_, err = archive.ExecutableIn(contents, e.ID.Provider.Type)
		}
		if err == nil {
			read = record{Facts: fresh.Facts, Mark: before}
		}
		return fresh.Facts, err
	}
	s.Recorded = func(now store.Facts) ([]store.Facts, error) {
		old, err := v.recall(e.at)
		if err != nil {
			old = v.knows(e.ID, record{Facts: now})
		}
		return []store.Facts{old.Facts}, err
	}
	if e.Unpacked {
		s.Start = func() error { return archive.Startable(e.at.path, e.ID) }
	}
	s.Done = func(result store.Verified) { v.add(e, read, result) }
	return s
}

// add adds a package with the results of verifying it, and records what was proved about a sound package, so that later
// commands know it.
func (v *verifier) add(e Entry, read record, result store.Verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Packages++
	v.Bytes += e.Size
	for _, f := range result.Findings {
		v.note(e.at.path, f)
	}
	if read.H1 != "" {
		v.fresh[e.at.path] = read
	}
	if !result.Sound() {
		return
	}
	read.Facts, read.Proof = result.Was, result.Proof
	if !read.Proof.Signed() {
		v.Unvouched++
	}
	v.Sound = append(v.Sound, sources.Stored{
		ID: e.ID, Dir: e.at.path, H1: read.H1, ZipH1: read.ZipH1, ZH: read.ZH,
		Proof: read.Proof, Report: v.opts.Judge.Report(e.ID.Provider, read.Proof),
	})
	if now, err := mark(e.at); err != nil || now == "" || now != read.Mark {
		return // it was changed since it was read
	}
	if read.Since.IsZero() {
		read.Since = v.opts.Now().UTC()
	}
	if signed, err := v.evidence.Marked(e.ID.Release()); err == nil && read.Proof.Signed() {
		read.Evidence = evidence.Reference(signed)
	}
	v.Builder.note(e.at, read)
	v.learn(e.ID, read.Facts)
}

// index compares the index with the archives. A mirror without documents is a
// filesystem mirror and requires no index.
func (v *verifier) index(packages []fsmirror.Package) error {
	archives := v.packed(packages, nil)
	homes := map[string]sources.Provider{}
	for _, at := range archives {
		for _, home := range v.homes(at.id.Provider) {
			homes[folded(home)] = at.id.Provider
		}
	}
	there, err := v.readShelves()
	if err != nil {
		return err
	}
	shelves := map[string]shelf{}
	for home, docs := range there {
		p, packages := homes[folded(home)]
		if v.valid(home, docs, packages) {
			shelves[folded(home)] = docs
			v.checkShelf(home, p, docs)
		}
	}
	if len(shelves) == 0 {
		return nil
	}
	for _, at := range archives {
		if v.broken[at.path] { // larder mirror index leaves it out
			continue
		}
		for _, home := range v.homes(at.id.Provider) {
			name := at.id.Version.String() + ".json"
			if _, ok := shelves[folded(home)][name].Archives[at.id.Platform.String()]; !ok {
				v.found(Unindexed, filepath.Join(home, name), &at.id, "it does not name %s", v.relative(at.path))
			}
		}
	}
	return nil
}

// folded returns the path as a case-insensitive file system compares it.
func folded(path string) string { return strings.ToLower(path) }

// valid reports whether the documents in a directory are an index. An invalid document is a
// finding if the directory has packages; otherwise it may belong to another program.
func (v *verifier) valid(home string, docs shelf, packages bool) (found bool) {
	for name, doc := range docs {
		found = found || doc.err == nil || packages
		if doc.err != nil && packages {
			v.found(BadIndex, filepath.Join(home, name), nil, "it is invalid: %v", doc.err)
		}
	}
	return found
}

// checkShelf compares the documents of a directory with each other and with the files
// that they name. The provider is zero if there are no archives.
func (v *verifier) checkShelf(home string, p sources.Provider, docs shelf) {
	index, listed := filepath.Join(home, fsmirror.Index), docs[fsmirror.Index].Versions
	for _, version := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := docs[version+".json"]; !ok {
			v.found(BadIndex, index, nil, "it lists %s, but there is no %s.json", version, version)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		of, ok := fsmirror.VersionOf(name)
		if !ok {
			continue
		}
		version := of.String()
		doc, path := docs[name], filepath.Join(home, name)
		if _, ok := listed[version]; len(doc.Archives) > 0 && !ok {
			v.found(BadIndex, index, nil, "it does not list %s, but there is a %s.json", version, version)
		}
		v.checkExtension(path, p, version, doc.Document)
		for _, platform := range slices.Sorted(maps.Keys(doc.Archives)) {
			v.checkArchive(path, version, platform, doc.Archives[platform])
		}
	}
}

// checkExtension checks a document's entry for the evidence.
func (v *verifier) checkExtension(path string, p sources.Provider, version string, doc fsmirror.Document) {
	id, err := sources.ParseVersion(version)
	if err != nil || p == (sources.Provider{}) || doc.Archives == nil || v.broken[sources.Release{Provider: p, Version: id}] {
		return // there is another finding
	}
	got := doc.Larder
	want, err := v.extension(p, id)
	switch {
	case err != nil:
		v.found(BadIndex, path, nil, "the evidence for it cannot be read: %v", err)
	case reflect.DeepEqual(got, want):
	case want == nil:
		v.found(BadIndex, path, nil, "it names evidence, but %s contains no readable evidence", evidence.Path(p, id))
	case got == nil:
		v.found(BadIndex, path, nil, "it does not name the evidence in %s", evidence.Path(p, id))
	default:
		v.found(BadIndex, path, nil, "the evidence that it names differs from the evidence in %s", evidence.Path(p, id))
	}
}

// checkArchive checks a document's entry for an archive.
func (v *verifier) checkArchive(doc, version, platform string, entry fsmirror.Archive) {
	path, ok := v.resolve(doc, entry.URL)
	if !ok {
		v.found(BadIndex, doc, nil, "the archive that it names for %s is not in the mirror: %q", platform, entry.URL)
		return
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		var missing *sources.PackageID
		id, err := sources.ParsePackageID(v.relative(filepath.Dir(doc)), version, platform)
		if err == nil && path == v.place(id, false).path {
			missing = &id
			isStray := func(f *store.Finding) bool { return f.Kind == Astray && f.Path == v.relative(path) }
			v.Findings = slices.DeleteFunc(v.Findings, isStray) // the package will replace it
		}
		if _, err := os.Lstat(path); err != nil {
			v.found(store.Missing, doc, missing, "it names %s, which does not exist", v.relative(path))
		} else { // a link may lead nowhere
			v.found(store.Missing, path, missing, "%s names it, and it is not a regular file", v.relative(doc))
		}
		return
	}
	fresh, ok := v.fresh[path]
	if !ok { // already a finding, unless the file is not a package
		if !v.broken[path] {
			v.found(BadIndex, doc, nil, "the file that it names for %s is not a package: %s", platform, v.relative(path))
		}
		return
	}
	for _, h := range entry.Hashes {
		if h.Usable() && h != fresh.ZH && h != fresh.H1 && h != fresh.ZipH1 {
			is := fresh.ZH
			if h.Scheme() == sources.H1 {
				is = fresh.H1
			}
			v.found(BadIndex, doc, nil, "it lists %s for %s, but %s is %s", h, platform, v.relative(path), is)
		}
	}
}
