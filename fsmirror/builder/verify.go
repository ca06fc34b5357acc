package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
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
	fresh  map[string]record // hashes of the archives, by relative path
	broken map[any]bool      // packages by relative path, and evidence by release, that are findings
}

// Verify reads all files in a mirror. It compares packages with their records and
// their evidence, and the index with the packages. It changes nothing and opens no
// connection. While another process writes to the mirror, it may find problems that
// this process completes. Report is called with the number of bytes read so far, one call at a
// time. It may be nil.
func (b *Builder) Verify(ctx context.Context, report func(done, of int64)) (*Verification, error) {
	b.forgetTree()
	packages, err := b.packages(ctx)
	if err != nil {
		return nil, err
	}
	strays, err := b.tree.Strays(ctx)
	if err != nil {
		return nil, err
	}
	v := &verifier{Builder: b, fresh: map[string]record{}, broken: map[any]bool{}}
	for _, s := range strays {
		v.found(Astray, b.relative(s.Path), nil, "it %s", s.Reason)
	}
	if err := v.evidence.Verify(ctx, v.subjects(packages), report); err != nil {
		return nil, err
	}
	if err := v.checkIndex(ctx); err != nil {
		return nil, err
	}
	if err := v.checkSet(ctx); err != nil {
		return nil, err
	}
	if name := own + "/" + unsettled; b.has(name) {
		v.found(Unfinished, name, nil, "a process that writes to the mirror was interrupted, or still runs")
	}
	slices.SortStableFunc(v.Findings, func(f, g *store.Finding) int { return cmp.Compare(f.Path, g.Path) })
	slices.SortStableFunc(v.Sound, func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	return &v.Verification, nil
}

// found adds a finding about a path, which is relative to the mirror.
func (v *verifier) found(kind store.Kind, path string, id *sources.PackageID, format string, args ...any) {
	v.add(&store.Finding{Kind: kind, Path: path, Package: id, Err: fmt.Errorf(format, args...)})
}

func (v *verifier) add(f *store.Finding) {
	v.Findings = append(v.Findings, f)
	switch f.Kind {
	case store.Broken, store.Changed, store.Unreadable:
		v.broken[f.Path] = true
	case store.BadEvidence:
		v.broken[f.Package.Release()] = true
	}
}

// subjects returns the packages as they are to be verified.
func (v *verifier) subjects(packages []fsmirror.Package) (all []store.Subject) {
	first := map[sources.PackageID]Entry{}
	for _, pkg := range packages {
		e, err := v.entry(pkg)
		if err != nil {
			v.found(store.Broken, v.relative(pkg.Path()), &pkg.ID, "%w", err)
			continue
		}
		if other, ok := first[e.ID]; !ok {
			first[e.ID] = e
		} else if other.Unpacked == e.Unpacked {
			v.found(Twice, e.Path, &e.ID, "terraform and tofu use %s", other.Path)
		}
		all = append(all, v.subject(e))
	}
	return all
}

func (v *verifier) subject(e Entry) store.Subject {
	s := store.Subject{ID: e.ID, Path: e.Path, Dir: e.at.Path(), Size: e.Size}
	before := ""
	s.Read = func(ctx context.Context) (store.Facts, error) {
		before, _ = mark(e.at)
		now, contents, err := v.hash(ctx, e.at, true)
		if err == nil {
			_, err = archive.ExecutableIn(contents, e.ID.Provider.Type)
		}
		return now, err
	}
	s.Recorded = func(now store.Facts) ([]store.Facts, error) {
		old, err := v.recall(e.at)
		if err != nil {
			old.Facts = v.knows(e.ID, now)
		}
		return []store.Facts{old.Facts}, err
	}
	if e.Unpacked {
		s.Start = func() error { return archive.Startable(e.at.Path(), e.ID) }
	}
	s.Done = func(result store.Verified) { v.done(e, record{Facts: result.Now, Mark: before}, result) }
	return s
}

// statesContents reports whether the record of a package or the index has the hash of its contents.
func (v *verifier) statesContents(at fsmirror.Package) bool {
	if r, err := v.recall(at); err == nil && r.H1 != "" {
		return true
	}
	doc := v.readDocument(document(home(at.ID.Provider), at.ID.Version))
	return sources.AnyOf(sources.H1, doc.Archives[at.ID.Platform.String()].Hashes)
}

// done adds a package with the results of verifying it, and records what was proved about a sound package, so that
// later commands know it.
func (v *verifier) done(e Entry, read record, result store.Verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Packages++
	v.Bytes += e.Size
	for _, f := range result.Findings {
		v.add(f)
	}
	if len(read.Hashes()) > 0 {
		v.fresh[e.Path] = read
	}
	if !result.Sound() {
		return
	}
	read.Facts, read.Proof = result.Was.With(read.Facts), result.Proof
	if !read.Proof.Signed() {
		v.Unvouched++
	}
	proof := read.Proof
	proof.Approvals = v.approvals(e.at, read.Facts)
	v.Sound = append(v.Sound, sources.Stored{
		ID: e.ID, Dir: e.at.Path(), H1: read.H1, ZipH1: read.ZipH1, ZH: read.ZH,
		Proof: proof, Report: v.opts.Judge.Report(e.ID.Provider, proof),
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
	if read.Proof.Signed() && !e.Unpacked && !v.statesContents(e.at) {
		read.H1, read.ZipH1 = "", "" // otherwise the next run would add it to the index
	}
	v.note(e.at, read)
	v.learn(e.ID, read.Facts)
}

// checkIndex compares the index with the one that the packages should have. A mirror without documents is a
// filesystem mirror and requires no index.
func (v *verifier) checkIndex(ctx context.Context) error {
	exists, before, unread := false, len(v.Findings), map[string]error{}
	look := func(_ context.Context, at fsmirror.Package, _ bool) (r record, err error) {
		r, ok := v.fresh[v.relative(at.Path())]
		if !ok {
			err = errors.New("damaged") // which is a finding
		}
		return r, err
	}
	err := v.survey(ctx, indexing{look: look}, nil, func(h *homeIndex) {
		maps.Copy(unread, h.unread)
		exists = v.checkHome(h) || exists
	})
	if !exists {
		v.Findings = v.Findings[:before]
	}
	for _, home := range slices.Sorted(maps.Keys(unread)) {
		v.found(BadIndex, home, nil, "the evidence cannot be read: %v", unread[home])
	}
	return err
}

// checkHome compares the documents of one directory with what they should be, and reports whether there are any.
// Others than those that are needed may belong to other programs.
func (v *verifier) checkHome(h *homeIndex) (exists bool) {
	isIndex := map[string]bool{}
	for name, doc := range h.there {
		if doc.err == nil || len(h.want) > 0 {
			isIndex[path.Dir(name)], exists = true, true
		}
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(h.want)), maps.Keys(h.there))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if len(h.want) > 0 || isIndex[path.Dir(name)] {
			v.checkDocument(name, h)
		}
	}
	return exists
}

// checkDocument compares a document with the others of its directory, and with what it should be.
func (v *verifier) checkDocument(name string, h *homeIndex) {
	home, doc, want := path.Dir(name), h.there[name], h.want[name]
	index := home + "/" + fsmirror.Index
	if doc.err != nil && len(h.want) > 0 {
		v.found(BadIndex, name, nil, "it is invalid: %v", doc.err)
	}
	for _, version := range slices.Sorted(maps.Keys(doc.Versions)) {
		if _, ok := h.there[home+"/"+version+".json"]; !ok && name == index {
			v.found(BadIndex, name, nil, "it lists %s, but there is no %s.json", version, version)
		}
	}
	version, ok := fsmirror.VersionOf(path.Base(name))
	if !ok {
		return
	}
	if _, ok := h.there[index].Versions[version.String()]; len(doc.Archives) > 0 && !ok {
		v.found(BadIndex, index, nil, "it does not list %s, but there is a %s", version, path.Base(name))
	}
	of := sources.Release{Provider: h.provider, Version: version}
	v.checkEvidence(name, of, doc, want)
	for _, platform := range slices.Sorted(maps.Keys(doc.Archives)) {
		v.checkArchive(name, version, platform, doc.Archives[platform])
	}
	for _, platform := range slices.Sorted(maps.Keys(want.Archives)) {
		at, _ := resolve(name, want.Archives[platform].URL)
		if _, ok := doc.Archives[platform]; !ok && !v.broken[at] { // larder mirror index leaves it out
			on, _ := sources.ParsePlatform(platform)
			id := sources.PackageID{Provider: of.Provider, Version: version, Platform: on}
			v.found(Unindexed, name, &id, "it does not name %s", at)
		}
	}
}

// checkEvidence checks a document's entry for the evidence, unless there is another finding about it.
func (v *verifier) checkEvidence(file string, of sources.Release, doc placed, want fsmirror.Document) {
	at := evidence.Path(of.Provider, of.Version)
	switch {
	case v.broken[of], doc.Archives == nil, want.Archives == nil, reflect.DeepEqual(doc.Larder, want.Larder):
	case doc.Larder == nil:
		v.found(BadIndex, file, nil, "it does not name the evidence in %s", at)
	default:
		v.found(BadIndex, file, nil, "the evidence that it names differs from the evidence in %s", at)
	}
}

// checkArchive checks a document's entry for an archive.
func (v *verifier) checkArchive(doc string, version sources.Version, platform string, entry fsmirror.Archive) {
	file, ok := resolve(doc, entry.URL)
	if !ok {
		v.found(BadIndex, doc, nil, "the archive that it names for %s is not in the mirror: %q", platform, entry.URL)
		return
	}
	info, err := os.Stat(v.dir.Path(file))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		v.missing(doc, file, version, platform)
		return
	}
	fresh, ok := v.fresh[file]
	if !ok && !v.broken[file] {
		v.found(BadIndex, doc, nil, "the file that it names for %s is not a package: %s", platform, file)
	}
	for _, h := range entry.Hashes {
		is := fresh.ZH
		if h.Scheme() == sources.H1 {
			is = fresh.H1
		}
		if ok && h.Usable() && is != "" && h != is && h != fresh.ZipH1 {
			v.found(BadIndex, doc, nil, "it lists %s for %s, but %s is %s", h, platform, file, is)
		}
	}
}

