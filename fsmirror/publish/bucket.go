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
	"io"
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

// How web servers and caches may keep objects. Documents change; archives and evidence have names by their contents.
const (
	keepDocument = "no-cache"
	keepContents = "public, max-age=31536000, immutable"
)

const (
	archives = "archives/" // contains a directory for each archive, with its SHA-256 as the name
	leases   = ".larder/leases/"
	maxLease = 1 << 20 // bytes, also of an object that is no lease
	maxPage  = 64 << 20
	maxTries = 5 // to write the page, while others write it
)

// unneededAfter is the age of an archive that no document names, and of the document of its version, after which no
// reader of an older document still downloads it.
const unneededAfter = 24 * time.Hour

// A Bucket is a [Target] in an S3-compatible store: a static network mirror. Hosts are in punycode, as clients request
// them.
//
//	HOST/NAMESPACE/TYPE/index.json
//	HOST/NAMESPACE/TYPE/VERSION.json
//	HOST/NAMESPACE/TYPE/archives/SHA256/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//	index.html                                                          page for people, if the mirror has one
//
// Archives and evidence have names by their contents, so they never change. A document is written after what it names,
// and index.json after the documents. A removal changes index.json first, then the document, and then deletes objects
// that no document names. So readers get whole versions. Writes of documents have conditions, which only fail if
// another program ignores the lease.
type Bucket struct{ in *bucket.Bucket }

// NewBucket returns the target in a bucket.
func NewBucket(b *bucket.Bucket) *Bucket { return &Bucket{b} }

func (b *Bucket) String() string { return b.in.At.String() }

// WritePage writes the page for people that page returns, unless the bucket has a page that isn't ours. It calls page
// again if another pusher has written one in the meantime.
func (b *Bucket) WritePage(ctx context.Context, ours func([]byte) bool, page func() ([]byte, error)) (err error) {
	for range maxTries {
		old, etag, err := b.in.Get(ctx, fsmirror.Page, maxPage)
		if err != nil && !errors.Is(err, sources.ErrNotFound) || etag != "" && !ours(old) {
			return err
		}
		text, err := page()
		if err != nil || bytes.Equal(text, old) {
			return err
		}
		_, err = b.in.Put(ctx, fsmirror.Page, text, bucket.WriteOptions{
			ContentType: "text/html; charset=utf-8", CacheControl: keepDocument, Only: bucket.IfETag(etag),
		})
		if !errors.Is(err, bucket.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s/%s: %w", b.in.At, fsmirror.Page, bucket.ErrChanged)
}

// Open implements [Target].
func (b *Bucket) Open(ctx context.Context, p sources.Provider) (Shelf, error) {
	s := &bucketShelf{in: b.in, provider: p, home: home(p), documents: map[sources.Version]document{}}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.objects, err = list(ctx, b.in, s.home)
		return err
	})
	group.Go(func() (err error) {
		s.index, err = s.read(ctx, fsmirror.Index)
		return err
	})
	return s, group.Wait()
}

// A bucketShelf is a directory of a provider.
type bucketShelf struct {
	in       *bucket.Bucket
	provider sources.Provider
	home     string // name of the directory, with a slash
	objects  directory
	index    document

	mu        sync.Mutex
	documents map[sources.Version]document // as they were read or written last
	size      int                          // of those that were read, in bytes
}

// A document is a document of a provider.
type document struct {
	fsmirror.Document
	etag string // empty if there is no such object
	size int    // in bytes, as it was read
}

func documentOf(v sources.Version) string { return v.String() + ".json" }

