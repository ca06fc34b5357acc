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

// abandonedAfter is the age of an archive that no document names, and of the document of its version, after which no
// reader of an older document still downloads it.
const abandonedAfter = 24 * time.Hour

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
type Bucket struct {
	in        *bucket.Bucket
	providers sources.Memo[sources.Provider, *contents]
}

// contents are what the bucket has of a provider, as they were when they were read first.
type contents struct {
	objects directory // of the provider
	index   document

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

// NewBucket returns the target in a bucket, for one push.
func NewBucket(b *bucket.Bucket) *Bucket { return &Bucket{in: b} }

func (b *Bucket) String() string { return b.in.At.String() }

// Forget implements [Target].
func (b *Bucket) Forget(p sources.Provider) { b.providers.Forget(p) }

// contents returns what the bucket has of a provider.
func (b *Bucket) contents(ctx context.Context, p sources.Provider) (*contents, error) {
	return b.providers.Get(ctx, p, func() (*contents, error) {
		c := &contents{documents: map[sources.Version]document{}}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			c.objects, err = list(ctx, b.in, home(p))
			return err
		})
		group.Go(func() (err error) {
			c.index, err = b.read(ctx, home(p)+fsmirror.Index)
			return err
		})
		return c, group.Wait()
	})
}

// document returns the document of a version, as it was read or written last. It is empty if there is none.
func (b *Bucket) document(ctx context.Context, c *contents, r sources.Release) (document, error) {
	c.mu.Lock()
	doc, known := c.documents[r.Version]
	c.mu.Unlock()
	if known {
		return doc, nil
	}
	var err error
	if _, ok := c.objects[r.Version.String()+".json"]; ok {
		doc, err = b.read(ctx, documentOf(r))
	}
	if err != nil {
		return doc, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents[r.Version] = doc
	if c.size += doc.size; c.size > maxDocuments {
		dir := strings.TrimSuffix(home(r.Provider), "/")
		err = fmt.Errorf("%s/%s: the documents are too large, together more than %d bytes", b, dir, maxDocuments)
		err = sources.WithHint(err, "find out which program has written them; Larder's have a few kilobytes")
	}
	return doc, err
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

func documentOf(r sources.Release) string { return home(r.Provider) + r.Version.String() + ".json" }

// urlOf returns the URL of an archive in the document of its version.
func urlOf(p Package) string {
	return archives + strings.TrimPrefix(string(p.ZH.Canonical()), "zh:") + "/" + p.ID.Filename()
}

// object returns the name of the object with a URL in a document about a provider. It reports false for a URL on a
// different server.
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
	c, err := b.contents(ctx, r.Provider)
	if err != nil {
		return s, err
	}
	doc, err := b.document(ctx, c, r.Release)
	if err != nil {
		return s, err
	}
	if doc.etag == "" {
		return s, sources.ErrNotFound
	}
	_, isListed := c.index.Versions[r.Version.String()]
	s.Unlisted = !isListed
	for text, a := range doc.Archives {
		platform, err := sources.ParsePlatform(text)
		if err != nil {
			continue
		}
		i := slices.IndexFunc(r.Packages, func(p Package) bool { return p.ID.Platform == platform })
		if i < 0 {
			s.Archives[platform] = cmp.Or(hashesOf(sources.ZH, a.Hashes)...)
			continue
		}
		ours := r.Packages[i]
		// Another archive counts even if it is missing: lock files have its hash.
		if is := compare(a, ours); is != "" && (is != ours.ZH || b.exists(c, a, ours)) {
			s.Archives[platform] = is
		}
	}
	s.Signed, err = b.signed(ctx, r, doc.Document)
	return s, err
}

// compare returns the zh: hash of a package if a document names an archive with the same contents, and the hash of the
// archive if its contents differ. Without hashes to compare, it returns "".
func compare(a fsmirror.Archive, p Package) sources.Hash {
	for _, scheme := range []string{sources.ZH, sources.H1} {
		ours, theirs := hashesOf(scheme, p.Hashes), hashesOf(scheme, a.Hashes)
		switch {
		case len(ours) == 0 || len(theirs) == 0:
		case slices.ContainsFunc(theirs, func(h sources.Hash) bool { return slices.Contains(ours, h) }):
			return p.ZH
		default:
			return theirs[0]
		}
	}
	return ""
}

// hashesOf returns the hashes of a scheme.
func hashesOf(scheme string, hashes []sources.Hash) (all []sources.Hash) {
	for _, h := range hashes {
		if h.Scheme() == scheme {
			all = append(all, h.Canonical())
		}
	}
	return all
}

// exists reports whether the archive that a document names for a package exists. Its name states its contents, or else
// the document does. Archives outside of the directory of the provider, which Larder's own documents never name, are
// not looked for.
func (b *Bucket) exists(c *contents, a fsmirror.Archive, p Package) bool {
	name, _ := b.object(p.ID.Provider, a.URL)
	inHome, ok := strings.CutPrefix(name, home(p.ID.Provider))
	if !ok {
		return true
	}
	is, exists := c.objects[inHome]
	packedAgain := len(hashesOf(sources.ZH, a.Hashes)) == 0 // it may have another size
	sized := packedAgain || is.Size == p.Size
	return exists && sized && (inHome == urlOf(p) || !strings.HasPrefix(inHome, archives))
}

// locate returns the location of the evidence for a release. Each evidence has a directory of its own, so that a
// document never refers to files that another program has replaced.
func locate(r Release) *evidence.Location {
	at := evidence.Locate(r.Provider, r.Version, *r.Evidence)
	sum := sha256.Sum256(fmt.Append(nil, at.SHA256)) // which is sorted
	at.URL += hex.EncodeToString(sum[:8]) + "/"
	return at
}

// read returns a document, which is empty if there is none.
func (b *Bucket) read(ctx context.Context, name string) (doc document, err error) {
	data, etag, err := b.in.Get(ctx, name, fsmirror.MaxDocument)
	if errors.Is(err, sources.ErrNotFound) {
		return doc, nil
	}
	doc.etag, doc.size = etag, len(data)
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
		ContentType: "application/json", CacheControl: keepDocument, Only: bucket.IfETag(doc.etag),
	})
	if errors.Is(err, bucket.ErrChanged) {
		err = sources.WithHint(fmt.Errorf("%s/%s was written by another program, which doesn't take Larder's lease: %w", b, name, err),
			"push again when that program has finished")
	}
	return doc, err
}

