package publish

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/evidence"
)

// maxRaces is how often a document is written again, because another program has changed it meanwhile.
const maxRaces = 20

// How web servers and other caches may keep what a bucket has. Documents change, and archives and evidence have names by their contents.
const (
	keepDocument = "no-cache"
	keepContents = "public, max-age=31536000, immutable"
)

const (
	archives     = "archives/" // contains a directory for each archive, with its SHA-256 as the name
	maxTombstone = 256         // bytes; a document without archives is smaller, and most others are larger
)

// abandonedAfter is the age of an archive that no document names, and of the document of its version, after which no pusher is still
// going to name the archive, and no reader of an older document still downloads it.
const abandonedAfter = 24 * time.Hour

// A Bucket is a [Target] in an S3-compatible store: a static network mirror. Hosts are in punycode, as clients request them.
//
//	HOST/NAMESPACE/TYPE/index.json
//	HOST/NAMESPACE/TYPE/VERSION.json
//	HOST/NAMESPACE/TYPE/archives/SHA256/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//
// Archives and evidence have names by their contents, so they never change. Only documents do, each in one conditional write. So
// readers get whole versions, and pushers lose nothing of each other:
//
//   - A document that names an archive with other contents stays, unless it is to be replaced, and the archive stays in any case.
//   - The document of a removed version stays, without archives. Only so can the write depend on what another pusher has added.
//   - An archive is removed after all documents that named it, and only if none names it immediately before that. If another pusher
//     names it between that check and the removal, one of the two programs notices it: the pusher looks for the archives that it has
//     named, and uploads missing ones again; the program that has removed it reads the document again, and returns an error.
//   - index.json is written from the documents, which are read before and after that.
//
// One case remains: if both programs are killed in this moment, or the one that has removed the archive is killed after the other one
// has finished, the document names an archive that isn't there. The next push of this package uploads it again.
type Bucket struct {
	in *bucket.Bucket

	listings sources.Memo[sources.Provider, map[string]bucket.Info] // the objects, by name in the directory of the provider
	proofs   sources.Memo[sources.Provider, map[string]bucket.Info] // those with evidence, by name

	mu    sync.Mutex
	known map[sources.Release]fsmirror.Document // as they were read or written last
	work  map[sources.Provider]*toFinish
}

// toFinish is what Finish has to do about a provider.
type toFinish struct {
	touched map[sources.Version]bool   // what index.json may lack, or list although it was removed
	stored  []Release                  // what Put has stored
	dropped map[string]sources.Version // the names of the objects that a document no longer names, with its version
	prune   bool                       // whether objects are removed that no document names
}

// NewBucket returns the target in a bucket, for one push.
func NewBucket(b *bucket.Bucket) *Bucket {
	return &Bucket{in: b, known: map[sources.Release]fsmirror.Document{}, work: map[sources.Provider]*toFinish{}}
}

func (b *Bucket) String() string { return b.in.Location().String() }

// finishing calls f with what Finish has to do about a provider, one call at a time.
func (b *Bucket) finishing(p sources.Provider, f func(*toFinish)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.work[p] == nil {
		b.work[p] = &toFinish{touched: map[sources.Version]bool{}, dropped: map[string]sources.Version{}}
	}
	f(b.work[p])
}

// note records a document that was read or written.
func (b *Bucket) note(r sources.Release, doc fsmirror.Document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[r] = doc
}

// noted returns the document of a release as it was read or written last.
func (b *Bucket) noted(r sources.Release) fsmirror.Document {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known[r]
}

// Check implements [Target].
func (b *Bucket) Check([]Release) error { return nil }

// home returns the name of the directory of a provider.
func home(p sources.Provider) string { return path.Join(p.Host.ASCII(), p.Namespace, p.Type) + "/" }

func documentOf(r sources.Release) string { return home(r.Provider) + r.Version.String() + ".json" }