// missing adds the finding about a file that a document names, and that is no archive.
func (v *verifier) missing(doc, file string, version sources.Version, platform string) {
	var missing *sources.PackageID
	id, err := sources.ParsePackageID(path.Dir(doc), version.String(), platform)
	if err == nil && file == v.relative(v.place(id, false).Path()) {
		missing = &id // which will replace it
		isStray := func(f *store.Finding) bool { return f.Kind == Astray && f.Path == file }
		v.Findings = slices.DeleteFunc(v.Findings, isStray)
	}
	if _, err := v.dir.Lstat(file); err != nil {
		v.found(store.Missing, doc, missing, "it names %s, which does not exist", file)
	} else { // a link may lead nowhere
		v.found(store.Missing, file, missing, "%s names it, and it is not a regular file", doc)
	}
}

// A Remedy is what repairs a finding.
type Remedy string

// The remedies.
const (
	Replace Remedy = "replaced"     // fetching the package again, with its evidence
	Correct Remedy = "corrected"    // [Builder.Finish]
	Nothing Remedy = "not repaired" // Larder did not store the file
)

// Remedy returns what repairs the finding.
func (b *Builder) Remedy(f *store.Finding) Remedy {
	switch f.Kind {
	case store.Broken, store.Changed, store.Unreadable, store.BadEvidence:
		if at := b.place(*f.Package, Unpacked(f)); b.relative(at.Path()) == f.Path {
			return Replace
		}
	case store.Missing:
		if f.Package != nil {
			return Replace
		}
		return Correct
	case Unindexed, BadIndex, Unfinished:
		return Correct
	}
	return Nothing
}

