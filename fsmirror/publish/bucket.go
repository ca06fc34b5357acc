package publish

import (
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
	"github.com/larder-cli/larder/sources/fetch"
)

// How web servers and caches may keep objects. Documents change; archives and evidence have names by their contents.
const (
	keepDocument = "no-cache"
	keepContents = "public, max-age=31536000, immutable"
)

const (
	archives = "archives/" // contains a directory for each archive, with its SHA-256 as the name
	leases   = ".larder/leases/"
	maxLease = 4 << 10 // bytes
)

// abandonedAfter is the age of an archive that no document names, and of the document of its version, after which no reader of an
// older document still downloads it.
const abandonedAfter = 24 * time.Hour

// A Bucket is a [Target] in an S3-compatible store: a static network mirror. Hosts are in punycode, as clients request them.
//
//	HOST/NAMESPACE/TYPE/index.json
//	HOST/NAMESPACE/TYPE/VERSION.json
//	HOST/NAMESPACE/TYPE/archives/SHA256/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//
// Archives and evidence have names by their contents, so they never change. A document is written after what it names, and index.json
// after the documents. A removal changes index.json first, then the document, and then deletes objects that no document names. So readers
// get whole versions. Writes of documents have conditions, which only fail if another program ignores the lease.
type Bucket struct {
	in *bucket.Bucket

	listings directories // of providers
	proofs   directories // with their evidence
	indexes  sources.Memo[sources.Provider, document]

	mu    sync.Mutex
	known map[sources.Release]document // as they were read or written last
	sizes map[sources.Provider]int     // of those that were read, in bytes
}

// A document is a document of a provider.
type document struct {
	fsmirror.Document
	etag string // empty if there is no such object
	size int    // in bytes, as it was read
}

// NewBucket returns the target in a bucket, for one push.
func NewBucket(b *bucket.Bucket) *Bucket {
	return &Bucket{
		in: b, listings: newDirectories(), proofs: newDirectories(),
		known: map[sources.Release]document{}, sizes: map[sources.Provider]int{},
	}
}

func (b *Bucket) String() string { return b.in.Location().String() }

// Forget implements [Target].
func (b *Bucket) Forget(p sources.Provider) {
	b.listings.Forget(p)
	b.proofs.Forget(p)
	b.indexes.Forget(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.known, func(r sources.Release, _ document) bool { return r.Provider == p })
	delete(b.sizes, p)
}

// Slot implements [Target].
func (b *Bucket) Slot(p sources.Provider) Slot {
	return &objectSlot{in: b.in, name: leases + strings.TrimSuffix(home(p), "/")}
}

// An objectSlot is an object. Without a lease, it contains {}. An object larger than a lease counts as no lease.
type objectSlot struct {
	in   *bucket.Bucket
	name string
	etag string
}

// Read implements [Slot].
func (s *objectSlot) Read(ctx context.Context) (string, error) {
	data, info, err := s.in.Get(ctx, s.name, maxLease)
	if errors.Is(err, fetch.ErrTooLarge) {
		info, err = s.in.Head(ctx, s.name)
		if err == nil && info.Size <= maxLease { // another program has taken the lease meanwhile
			data, info, err = s.in.Get(ctx, s.name, maxLease)
		}
	}
	s.etag = info.ETag
	if errors.Is(err, sources.ErrNotFound) {
		return "", nil
	}
	return string(data), err
}

// Write implements [Slot].
func (s *objectSlot) Write(ctx context.Context, text string) error {
	opts := bucket.WriteOptions{ContentType: "application/json", CacheControl: keepDocument, Only: onlyIf(s.etag)}
	etag, err := s.in.Put(ctx, s.name, []byte(cmp.Or(text, "{}")), opts)
	switch {
	case errors.Is(err, bucket.ErrChanged):
		return fmt.Errorf("%s/%s: %w", s.in.Location(), s.name, ErrTaken)
	case err == nil:
		s.etag = etag
	}
	return err
}

// onlyIf returns the condition that an object is as it was read.
func onlyIf(etag string) bucket.Condition {
	if etag == "" {
		return bucket.NotExisting
	}
	return bucket.IfETag(etag)
}

// note records a document that was read or written.
func (b *Bucket) note(r sources.Release, doc document) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[r] = doc
}