// urlOf returns the URL of an archive in the document of its version.
func urlOf(p Package) (string, error) {
	sum, err := p.ZH.Sum(sources.ZH)
	return archives + hex.EncodeToString(sum[:]) + "/" + p.ID.Filename(), err
}

// object returns the name of the object with a URL in a document about a provider. There is none if the URL is that of another server.
func (b *Bucket) object(p sources.Provider, ref string) (name string, ok bool) {
	root := b.in.URL("")
	u, err := b.in.URL(home(p)).Parse(ref)
	if err != nil || u.Scheme != root.Scheme || u.Host != root.Host || u.RawQuery != "" {
		return "", false
	}
	name, ok = strings.CutPrefix(u.Path, root.Path)
	return name, ok && path.Clean("/"+name) == "/"+strings.TrimSuffix(name, "/")
}

// Look implements [Place]. An archive that a document names counts only if it exists.
func (b *Bucket) Look(ctx context.Context, r Release) (State, error) {
	s := State{Archives: map[sources.Platform]sources.Hash{}}
	listed, err := b.list(ctx, r.Provider)
	if err != nil {
		return s, err
	}
	if _, ok := listed[r.Version.String()+".json"]; !ok {
		return s, sources.ErrNotFound
	}
	doc, err := b.readVersion(ctx, r.Release)
	if err != nil {
		return s, err
	}
	b.finishing(r.Provider, func(f *toFinish) { f.touched[r.Version] = true })
	if len(doc.Archives) == 0 {
		return s, sources.ErrNotFound
	}
	for text, a := range doc.Archives {
		platform, err := sources.ParsePlatform(text)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(r.Packages, func(p Package) bool { return p.ID.Platform == platform })
		if i < 0 {
			s.Archives[platform] = archiveHash(a)
			continue
		}
		same, theirs := compare(a, r.Packages[i])
		if same {
			if same, err = b.exists(ctx, listed, a, r.Packages[i]); err != nil {
				return s, err
			}
		}
		switch {
		case theirs != "":
			s.Archives[platform] = theirs // even if it is missing: lock files have its hash, or it isn't in the listing yet
		case same:
			s.Archives[platform] = r.Packages[i].ZH
		}
	}
	if s.Signed, err = b.signed(ctx, r, doc); err != nil {
		return s, err
	}
	return s, nil
}

// compare compares an archive that a document names with a package. Theirs is the hash of an archive with other contents, and else
// "". Without a hash that both have, nothing is known.
func compare(a fsmirror.Archive, p Package) (same bool, theirs sources.Hash) {
	for _, scheme := range []string{sources.ZH, sources.H1} {
		for _, h := range a.Hashes {
			switch {
			case h.Scheme() != scheme || !sources.AnyOf(scheme, p.Hashes):
			case slices.ContainsFunc(p.Hashes, func(own sources.Hash) bool { return own.Canonical() == h.Canonical() }):
				return true, ""
			case theirs == "":
				theirs = h.Canonical()
			}
		}
		if theirs != "" {
			break
		}
	}
	return false, theirs
}

// archiveHash returns the hash of an archive that a document states, or "".
func archiveHash(a fsmirror.Archive) sources.Hash {
	i := slices.IndexFunc(a.Hashes, func(h sources.Hash) bool { return h.Scheme() == sources.ZH })
	if i < 0 {
		return ""
	}
	return a.Hashes[i].Canonical()
}

// exists reports whether the archive that a document names for a package exists. Its name states its contents, or else the
// document does. Archives on other servers, which Larder's own documents never name, are not looked for.
func (b *Bucket) exists(ctx context.Context, listed map[string]bucket.Info, a fsmirror.Archive, p Package) (bool, error) {
	name, ok := b.object(p.ID.Provider, a.URL)
	if !ok {
		return true, nil
	}
	inHome, ok := strings.CutPrefix(name, home(p.ID.Provider))
	info, exists := listed[inHome]
	if !ok {
		var err error
		info, err = b.in.Head(ctx, name)
		if exists = err == nil; err != nil && !errors.Is(err, sources.ErrNotFound) {
			return false, err
		}
	}
	url, err := urlOf(p)
	sized := archiveHash(a) == "" || info.Size == p.Size // an archive that was packed again has another size
	return exists && sized && (inHome == url || !strings.HasPrefix(inHome, archives)), err
}

