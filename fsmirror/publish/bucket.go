package publish

import (
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
//
// Archives and evidence have names by their contents, so they never change. A document is written after what it names,
// and index.json after the documents. A removal changes index.json first, then the document, and then deletes objects
// that no document names. So readers get whole versions. Writes of documents have conditions, which only fail if
// another program ignores the lease.
type Bucket struct{ in *bucket.Bucket }

// NewBucket returns the target in a bucket.
func NewBucket(b *bucket.Bucket) *Bucket { return &Bucket{b} }

func (b *Bucket) String() string { return b.in.At.String() }

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
		if doc, err = s.read(ctx, documentOf(v)); err != nil {
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

// object returns the name of the object with a URL in a document. It reports false for a URL on a different server.
func (s *bucketShelf) object(ref string) (name string, ok bool) {
	root := s.in.URL("")
	u, err := s.in.URL(s.home).Parse(ref)
	if err != nil || u.Scheme != root.Scheme || u.Host != root.Host || u.RawQuery != "" {
		return "", false
	}
	name, ok = strings.CutPrefix(u.Path, root.Path)
	return name, ok && path.Clean("/"+name) == "/"+strings.TrimSuffix(name, "/")
}

// inHome is like object for an object in the directory of the provider. The name is that in the directory.
func (s *bucketShelf) inHome(ref string) (name string, ok bool) {
	name, _ = s.object(ref)
	return strings.CutPrefix(name, s.home)
}

// Look implements [Shelf]. An archive that a document names counts only if it exists.
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
		platform, err := sources.ParsePlatform(text)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(r.Packages, func(p Package) bool { return p.ID.Platform == platform })
		if i < 0 {
			is.Archives[platform] = cmp.Or(sources.HashesOf(sources.ZH, a.Hashes)...)
			continue
		}
		ours := r.Packages[i]
		// Another archive counts even if it is missing: lock files have its hash.
		if hash := compare(a, ours); hash != "" && (hash != ours.ZH || s.exists(a, ours)) {
			is.Archives[platform] = hash
		}
	}
	is.Signed, err = s.signed(ctx, r, doc.Document)
	return is, err
}

// compare returns the zh: hash of a package if a document names an archive with the same contents, and the hash of the
// archive if its contents differ. Without hashes to compare, it returns "".
func compare(a fsmirror.Archive, p Package) sources.Hash {
	for _, scheme := range []string{sources.ZH, sources.H1} {
		theirs := sources.HashesOf(scheme, a.Hashes)
		switch {
		case len(theirs) == 0 || !sources.AnyOf(scheme, p.Hashes):
		case sources.MatchesAny(theirs, sources.HashesOf(scheme, p.Hashes)...):
			return p.ZH
		default:
			return theirs[0]
		}
	}
	return ""
}

// exists reports whether the archive that a document names for a package exists. Its name states its contents, or else
// the document does. Archives outside of the directory of the provider, which Larder's own documents never name, are
// not looked for.
func (s *bucketShelf) exists(a fsmirror.Archive, p Package) bool {
	name, ok := s.inHome(a.URL)
	if !ok {
		return true
	}
	is, exists := s.objects[name]
	packedAgain := !sources.AnyOf(sources.ZH, a.Hashes) // it may have another size
	sized := packedAgain || is.Size == p.Size
	return exists && sized && (name == urlOf(p) || !strings.HasPrefix(name, archives))
}

// locate returns the files of the evidence for a release, and their location. Each evidence has a directory of its own,
// so that a document never refers to files that another program has replaced.
func locate(r Release) (evidence.Files, *evidence.Location) {
	files := evidence.Pack(r.Signed)
	at := evidence.Locate(r.Provider, r.Version, files)
	sum := sha256.Sum256(fmt.Append(nil, at.SHA256)) // which is sorted
	at.URL += hex.EncodeToString(sum[:8]) + "/"
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
			err = sources.WithHint(err, "remove it, and push again")
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

// Upload implements [Shelf]. The name of an archive states its contents, so one with another size is damaged, and is
// replaced.
func (s *bucketShelf) Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(int64)) error {
	if is, exists := s.objects[urlOf(p)]; exists && is.Size == p.Size {
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
		dir := path.Join(evidence.Path(r.Provider, r.Version), path.Base(at.URL))
		for i, name := range evidence.Names {
			_, err := s.in.Put(ctx, dir+"/"+name, files[i], bucket.WriteOptions{CacheControl: keepContents})
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

// Present implements [Shelf].
func (s *bucketShelf) Present(ctx context.Context) ([]sources.Version, bool, error) {
	rests, err := s.rests(ctx)
	return s.versions(), len(rests) > 0, err
}

// versions returns the versions that have documents.
func (s *bucketShelf) versions() (all []sources.Version) {
	for name := range s.objects {
		if v, ok := fsmirror.VersionOf(name); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, sources.Version.Compare)
	return all
}

// concurrent is how many documents of a provider are read at the same time.
const concurrent = 16

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

// rests returns the names of old archives that no document names. It reads all documents.
func (s *bucketShelf) rests(ctx context.Context) (names []string, err error) {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, v := range s.versions() {
		group.Go(func() error {
			_, err := s.document(inner, v)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	named := s.named()
	old := func(o bucket.Info) bool { return time.Since(o.Modified) > unneededAfter }
	for name, is := range s.objects {
		_, v, _, _ := fsmirror.ParseArchiveName(path.Base(name))
		own := strings.HasPrefix(name, archives) && isArchive(name)
		if own && old(is) && old(s.objects[documentOf(v)]) && !named(s.home+name) {
			names = append(names, s.home+name)
		}
	}
	return names, nil
}

// isArchive reports whether an object in the directory of a provider is an archive. Documents may name any other
// object as well.
func isArchive(inHome string) bool {
	dir, file := path.Split(inHome)
	isPackage := strings.HasPrefix(file, sources.FilePrefix) && strings.HasSuffix(file, ".zip")
	return isPackage && (dir == "" || strings.HasPrefix(dir, archives))
}

// Remove implements [Shelf].
func (s *bucketShelf) Remove(ctx context.Context, packages []sources.PackageID) error {
	rests, err := s.rests(ctx)
	if err != nil {
		return err
	}
	changed := map[sources.Version]document{}
	for _, id := range packages {
		doc := s.documents[id.Version] // all have been read
		if name, ok := s.inHome(doc.Archives[id.Platform.String()].URL); ok && isArchive(name) {
			rests = append(rests, s.home+name)
		}
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
	slices.Sort(rests)
	return s.in.Delete(ctx, slices.DeleteFunc(slices.Compact(rests), s.named())...)
}

// named returns a function that reports whether a document names an archive. Documents of other programs may name it
// through another server or with a query, so only the end of the path counts: the file, and the directory before it,
// which is the SHA-256 of an archive, or the type of the provider.
func (s *bucketShelf) named() func(name string) bool {
	endOf := func(name string) string {
		dir, file := path.Split(path.Clean("/" + name))
		return path.Join(path.Base(dir), file)
	}
	ends := map[string]bool{}
	for _, doc := range s.documents {
		for _, a := range doc.Archives {
			if u, err := s.in.URL(s.home).Parse(a.URL); err == nil {
				ends[endOf(u.Path)] = true
			}
		}
	}
	return func(name string) bool { return ends[endOf(name)] }
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