// Unpacked reports whether the finding is about a package that is a directory.
func Unpacked(f *store.Finding) bool { return f.Package != nil && f.Path == f.Package.Path() }

// StoreAs sets whether packages are stored as directories from now on. It must not be called while
// packages are being stored.
func (b *Builder) StoreAs(unpacked bool) { b.opts.Unpacked = unpacked }

// doubts reports whether a package was found damaged, see [Builder.Doubt].
func (b *Builder) doubts(id sources.PackageID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.doubted, id)
}

// Doubt makes the Builder read a damaged package again, even if its fingerprint matches its record. Until the package
// is replaced, Finish keeps its entry in the index. Doubt returns the hashes that the package had, from its record, or
// else from its signed checksums or the index. For an archive, it returns only the checksum, because a damaged archive
// may still have the same contents.
func (b *Builder) Doubt(id sources.PackageID) []sources.Hash {
	at := b.place(id, b.opts.Unpacked)
	b.mu.Lock()
	b.doubted = append(b.doubted, id)
	b.mu.Unlock()
	if r, err := b.recall(at); err == nil {
		r.Mark = ""
		b.note(at, r)
		if at.Unpacked() {
			return []sources.Hash{r.H1, r.ZH}
		}
		return []sources.Hash{r.ZH}
	}
	if signed, err := b.Evidence(id.Provider, id.Version); err == nil {
		if sums, err := trust.ParseSums(signed.Sums); err == nil {
			if zh := sums.Archives(id.Provider, id.Version)[id.Platform]; zh != "" {
				return []sources.Hash{zh}
			}
		}
	}
	doc := b.readDocument(document(home(id.Provider), id.Version))
	stated := doc.Archives[id.Platform.String()].Hashes
	if sources.AnyOf(sources.ZH, stated) {
		stated = slices.DeleteFunc(stated, func(h sources.Hash) bool { return h.Scheme() != sources.ZH })
	}
	return stated
}