// locate returns the location of the evidence for a release. Each evidence has a directory of its own, so that a document never refers to
// files that another program has replaced.
func locate(r Release) *evidence.Location {
	at := evidence.Locate(r.Provider, r.Version, *r.Evidence)
	at.URL += evidenceName(r) + "/"
	return at
}

// evidenceName returns the name of the directory for the evidence for a release.
func evidenceName(r Release) string {
	sum := sha256.New()
	for _, file := range r.Evidence {
		fmt.Fprintf(sum, "%d ", len(file))
		sum.Write(file)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func sameEvidence(a, b evidence.Location) bool {
	for _, name := range evidence.Names {
		if a.SHA256[name] != b.SHA256[name] {
			return false
		}
	}
	return true
}

// list returns the objects in the directory of a provider, as they were when it was called first.
func (b *Bucket) list(ctx context.Context, p sources.Provider) (map[string]bucket.Info, error) {
	return b.listings.Get(ctx, p, func() (map[string]bucket.Info, error) { return b.listBelow(ctx, home(p)) })
}

// listEvidence returns the objects with evidence for a provider by their full names, as they were when it was called first.
func (b *Bucket) listEvidence(ctx context.Context, p sources.Provider) (map[string]bucket.Info, error) {
	return b.proofs.Get(ctx, p, func() (map[string]bucket.Info, error) {
		dir := evidenceHome(p)
		listed, err := b.listBelow(ctx, dir)
		all := map[string]bucket.Info{}
		for name, info := range listed {
			all[dir+name] = info
		}
		return all, err
	})
}

// listBelow returns the objects in a directory, by their names in it.
func (b *Bucket) listBelow(ctx context.Context, dir string) (map[string]bucket.Info, error) {
	found := map[string]bucket.Info{}
	for info, err := range b.in.List(ctx, dir) {
		if err != nil && info.Name == "" {
			return nil, err
		}
		found[strings.TrimPrefix(info.Name, dir)] = info
	}
	return found, nil
}

// readVersion reads the document of a release, which is empty if there is none.
func (b *Bucket) readVersion(ctx context.Context, r sources.Release) (fsmirror.Document, error) {
	doc, _, err := b.read(ctx, documentOf(r))
	if err == nil {
		b.note(r, doc)
	}
	return doc, err
}

// readVersions reads the documents of versions.
func (b *Bucket) readVersions(ctx context.Context, p sources.Provider, versions []sources.Version) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, v := range versions {
		group.Go(func() error {
			_, err := b.readVersion(ctx, sources.Release{Provider: p, Version: v})
			return err
		})
	}
	return group.Wait()
}

// read returns a document and its ETag. If there is none, both are empty.
func (b *Bucket) read(ctx context.Context, name string) (doc fsmirror.Document, etag string, err error) {
	data, info, err := b.in.Get(ctx, name, fsmirror.MaxDocument)
	if errors.Is(err, sources.ErrNotFound) {
		return doc, "", nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &doc); err != nil {
			err = sources.WithHint(fmt.Errorf("%s/%s is not a document of a network mirror: %w", b, name, err), "remove it, and push again")
		}
	}
	return doc, info.ETag, err
}

// update changes a document, and returns what it has written. If another program writes it at the same time, change is called again
// with what that has written.
func (b *Bucket) update(ctx context.Context, name string, change func(*fsmirror.Document) error) (fsmirror.Document, error) {
	for range maxRaces {
		doc, etag, err := b.read(ctx, name)
		if err != nil {
			return doc, err
		}
		was, err := documentText(doc)
		if err == nil {
			err = change(&doc)
		}
		if err != nil {
			return doc, err
		}
		text, err := documentText(doc)
		if err != nil || bytes.Equal(was, text) {
			return doc, err
		}
		only := bucket.NotExisting
		if etag != "" {
			only = bucket.IfETag(etag)
		}
		_, err = b.in.Put(ctx, name, text, bucket.WriteOptions{ContentType: "application/json", CacheControl: keepDocument, Only: only})
		if !errors.Is(err, bucket.ErrChanged) {
			return doc, err
		}
	}
	return fsmirror.Document{}, fmt.Errorf("%s/%s: %w", b, name, bucket.ErrChanged)
}