// Upload implements [Target]. The name of an archive states its contents, so one with another size is damaged, and is
// replaced.
func (b *Bucket) Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(int64)) error {
	c, err := b.contents(ctx, p.ID.Provider)
	if err != nil {
		return err
	}
	if is, exists := c.objects[urlOf(p)]; exists && is.Size == p.Size {
		sent(p.Size)
		return nil
	}
	sum, err := p.ZH.Sum(sources.ZH)
	if err == nil {
		_, err = b.in.Upload(ctx, home(p.ID.Provider)+urlOf(p), archive, p.Size, sum, bucket.WriteOptions{
			ContentType: "application/zip", CacheControl: keepContents, Sent: sent,
		})
	}
	return err
}

// Put implements [Target]. The document is written after everything that it names.
func (b *Bucket) Put(ctx context.Context, r Release) error {
	c, err := b.contents(ctx, r.Provider)
	if err != nil {
		return err
	}
	doc, err := b.document(ctx, c, r.Release)
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
	if r.Evidence != nil {
		at := locate(r)
		dir := path.Join(evidence.Path(r.Provider, r.Version), path.Base(at.URL))
		for i, name := range evidence.Names {
			_, err := b.in.Put(ctx, dir+"/"+name, r.Evidence[i], bucket.WriteOptions{CacheControl: keepContents})
			if err != nil {
				return err
			}
		}
		doc.Larder = &evidence.Extension{Evidence: at}
	}
	if doc, err = b.write(ctx, documentOf(r.Release), doc); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.documents[r.Version] = doc
	}
	return err
}

// Present implements [Target].
func (b *Bucket) Present(ctx context.Context, p sources.Provider) ([]sources.Version, bool, error) {
	c, err := b.contents(ctx, p)
	if err != nil {
		return nil, false, err
	}
	rests, err := b.rests(ctx, c, p)
	return c.versions(), len(rests) > 0, err
}