// document returns the document of a version, as it was read or written last. It is empty if there is none.
func (s *bucketShelf) document(ctx context.Context, v sources.Version) (doc document, err error) {
	s.mu.Lock()
	doc, known := s.documents[v]
	s.mu.Unlock()
	if known {
		return doc, nil
	}
	if _, ok := s.objects[documentOf(v)]; ok {
		if doc, err = s.read(ctx, documentOf(v)); err == nil {
			err = s.check(v, doc.Document)
		}
		if err != nil {
			return doc, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents[v] = doc
	if s.size += doc.size; s.size > maxDocuments {
		err = fmt.Errorf("%s: the documents are too large, together more than %d bytes", s.at(""), maxDocuments)
		err = sources.WithHint(err, "find out which program has written them; Larder's have a few kilobytes")
	}
	return doc, err
}

// at returns the URL of a file, for messages.
func (s *bucketShelf) at(name string) string {
	return strings.TrimSuffix(s.in.At.String()+"/"+s.home+name, "/")
}

// Slot implements [Target].
func (b *Bucket) Slot(p sources.Provider) Slot {
	return &objectSlot{in: b.in, name: leases + strings.TrimSuffix(home(p), "/")}
}

// An objectSlot is an object. Without a lease, it contains {}.
type objectSlot struct {
	in   *bucket.Bucket
	name string
	etag string
}

// Read implements [Slot].
func (s *objectSlot) Read(ctx context.Context) (string, error) {
	data, etag, err := s.in.Get(ctx, s.name, maxLease)
	if s.etag = etag; errors.Is(err, sources.ErrNotFound) {
		return "", nil
	}
	return string(data), err
}

// Write implements [Slot].
func (s *objectSlot) Write(ctx context.Context, text string) error {
	opts := bucket.WriteOptions{ContentType: "application/json", CacheControl: keepDocument, Only: bucket.IfETag(s.etag)}
	etag, err := s.in.Put(ctx, s.name, []byte(cmp.Or(text, "{}")), opts)
	switch {
	case errors.Is(err, bucket.ErrChanged):
		return fmt.Errorf("%s/%s: %w", s.in.At, s.name, ErrTaken)
	case err == nil:
		s.etag = etag
	}
	return err
}

// Check implements [Target].
func (b *Bucket) Check([]Release) error { return nil }

// home returns the name of the directory of a provider.
func home(p sources.Provider) string { return path.Join(p.Host.ASCII(), p.Namespace, p.Type) + "/" }

// urlOf returns the URL of an archive in the document of its version.
func urlOf(p Package) string {
	return archives + strings.TrimPrefix(string(p.ZH.Canonical()), "zh:") + "/" + p.ID.Filename()
}

// Look implements [Shelf]. An archive of the release that a document names counts only if it exists.
func (s *bucketShelf) Look(ctx context.Context, r Release) (State, error) {
	is := State{Archives: map[sources.Platform]sources.Hash{}}
	doc, err := s.document(ctx, r.Version)
	if err != nil {
		return is, err
	}
	if doc.etag == "" {
		return is, sources.ErrNotFound
	}
	_, isListed := s.index.Versions[r.Version.String()]
	is.Unlisted = !isListed
	for text, a := range doc.Archives {
		platform, _ := sources.ParsePlatform(text) // it was checked when it was read
		is.Archives[platform] = zhOf(a)
	}
	for _, p := range r.Packages { // another archive counts even if it is missing: lock files have its hash
		if is.Archives[p.ID.Platform] == p.ZH && !s.exists(p) {
			delete(is.Archives, p.ID.Platform)
		}
	}
	is.Signed, err = s.signed(ctx, r, doc.Document)
	return is, err
}

// zhOf returns the hash that names an archive.
func zhOf(a fsmirror.Archive) sources.Hash { return cmp.Or(sources.HashesOf(sources.ZH, a.Hashes)...) }

// exists reports whether the archive of a package exists. Its name states its contents, so one with another size is
// damaged.
func (s *bucketShelf) exists(p Package) bool {
	is, ok := s.objects[urlOf(p)]
	return ok && is.Size == p.Size
}

// check returns an error if a document of a version names an archive in another way than Larder. So an archive has only
// one name, and no other document has it.
func (s *bucketShelf) check(v sources.Version, doc fsmirror.Document) error {
	for text, a := range doc.Archives {
		platform, err := sources.ParsePlatform(text)
		p := Package{ID: sources.PackageID{Provider: s.provider, Version: v, Platform: platform}, ZH: zhOf(a)}
		_, noSum := p.ZH.Sum(sources.ZH)
		if errors.Join(err, noSum) != nil || platform.String() != text || a.URL != urlOf(p) {
			err := fmt.Errorf("%s was written by another program: it names %q for %s", s.at(documentOf(v)), a.URL, text)
			return sources.WithHint(err, "push to another prefix")
		}
	}
	return nil
}

// evidenceDir returns the directory of evidence for a release, with a slash. Each evidence has a directory of its own,
// so that a document never refers to files that another program has replaced.
func evidenceDir(of sources.Release, at *evidence.Location) string {
	sum := sha256.Sum256(fmt.Append(nil, at.SHA256)) // which is sorted
	return path.Join(evidence.Path(of.Provider, of.Version), hex.EncodeToString(sum[:8])) + "/"
}

// locate returns the files of the evidence for a release, and their location.
func locate(r Release) (evidence.Files, *evidence.Location) {
	files := evidence.Pack(r.Signed)
	at := evidence.Locate(r.Provider, r.Version, files)
	at.URL += path.Base(evidenceDir(r.Release, at)) + "/"
	return files, at
}

// read returns a document, which is empty if there is none.
func (s *bucketShelf) read(ctx context.Context, name string) (doc document, err error) {
	data, etag, err := s.in.Get(ctx, s.home+name, fsmirror.MaxDocument)
	if errors.Is(err, sources.ErrNotFound) {
		return doc, nil
	}
	doc.etag, doc.size = etag, len(data)
	if err == nil {
		if err = json.Unmarshal(data, &doc.Document); err == nil && len(doc.Archives) > maxPlatforms {
			err = fmt.Errorf("it names %d archives, of at most %d", len(doc.Archives), maxPlatforms)
		}
		if err != nil {
			err = fmt.Errorf("%s is not a document of a network mirror: %w", s.at(name), err)
			err = sources.WithHint(err, "push to another prefix, or replace the document with a correct one")
		}
	}
	return doc, err
}

// write writes a document in place of the one that was read, and returns it with its new ETag.
func (s *bucketShelf) write(ctx context.Context, name string, doc document) (_ document, err error) {
	doc.etag, err = s.in.Put(ctx, s.home+name, doc.Text(), bucket.WriteOptions{
		ContentType: "application/json", CacheControl: keepDocument, Only: bucket.IfETag(doc.etag),
	})
	if errors.Is(err, bucket.ErrChanged) {
		err = fmt.Errorf("%s was written by another program, which doesn't take Larder's lease: %w", s.at(name), err)
		err = sources.WithHint(err, "push again when that program has finished")
	}
	return doc, err
}

// Upload implements [Shelf]. A damaged archive is replaced.
func (s *bucketShelf) Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(int64)) error {
	if s.exists(p) {
		sent(p.Size)
		return nil
	}
	sum, err := p.ZH.Sum(sources.ZH)
	if err == nil {
		_, err = s.in.Upload(ctx, s.home+urlOf(p), archive, p.Size, sum, bucket.WriteOptions{
			ContentType: "application/zip", CacheControl: keepContents, Sent: sent,
		})
	}
	return err
}

// Put implements [Shelf]. The document is written after everything that it names.
func (s *bucketShelf) Put(ctx context.Context, r Release) error {
	doc, err := s.document(ctx, r.Version)
	if err != nil {
		return err
	}
	doc.Archives = maps.Clone(doc.Archives)
	if doc.Archives == nil {
		doc.Archives = map[string]fsmirror.Archive{}
	}
	for _, p := range r.Packages {
		doc.Archives[p.ID.Platform.String()] = fsmirror.Archive{Hashes: p.Hashes, URL: urlOf(p)}
	}
	if r.Signed != nil {
		files, at := locate(r)
		for i, name := range evidence.Names {
			opts := bucket.WriteOptions{CacheControl: keepContents}
			_, err := s.in.Put(ctx, evidenceDir(r.Release, at)+name, files[i], opts)
			if err != nil {
				return err
			}
		}
		doc.Larder = &evidence.Extension{Evidence: at}
	}
	if doc, err = s.write(ctx, documentOf(r.Version), doc); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.documents[r.Version] = doc
	}
	return err
}