// documentText returns a document as engines write it.
func documentText(doc fsmirror.Document) ([]byte, error) {
	text, err := sources.JSON(doc)
	return bytes.TrimSuffix(text, []byte("\n")), err
}

// Put implements [Target]. The document is written after everything that it names.
func (b *Bucket) Put(ctx context.Context, r Release, sent func(int64)) error {
	for _, p := range r.Packages {
		if err := b.upload(ctx, p, sent); err != nil {
			return sources.InPackage(p.ID, err)
		}
	}
	if r.Evidence != nil {
		if err := b.putEvidence(ctx, r); err != nil {
			return err
		}
	}
	found := b.noted(r.Release)
	doc, err := b.update(ctx, documentOf(r.Release), func(doc *fsmirror.Document) error {
		if doc.Archives == nil {
			doc.Archives = map[string]fsmirror.Archive{}
		}
		for _, p := range r.Packages {
			platform := p.ID.Platform.String()
			is, was := doc.Archives[platform], found.Archives[platform]
			if _, theirs := compare(is, p); theirs != "" && !slices.Equal(is.Hashes, was.Hashes) {
				return &sources.PackageError{ID: p.ID, Err: &DifferError{b.String(), theirs, p.ZH}}
			}
			url, err := urlOf(p)
			if err != nil {
				return err
			}
			doc.Archives[platform] = fsmirror.Archive{Hashes: p.Hashes, URL: url}
		}
		if r.Evidence != nil && len(doc.Archives) > 0 { // otherwise another program has removed the version
			doc.Larder = &evidence.Extension{Evidence: locate(r)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.note(r.Release, doc)
	b.finishing(r.Provider, func(f *toFinish) {
		f.touched[r.Version] = true
		f.stored = append(f.stored, r)
	})
	return nil
}

// evidenceHome returns the name of the directory with the evidence of a provider.
func evidenceHome(p sources.Provider) string {
	return path.Dir(evidence.Path(p, sources.Version{})) + "/"
}

// putEvidence stores the evidence of a release, in a directory of its own.
func (b *Bucket) putEvidence(ctx context.Context, r Release) error {
	for i, name := range evidence.Names {
		at := evidence.Path(r.Provider, r.Version) + "/" + evidenceName(r) + "/" + name
		if _, err := b.in.Put(ctx, at, r.Evidence[i], bucket.WriteOptions{CacheControl: keepContents}); err != nil {
			return err
		}
	}
	return nil
}

// upload stores an archive, unless it is there. One with other contents under its name is damaged, and is replaced.
func (b *Bucket) upload(ctx context.Context, p Package, sent func(int64)) error {
	sum, err := p.ZH.Sum(sources.ZH)
	if err != nil {
		return err
	}
	url, err := urlOf(p)
	if err != nil {
		return err
	}
	listed, err := b.list(ctx, p.ID.Provider)
	if err != nil {
		return err
	}
	_, exists := listed[url]
	name := home(p.ID.Provider) + url
	for range maxRaces {
		only := bucket.NotExisting
		if exists {
			info, err := b.in.Head(ctx, name)
			switch {
			case err == nil && info.SHA256 == sum && info.Size == p.Size:
				sent(p.Size)
				return nil
			case err == nil:
				only = bucket.IfETag(info.ETag)
			case !errors.Is(err, sources.ErrNotFound):
				return err
			}
		}
		exists = true // if the condition is not met, because another program has stored it
		if err = b.send(ctx, name, p, sum, only, sent); !errors.Is(err, bucket.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s/%s: %w", b, name, bucket.ErrChanged)
}

// send uploads an archive. Upload refuses it if it has other contents than when it was hashed.
func (b *Bucket) send(ctx context.Context, name string, p Package, sum [32]byte, only bucket.Condition, sent func(int64)) error {
	archive, err := p.open()
	if err != nil {
		return err
	}
	defer archive.Close()
	if info, err := archive.Stat(); err != nil || info.Size() != p.Size {
		return cmp.Or(err, sources.WithHint(errors.New("not uploaded: the archive has changed since the mirror was read"), "push again"))
	}
	var last int64
	_, err = b.in.Upload(ctx, name, archive, p.Size, sum, bucket.UploadOptions{
		WriteOptions: bucket.WriteOptions{ContentType: "application/zip", CacheControl: keepContents, Only: only},
		Progress: func(bytes int64) {
			sent(bytes - last)
			last = bytes
		},
	})
	if err != nil {
		sent(-last)
	}
	return err
}

// Versions implements [Lister]. Finish then also removes old archives that no document names.
func (b *Bucket) Versions(ctx context.Context, p sources.Provider) (versions []sources.Version, err error) {
	listed, err := b.list(ctx, p)
	if err != nil {
		return nil, err
	}
	var small []sources.Version
	for name, info := range listed {
		v, ok := versionOf(name)
		switch {
		case !ok:
		case info.Size <= maxTombstone:
			small = append(small, v)
		default:
			versions = append(versions, v)
		}
	}
	if err := b.readVersions(ctx, p, small); err != nil {
		return nil, err
	}
	b.finishing(p, func(f *toFinish) {
		f.prune = true
		for _, v := range small {
			f.touched[v] = true
			if len(b.known[sources.Release{Provider: p, Version: v}].Archives) > 0 {
				versions = append(versions, v)
			}
		}
	})
	slices.SortFunc(versions, sources.Version.Compare)
	return versions, nil
}

// versionOf returns the version whose document has a name.
func versionOf(name string) (sources.Version, bool) {
	text, ok := strings.CutSuffix(name, ".json")
	if !ok || name == fsmirror.Index {
		return sources.Version{}, false
	}
	v, err := sources.ParseVersion(text)
	return v, err == nil && v.String() == text
}

// Remove implements [Lister]. Finish removes the archives.
func (b *Bucket) Remove(ctx context.Context, r sources.Release, platforms []sources.Platform) error {
	var dropped []string
	doc, err := b.update(ctx, documentOf(r), func(doc *fsmirror.Document) error {
		dropped = nil
		for _, p := range platforms {
			a, ok := doc.Archives[p.String()]
			if !ok {
				continue
			}
			delete(doc.Archives, p.String())
			if name, ok := b.object(r.Provider, a.URL); ok && isArchive(r.Provider, name) {
				dropped = append(dropped, name)
			}
		}
		if len(doc.Archives) == 0 {
			doc.Larder = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(doc.Archives) == 0 {
		dir := evidence.Path(r.Provider, r.Version) + "/"
		files, err := b.listBelow(ctx, dir)
		if err != nil {
			return err
		}
		for name := range files {
			dropped = append(dropped, dir+name)
		}
	}
	b.note(r, doc)
	b.finishing(r.Provider, func(f *toFinish) {
		f.touched[r.Version] = true
		for _, name := range dropped {
			f.dropped[name] = r.Version
		}
	})
	return nil
}

// isArchive reports whether a name is that of an archive of a provider. Documents may name any other object as well.
func isArchive(p sources.Provider, name string) bool {
	inHome, ok := strings.CutPrefix(name, home(p))
	dir, file := path.Split(inHome)
	return ok && (dir == "" || strings.HasPrefix(dir, archives)) && strings.HasPrefix(file, sources.FilePrefix) && strings.HasSuffix(file, ".zip")
}

// concurrent is how many documents of a provider, or providers, are read and written at the same time.
const concurrent = 16

// Finish implements [Target]. It adds the versions to the index of each provider, and removes what Remove has left.
func (b *Bucket) Finish(ctx context.Context) error {
	b.mu.Lock()
	all := b.work
	b.work = map[sources.Provider]*toFinish{}
	b.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(concurrent)
	for p, f := range all {
		group.Go(func() error {
			err := errors.Join(b.complete(ctx, p, f.stored), b.reindex(ctx, p, f.touched))
			if err == nil && (f.prune || len(f.dropped) > 0) {
				err = b.clean(ctx, p, f)
			}
			return err
		})
	}
	return group.Wait()
}

// complete looks for what Put has named in documents. Another program may have removed it before the document named it.
func (b *Bucket) complete(ctx context.Context, p sources.Provider, stored []Release) error {
	for range maxRaces {
		if len(stored) == 0 {
			return nil
		}
		lost, err := b.lost(ctx, p, stored)
		if err != nil {
			return err
		}
		for _, r := range lost {
			for _, pkg := range r.Packages {
				if err := b.upload(ctx, pkg, func(int64) {}); err != nil {
					return sources.InPackage(pkg.ID, err)
				}
			}
			if r.Evidence != nil {
				if err := b.putEvidence(ctx, r); err != nil {
					return err
				}
			}
		}
		stored = lost
	}
	return fmt.Errorf("%s/%s: %w", b, home(p), bucket.ErrChanged)
}

// lost returns what is missing of releases although their documents name it.
func (b *Bucket) lost(ctx context.Context, p sources.Provider, stored []Release) (all []Release, err error) {
	listed, err := b.listBelow(ctx, home(p))
	if err != nil {
		return nil, err
	}
	var files map[string]bucket.Info
	if slices.ContainsFunc(stored, func(r Release) bool { return r.Evidence != nil }) {
		if files, err = b.listBelow(ctx, evidenceHome(p)); err != nil {
			return nil, err
		}
	}
	for _, r := range stored {
		missing := Release{Release: r.Release}
		for _, pkg := range r.Packages {
			url, err := urlOf(pkg)
			if err != nil {
				return nil, err
			}
			if info, ok := listed[url]; !ok || info.Size != pkg.Size {
				missing.Packages = append(missing.Packages, pkg)
			}
		}
		for _, name := range evidence.Names {
			if r.Evidence == nil {
				break
			}
			if _, ok := files[r.Version.String()+"/"+evidenceName(r)+"/"+name]; !ok {
				missing.Evidence = r.Evidence
			}
		}
		if missing.Packages == nil && missing.Evidence == nil {
			continue
		}
		doc, err := b.readVersion(ctx, r.Release)
		if err != nil {
			return nil, err
		}
		missing.Packages = slices.DeleteFunc(missing.Packages, func(pkg Package) bool {
			url, err := urlOf(pkg)
			return err != nil || doc.Archives[pkg.ID.Platform.String()].URL != url
		})
		if doc.Larder == nil || doc.Larder.Evidence == nil || missing.Evidence == nil || doc.Larder.Evidence.URL != locate(r).URL {
			missing.Evidence = nil
		}
		if len(missing.Packages) > 0 || missing.Evidence != nil {
			all = append(all, missing)
		}
	}
	return all, nil
}

// reindex corrects the index of a provider, which lists the versions whose documents name archives. Documents that were read before
// are read again only if the index would change. After that, they are read once more: another program may have changed a document,
// and found the index as it should be, before this one has written it.
func (b *Bucket) reindex(ctx context.Context, p sources.Provider, touched map[sources.Version]bool) error {
	listed := func(v sources.Version) bool {
		return len(b.noted(sources.Release{Provider: p, Version: v}).Archives) > 0
	}
	for range maxRaces {
		var changed []sources.Version
		index, err := b.update(ctx, home(p)+fsmirror.Index, func(index *fsmirror.Document) error {
			differs := func(v sources.Version) bool {
				_, has := index.Versions[v.String()]
				return has != listed(v)
			}
			changed = slices.DeleteFunc(slices.Collect(maps.Keys(touched)), func(v sources.Version) bool { return !differs(v) })
			if err := b.readVersions(ctx, p, changed); err != nil {
				return err
			}
			changed = slices.DeleteFunc(changed, func(v sources.Version) bool { return !differs(v) })
			for _, v := range changed {
				if !listed(v) {
					delete(index.Versions, v.String())
					continue
				}
				if index.Versions == nil {
					index.Versions = map[string]struct{}{}
				}
				index.Versions[v.String()] = struct{}{}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := b.readVersions(ctx, p, changed); err != nil {
			return err
		}
		if !slices.ContainsFunc(changed, func(v sources.Version) bool {
			_, has := index.Versions[v.String()]
			return has != listed(v)
		}) {
			return nil
		}
	}
	return fmt.Errorf("%s/%s: %w", b, home(p)+fsmirror.Index, bucket.ErrChanged)
}

// clean removes what documents no longer name.
func (b *Bucket) clean(ctx context.Context, p sources.Provider, f *toFinish) error {
	listed, err := b.listBelow(ctx, home(p))
	if err != nil {
		return err
	}
	var unread []sources.Version
	b.mu.Lock()
	for name := range listed {
		v, ok := versionOf(name)
		if _, known := b.known[sources.Release{Provider: p, Version: v}]; ok && !known {
			unread = append(unread, v)
		}
	}
	b.mu.Unlock()
	if err := b.readVersions(ctx, p, unread); err != nil {
		return err
	}
	remove := maps.Clone(f.dropped)
	for name, info := range listed {
		dir, file := path.Split(name)
		_, v, platform, ok := fsmirror.ParseArchiveName(file)
		id := sources.PackageID{Provider: p, Version: v, Platform: platform}
		old := time.Since(info.Modified) > abandonedAfter && time.Since(listed[v.String()+".json"].Modified) > abandonedAfter
		if f.prune && ok && file == id.Filename() && strings.HasPrefix(dir, archives) && old {
			remove[home(p)+name] = v
		}
	}
	return b.remove(ctx, p, remove)
}

// remove removes objects, except for those that a document names. The documents of their versions are read again before and after
// that. Other documents name them only if they were written by hand, and were read in this run.
func (b *Bucket) remove(ctx context.Context, p sources.Provider, names map[string]sources.Version) error {
	named := b.named(p)
	maps.DeleteFunc(names, func(name string, _ sources.Version) bool { return named(name) })
	read := func() error {
		versions := slices.SortedFunc(maps.Values(names), sources.Version.Compare)
		err := b.readVersions(ctx, p, slices.Compact(versions))
		named = b.named(p)
		return err
	}
	if err := read(); err != nil {
		return err
	}
	maps.DeleteFunc(names, func(name string, _ sources.Version) bool { return named(name) })
	if err := b.in.Delete(ctx, slices.Sorted(maps.Keys(names))...); err != nil {
		return err
	}
	if err := read(); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !named(name) {
			continue
		}
		if _, err := b.in.Head(ctx, name); errors.Is(err, sources.ErrNotFound) {
			errs = append(errs, sources.WithHint(fmt.Errorf("%s/%s was removed while another program added it", b, name), "push it again"))
		}
	}
	return errors.Join(errs...)
}

// named returns a function that reports whether a document of a provider names an object, or a directory that contains it.
func (b *Bucket) named(p sources.Provider) func(name string) bool {
	names := map[string]bool{}
	add := func(url string) {
		if name, ok := b.object(p, url); ok {
			names[strings.TrimSuffix(name, "/")] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, doc := range b.known {
		if r.Provider != p {
			continue
		}
		for _, a := range doc.Archives {
			add(a.URL)
		}
		if doc.Larder != nil && doc.Larder.Evidence != nil {
			add(doc.Larder.Evidence.URL)
		}
	}
	return func(name string) bool { return names[name] || names[path.Dir(name)] }
}