// versions returns the versions that have documents.
func (c *contents) versions() (all []sources.Version) {
	for name := range c.objects {
		if v, ok := fsmirror.VersionOf(name); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, sources.Version.Compare)
	return all
}

// concurrent is how many documents of a provider are read at the same time.
const concurrent = 16

// Finish implements [Target].
func (b *Bucket) Finish(ctx context.Context, p sources.Provider) error {
	c, err := b.contents(ctx, p)
	if err != nil {
		return err
	}
	versions := maps.Clone(c.index.Versions)
	if versions == nil {
		versions = map[string]struct{}{}
	}
	for v, doc := range c.documents {
		if len(doc.Archives) > 0 {
			versions[v.String()] = struct{}{}
		} else {
			delete(versions, v.String())
		}
	}
	if maps.Equal(versions, c.index.Versions) || len(versions) == 0 && c.index.etag == "" {
		return nil
	}
	index := c.index
	index.Versions = versions
	c.index, err = b.write(ctx, home(p)+fsmirror.Index, index)
	return err
}

// rests returns the names of old archives that no document names.
func (b *Bucket) rests(ctx context.Context, c *contents, p sources.Provider) (names []string, err error) {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, v := range c.versions() {
		group.Go(func() error {
			_, err := b.document(inner, c, sources.Release{Provider: p, Version: v})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	named := b.named(c, p)
	old := func(o bucket.Info) bool { return time.Since(o.Modified) > abandonedAfter }
	for name, is := range c.objects {
		_, v, _, _ := fsmirror.ParseArchiveName(path.Base(name))
		own := strings.HasPrefix(name, archives) && isArchive(name)
		if own && old(is) && old(c.objects[v.String()+".json"]) && !named(home(p)+name) {
			names = append(names, home(p)+name)
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

// Remove implements [Target].
func (b *Bucket) Remove(ctx context.Context, p sources.Provider, packages []sources.PackageID) error {
	c, err := b.contents(ctx, p)
	if err != nil {
		return err
	}
	rests, err := b.rests(ctx, c, p)
	if err != nil {
		return err
	}
	changed := map[sources.Version]document{}
	for _, id := range packages {
		doc := c.documents[id.Version] // all have been read
		name, _ := b.object(p, doc.Archives[id.Platform.String()].URL)
		if inHome, ok := strings.CutPrefix(name, home(p)); ok && isArchive(inHome) {
			rests = append(rests, name)
		}
		doc.Archives = maps.Clone(doc.Archives)
		delete(doc.Archives, id.Platform.String())
		changed[id.Version], c.documents[id.Version] = doc, doc
	}
	if err := b.Finish(ctx, p); err != nil {
		return err
	}
	var documents []string
	for v, doc := range changed {
		name := documentOf(sources.Release{Provider: p, Version: v})
		if len(doc.Archives) > 0 {
			if _, err := b.write(ctx, name, doc); err != nil {
				return err
			}
			continue
		}
		documents = append(documents, name)
		dir := evidence.Path(p, v) + "/"
		files, err := list(ctx, b.in, dir)
		if err != nil {
			return err
		}
		for name := range files {
			rests = append(rests, dir+name)
		}
	}
	if err := b.in.Delete(ctx, documents...); err != nil {
		return err
	}
	slices.Sort(rests)
	return b.in.Delete(ctx, slices.DeleteFunc(slices.Compact(rests), b.named(c, p))...)
}

// named returns a function that reports whether a document of a provider names an archive. Documents of other programs
// may name it through another server or with a query, so only the end of the path counts: the file, and the directory
// before it, which is the SHA-256 of an archive, or the type of the provider.
func (b *Bucket) named(c *contents, p sources.Provider) func(name string) bool {
	endOf := func(name string) string {
		dir, file := path.Split(path.Clean("/" + name))
		return path.Join(path.Base(dir), file)
	}
	ends := map[string]bool{}
	for _, doc := range c.documents {
		for _, a := range doc.Archives {
			if u, err := b.in.URL(home(p)).Parse(a.URL); err == nil {
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