// Present implements [Shelf]. It returns the versions that have documents.
func (s *bucketShelf) Present(context.Context) (all []sources.Version, _ error) {
	for name := range s.objects {
		if v, ok := fsmirror.VersionOf(name); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, sources.Version.Compare)
	return all, nil
}

// Finish implements [Shelf].
func (s *bucketShelf) Finish(ctx context.Context) (err error) {
	index := s.index
	index.Versions = maps.Clone(s.index.Versions)
	if index.Versions == nil {
		index.Versions = map[string]struct{}{}
	}
	for v, doc := range s.documents {
		if len(doc.Archives) > 0 {
			index.Versions[v.String()] = struct{}{}
		} else {
			delete(index.Versions, v.String())
		}
	}
	if maps.Equal(index.Versions, s.index.Versions) || len(index.Versions) == 0 && index.etag == "" {
		return nil
	}
	s.index, err = s.write(ctx, fsmirror.Index, index)
	return err
}

// HasRests implements [Shelf].
func (s *bucketShelf) HasRests() bool { return len(s.rests()) > 0 }

// rests returns the names of old archives that no document names. That of its version is the only one that may.
func (s *bucketShelf) rests() (names []string) {
	old := func(o bucket.Info) bool { return time.Since(o.Modified) > unneededAfter }
	for name, is := range s.objects {
		_, v, platform, _ := fsmirror.ParseArchiveName(path.Base(name))
		id := sources.PackageID{Provider: s.provider, Version: v, Platform: platform}
		own := strings.HasPrefix(name, archives) && path.Base(name) == id.Filename()
		written, exists := s.objects[documentOf(v)]
		doc, read := s.documents[v]
		named := exists && !read || doc.Archives[platform.String()].URL == name
		if own && !named && old(is) && old(written) {
			names = append(names, s.home+name)
		}
	}
	return names
}