// noted returns the document of a release as it was read or written last.
func (b *Bucket) noted(r sources.Release) document {
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

// object returns the name of the object with a URL in a document about a provider. It reports false for a URL on a different server.
func (b *Bucket) object(p sources.Provider, ref string) (name string, ok bool) {
	root := b.in.URL("")
	u, err := b.in.URL(home(p)).Parse(ref)
	if err != nil || u.Scheme != root.Scheme || u.Host != root.Host || u.RawQuery != "" {
		return "", false
	}
	name, ok = strings.CutPrefix(u.Path, root.Path)
	return name, ok && path.Clean("/"+name) == "/"+strings.TrimSuffix(name, "/")
}

// Look implements [Target]. An archive that a document names counts only if it exists.
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
	index, err := b.index(ctx, r.Provider)
	if err != nil {
		return s, err
	}
	_, isListed := index.Versions[r.Version.String()]
	s.Unlisted = !isListed
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
	if s.Signed, err = b.signed(ctx, r, doc.Document); err != nil {
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
func (b *Bucket) exists(ctx context.Context, listed directory, a fsmirror.Archive, p Package) (bool, error) {
	name, ok := b.object(p.ID.Provider, a.URL)
	if !ok {
		return true, nil
	}
	inHome, ok := strings.CutPrefix(name, home(p.ID.Provider))
	is, exists := listed[inHome]
	if !ok {
		info, err := b.in.Head(ctx, name)
		if is.size, exists = info.Size, err == nil; err != nil && !errors.Is(err, sources.ErrNotFound) {
			return false, err
		}
	}
	url, err := urlOf(p)
	sized := archiveHash(a) == "" || is.size == p.Size // an archive that was packed again has another size
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
func (b *Bucket) list(ctx context.Context, p sources.Provider) (directory, error) {
	return b.listings.Get(ctx, p, func() (directory, error) { return list(ctx, b.in, home(p)) })
}

// listEvidence returns the objects with evidence for a provider, as they were when it was called first.
func (b *Bucket) listEvidence(ctx context.Context, p sources.Provider) (directory, error) {
	return b.proofs.Get(ctx, p, func() (directory, error) { return list(ctx, b.in, evidenceHome(p)) })
}

// readVersion reads the document of a release, which is empty if there is none.
func (b *Bucket) readVersion(ctx context.Context, r sources.Release) (document, error) {
	doc, err := b.read(ctx, documentOf(r))
	if err != nil {
		return doc, err
	}
	b.note(r, doc)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sizes[r.Provider] += doc.size; b.sizes[r.Provider] > maxDocuments {
		dir := strings.TrimSuffix(home(r.Provider), "/")
		err = fmt.Errorf("%s/%s: the documents are too large, together more than %d bytes", b, dir, maxDocuments)
		err = sources.WithHint(err, "find out which program has written them; Larder's have a few kilobytes")
	}
	return doc, err
}

// index returns the index of a provider, as it was when it was called first.
func (b *Bucket) index(ctx context.Context, p sources.Provider) (document, error) {
	return b.indexes.Get(ctx, p, func() (document, error) { return b.read(ctx, home(p)+fsmirror.Index) })
}

// read returns a document, which is empty if there is none.
func (b *Bucket) read(ctx context.Context, name string) (doc document, err error) {
	data, info, err := b.in.Get(ctx, name, fsmirror.MaxDocument)
	if errors.Is(err, sources.ErrNotFound) {
		return doc, nil
	}
	doc.etag, doc.size = info.ETag, len(data)
	if err == nil {
		if err = json.Unmarshal(data, &doc.Document); err == nil && len(doc.Archives) > maxPlatforms {
			err = fmt.Errorf("it names %d archives, of at most %d", len(doc.Archives), maxPlatforms)
		}
		if err != nil {
			err = sources.WithHint(fmt.Errorf("%s/%s is not a document of a network mirror: %w", b, name, err), "remove it, and push again")
		}
	}
	return doc, err
}

// write writes a document in place of the one that was read, and returns it with its new ETag.
func (b *Bucket) write(ctx context.Context, name string, doc document) (document, error) {
	text, err := doc.Text()
	if err != nil {
		return doc, err
	}
	doc.etag, err = b.in.Put(ctx, name, text, bucket.WriteOptions{
		ContentType: "application/json", CacheControl: keepDocument, Only: onlyIf(doc.etag),
	})
	if errors.Is(err, bucket.ErrChanged) {
		err = sources.WithHint(fmt.Errorf("%s/%s was written by another program, which doesn't take Larder's lease: %w", b, name, err),
			"push again when that program has finished")
	}
	return doc, err
}

// Put implements [Target]. The document is written after everything that it names.
func (b *Bucket) Put(ctx context.Context, r Release, sent func(int64)) error {
	doc := b.noted(r.Release)
	doc.Archives = maps.Clone(doc.Archives)
	if doc.Archives == nil {
		doc.Archives = map[string]fsmirror.Archive{}
	}
	for _, p := range r.Packages {
		url, err := b.upload(ctx, p, sent)
		if err != nil {
			return sources.InPackage(p.ID, err)
		}
		doc.Archives[p.ID.Platform.String()] = fsmirror.Archive{Hashes: p.Hashes, URL: url}
	}
	if r.Evidence != nil {
		if err := b.putEvidence(ctx, r); err != nil {
			return err
		}
		doc.Larder = &evidence.Extension{Evidence: locate(r)}
	}
	doc, err := b.write(ctx, documentOf(r.Release), doc)
	if err == nil {
		b.note(r.Release, doc)
	}
	return err
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

// upload stores an archive, unless it is there, and returns its URL in documents. One with other contents under its name is damaged, and
// is replaced.
func (b *Bucket) upload(ctx context.Context, p Package, sent func(int64)) (url string, err error) {
	sum, err := p.ZH.Sum(sources.ZH)
	if err != nil {
		return "", err
	}
	if url, err = urlOf(p); err != nil {
		return "", err
	}
	listed, err := b.list(ctx, p.ID.Provider)
	if err != nil {
		return "", err
	}
	name, is := home(p.ID.Provider)+url, bucket.Info{}
	if _, exists := listed[url]; exists {
		if is, err = b.in.Head(ctx, name); err == nil && is.SHA256 == sum && is.Size == p.Size {
			sent(p.Size)
			return url, nil
		}
		if err != nil && !errors.Is(err, sources.ErrNotFound) {
			return "", err
		}
	}
	return url, b.send(ctx, name, p, sum, onlyIf(is.ETag), sent)
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
	_, err = b.in.Upload(ctx, name, archive, p.Size, sum, bucket.WriteOptions{
		ContentType: "application/zip", CacheControl: keepContents, Only: only,
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

// Versions implements [Target].
func (b *Bucket) Versions(ctx context.Context, p sources.Provider) (versions []sources.Version, err error) {
	listed, err := b.list(ctx, p)
	for name := range listed {
		if v, ok := fsmirror.VersionOf(name); ok {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, sources.Version.Compare)
	return versions, err
}

// isArchive reports whether an object is an archive of a provider. Documents may name any other object as well.
func isArchive(p sources.Provider, name string) bool {
	inHome, ok := strings.CutPrefix(name, home(p))
	dir, file := path.Split(inHome)
	return ok && (dir == "" || strings.HasPrefix(dir, archives)) && strings.HasPrefix(file, sources.FilePrefix) && strings.HasSuffix(file, ".zip")
}

// concurrent is how many documents of a provider are read at the same time.
const concurrent = 16

// Finish implements [Target].
func (b *Bucket) Finish(ctx context.Context, p sources.Provider) error {
	index, err := b.index(ctx, p)
	if err != nil {
		return err
	}
	versions := maps.Clone(index.Versions)
	if versions == nil {
		versions = map[string]struct{}{}
	}
	for r, doc := range b.of(p) {
		if len(doc.Archives) > 0 {
			versions[r.Version.String()] = struct{}{}
		} else {
			delete(versions, r.Version.String())
		}
	}
	if maps.Equal(versions, index.Versions) || len(versions) == 0 && index.etag == "" {
		return nil
	}
	index.Versions = versions
	_, err = b.write(ctx, home(p)+fsmirror.Index, index)
	return err
}

// of returns the documents of a provider that were read or written.
func (b *Bucket) of(p sources.Provider) map[sources.Release]document {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := maps.Clone(b.known)
	maps.DeleteFunc(all, func(r sources.Release, _ document) bool { return r.Provider != p })
	return all
}

// readAll reads the documents of a provider that weren't read yet.
func (b *Bucket) readAll(ctx context.Context, p sources.Provider) error {
	versions, err := b.Versions(ctx, p)
	if err != nil {
		return err
	}
	known := b.of(p)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, v := range versions {
		r := sources.Release{Provider: p, Version: v}
		if _, ok := known[r]; ok {
			continue
		}
		group.Go(func() error {
			_, err := b.readVersion(ctx, r)
			return err
		})
	}
	return group.Wait()
}

// Rests implements [Target].
func (b *Bucket) Rests(ctx context.Context, p sources.Provider) (bool, error) {
	rests, err := b.rests(ctx, p)
	return len(rests) > 0, err
}

// rests returns the names of old archives that no document names.
func (b *Bucket) rests(ctx context.Context, p sources.Provider) (names []string, err error) {
	listed, err := b.list(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := b.readAll(ctx, p); err != nil {
		return nil, err
	}
	named := b.named(p)
	for name, is := range listed {
		dir, file := path.Split(name)
		_, v, platform, ok := fsmirror.ParseArchiveName(file)
		id := sources.PackageID{Provider: p, Version: v, Platform: platform}
		document := listed[v.String()+".json"]
		old := time.Since(is.modified) > abandonedAfter && time.Since(document.modified) > abandonedAfter
		if ok && file == id.Filename() && strings.HasPrefix(dir, archives) && old && !named(home(p)+name) {
			names = append(names, home(p)+name)
		}
	}
	return names, nil
}

// Remove implements [Target].
func (b *Bucket) Remove(ctx context.Context, p sources.Provider, packages []sources.PackageID) error {
	if err := b.readAll(ctx, p); err != nil {
		return err
	}
	dropped, changed := map[string]bool{}, map[sources.Release]bool{}
	for _, id := range packages {
		doc := b.noted(id.Release())
		a, ok := doc.Archives[id.Platform.String()]
		if !ok {
			continue
		}
		if name, ok := b.object(p, a.URL); ok && isArchive(p, name) {
			dropped[name] = true
		}
		doc.Archives = maps.Clone(doc.Archives)
		delete(doc.Archives, id.Platform.String())
		changed[id.Release()] = true
		b.note(id.Release(), doc)
	}
	if err := b.Finish(ctx, p); err != nil {
		return err
	}
	var documents []string
	for r := range changed {
		doc := b.noted(r)
		if len(doc.Archives) > 0 {
			if _, err := b.write(ctx, documentOf(r), doc); err != nil {
				return err
			}
			continue
		}
		documents = append(documents, documentOf(r))
		dir := evidence.Path(r.Provider, r.Version) + "/"
		files, err := list(ctx, b.in, dir)
		if err != nil {
			return err
		}
		for name := range files {
			dropped[dir+name] = true
		}
	}
	rests, err := b.rests(ctx, p)
	if err != nil {
		return err
	}
	for _, name := range rests {
		dropped[name] = true
	}
	if err := b.in.Delete(ctx, documents...); err != nil {
		return err
	}
	named := b.named(p)
	maps.DeleteFunc(dropped, func(name string, _ bool) bool { return named(name) })
	return b.in.Delete(ctx, slices.Sorted(maps.Keys(dropped))...)
}

// named returns a function that reports whether a document of a provider names an object, or a directory that contains
// it. Documents of other programs may name it through another server or with a query, so only the end of the path counts.
func (b *Bucket) named(p sources.Provider) func(name string) bool {
	ends := map[string]bool{}
	add := func(ref string) {
		if u, err := b.in.URL(home(p)).Parse(ref); err == nil {
			ends[endOf(u.Path)] = true
		}
	}
	for _, doc := range b.of(p) {
		for _, a := range doc.Archives {
			add(a.URL)
		}
		if doc.Larder != nil && doc.Larder.Evidence != nil {
			add(doc.Larder.Evidence.URL)
		}
	}
	return func(name string) bool { return ends[endOf(name)] || ends[endOf(path.Dir(name))] }
}

// endOf returns the end of a path that is the same on all servers: an archive with its SHA-256, or else the last part.
func endOf(name string) string {
	name = path.Clean("/" + name)
	if i := strings.LastIndex(name, "/"+archives); i >= 0 {
		return name[i:]
	}
	return path.Base(name)
}