// Remove implements [Shelf].
func (s *bucketShelf) Remove(ctx context.Context, packages []sources.PackageID) error {
	rests := s.rests()
	changed := map[sources.Version]document{}
	for _, id := range packages {
		doc := s.documents[id.Version] // all have been read
		rests = append(rests, s.home+doc.Archives[id.Platform.String()].URL)
		doc.Archives = maps.Clone(doc.Archives)
		delete(doc.Archives, id.Platform.String())
		changed[id.Version], s.documents[id.Version] = doc, doc
	}
	if err := s.Finish(ctx); err != nil {
		return err
	}
	var documents []string
	for v, doc := range changed {
		if len(doc.Archives) > 0 {
			if _, err := s.write(ctx, documentOf(v), doc); err != nil {
				return err
			}
			continue
		}
		documents = append(documents, s.home+documentOf(v))
		dir := evidence.Path(s.provider, v) + "/"
		files, err := list(ctx, s.in, dir)
		if err != nil {
			return err
		}
		for name := range files {
			rests = append(rests, dir+name)
		}
	}
	if err := s.in.Delete(ctx, documents...); err != nil {
		return err
	}
	return s.in.Delete(ctx, rests...)
}

// Limits on memory.
const (
	maxDocuments = 4 << 20  // bytes of all documents of a provider
	maxPlatforms = 200      // of a version
	maxListed    = 50_000   // objects in a directory, or providers in a bucket
	maxNames     = 16 << 20 // bytes of all names in a directory
)

// A directory has the objects in a directory of a bucket, by their names in it.
type directory map[string]bucket.Info

// list returns the objects in a directory, which ends with a slash.
func list(ctx context.Context, in *bucket.Bucket, dir string) (directory, error) {
	found, names := directory{}, 0
	err := in.List(ctx, dir, func(info bucket.Info) error {
		found[strings.TrimPrefix(info.Name, dir)] = info
		if names += len(info.Name); len(found) > maxListed || names > maxNames {
			return tooMany(in, dir)
		}
		return nil
	})
	return found, err
}

// tooMany returns the error for a directory whose list exceeds the limits.
func tooMany(in *bucket.Bucket, dir string) error {
	err := fmt.Errorf("%s/%s: too many objects; at most %d with %d bytes of names are listed",
		in.At, strings.TrimSuffix(dir, "/"), maxListed, maxNames)
	return sources.WithHint(err, "move the objects of other programs to another prefix")
}
