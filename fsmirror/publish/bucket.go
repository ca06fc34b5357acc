package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/evidence"
)

// maxRaces is how often a document is written again, because another program has changed it meanwhile.
const maxRaces = 20

// How web servers and other caches may keep what a bucket has. Documents change, and archives don't, unless they are
// replaced on purpose.
const (
	keepDocument = "no-cache"
	keepArchive  = "public, max-age=86400"
)

const indexName = "index.json"

// A Bucket is a [Target] in an S3-compatible store: a static network mirror, with the layout of a mirror of archives. Hosts are
// in punycode, as clients request them.
type Bucket struct {
	in *bucket.Bucket

	listings sources.Memo[sources.Provider, map[string]int64] // sizes of the objects, by name

	mu      sync.Mutex
	found   map[sources.Release]fsmirror.Document         // as Look has read them
	indexed map[sources.Provider]map[sources.Version]bool // what index.json is to list, and what it is not to list
}

// NewBucket returns the target in a bucket.
func NewBucket(b *bucket.Bucket) *Bucket {
	return &Bucket{in: b, found: map[sources.Release]fsmirror.Document{}, indexed: map[sources.Provider]map[sources.Version]bool{}}
}

func (b *Bucket) String() string { return b.in.Location().String() }

// Check implements [Target].
func (b *Bucket) Check([]Release) error { return nil }

// home returns the name of the directory of a provider.
func home(p sources.Provider) string { return path.Join(p.Host.ASCII(), p.Namespace, p.Type) + "/" }

func documentOf(r sources.Release) string { return home(r.Provider) + r.Version.String() + ".json" }

// Look implements [Place]. An archive that a document names counts only if it exists.
func (b *Bucket) Look(ctx context.Context, r Release) (State, error) {
	s := State{Archives: map[sources.Platform]sources.Hash{}}
	there, err := b.list(ctx, r.Provider)
	if err != nil {
		return s, err
	}
	if _, ok := there[r.Version.String()+".json"]; !ok {
		return s, sources.ErrNotFound
	}
	doc, _, err := b.read(ctx, documentOf(r.Release))
	if err != nil {
		return s, err
	}
	b.mu.Lock()
	b.found[r.Release] = doc
	b.mu.Unlock()
	for platform, a := range doc.Archives {
		p, err := sources.ParsePlatform(platform)
		if _, exists := there[a.URL]; err == nil && (exists || strings.Contains(a.URL, "/")) {
			s.Archives[p] = archiveHash(a)
		}
	}
	s.Evidence = r.Evidence == nil || doc.Larder != nil && doc.Larder.Evidence != nil && sameEvidence(*doc.Larder.Evidence, *locate(r))
	b.index(r.Release, true)
	return s, nil
}

// archiveHash returns the hash of an archive that a document states, or "".
func archiveHash(a fsmirror.Archive) sources.Hash {
	i := slices.IndexFunc(a.Hashes, func(h sources.Hash) bool { return h.Scheme() == sources.ZH })
	if i < 0 {
		return ""
	}
	return a.Hashes[i].Canonical()
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

// list returns the objects in the directory of a provider.
func (b *Bucket) list(ctx context.Context, p sources.Provider) (map[string]int64, error) {
	return b.listings.Get(ctx, p, func() (map[string]int64, error) {
		sizes := map[string]int64{}
		for info, err := range b.in.List(ctx, home(p)) {
			if err != nil && info.Name == "" {
				return nil, err
			}
			sizes[strings.TrimPrefix(info.Name, home(p))] = info.Size
		}
		return sizes, nil
	})
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

// update changes a document. If another program writes it at the same time, change is called again with what that has written. A
// document without contents is removed.
func (b *Bucket) update(ctx context.Context, name string, change func(*fsmirror.Document) error) error {
	for range maxRaces {
		doc, etag, err := b.read(ctx, name)
		if err != nil {
			return err
		}
		was, err := documentText(doc)
		if err == nil {
			err = change(&doc)
		}
		if err != nil {
			return err
		}
		text, err := documentText(doc)
		if err != nil || etag != "" && bytes.Equal(was, text) {
			return err
		}
		only := bucket.NotExisting
		if etag != "" {
			only = bucket.IfETag(etag)
		}
		_, err = b.in.Put(ctx, name, text, bucket.WriteOptions{ContentType: "application/json", CacheControl: keepDocument, Only: only})
		if !errors.Is(err, bucket.ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("%s/%s: %w", b, name, bucket.ErrChanged)
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
		for i, name := range evidence.Names {
			at := evidence.Path(r.Provider, r.Version) + "/" + evidenceName(r) + "/" + name
			if _, err := b.in.Put(ctx, at, r.Evidence[i], bucket.WriteOptions{CacheControl: keepArchive}); err != nil {
				return err
			}
		}
	}
	b.mu.Lock()
	found := b.found[r.Release]
	b.mu.Unlock()
	err := b.update(ctx, documentOf(r.Release), func(doc *fsmirror.Document) error {
		if doc.Archives == nil {
			doc.Archives = map[string]fsmirror.Archive{}
		}
		for _, p := range r.Packages {
			platform := p.ID.Platform.String()
			now, was := archiveHash(doc.Archives[platform]), archiveHash(found.Archives[platform])
			if now != "" && now != was && now != p.ZH {
				return &sources.PackageError{ID: p.ID, Err: &DifferError{b.String(), now, p.ZH}}
			}
			doc.Archives[platform] = fsmirror.Archive{Hashes: p.Hashes, URL: p.ID.Filename()}
		}
		if r.Evidence != nil {
			doc.Larder = &evidence.Extension{Evidence: locate(r)}
		}
		return nil
	})
	if err == nil {
		b.index(r.Release, true)
	}
	return err
}

// upload stores an archive, unless it is there. What is under its name, and no document names, is the rest of a push that was
// interrupted, or is to be replaced.
func (b *Bucket) upload(ctx context.Context, p Package, sent func(int64)) error {
	sum, err := p.ZH.Sum(sources.ZH)
	if err != nil {
		return err
	}
	listed, err := b.list(ctx, p.ID.Provider)
	if err != nil {
		return err
	}
	_, exists := listed[p.ID.Filename()]
	name := home(p.ID.Provider) + p.ID.Filename()
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

func (b *Bucket) send(ctx context.Context, name string, p Package, sum [32]byte, only bucket.Condition, sent func(int64)) error {
	archive, err := p.open()
	if err != nil {
		return err
	}
	defer archive.Close()
	var last int64
	_, err = b.in.Upload(ctx, name, archive, p.Size, sum, bucket.UploadOptions{
		WriteOptions: bucket.WriteOptions{ContentType: "application/zip", CacheControl: keepArchive, Only: only},
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

// index records whether index.json is to list a release, for Finish.
func (b *Bucket) index(r sources.Release, listed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.indexed[r.Provider] == nil {
		b.indexed[r.Provider] = map[sources.Version]bool{}
	}
	b.indexed[r.Provider][r.Version] = listed
}

// Finish implements [Target]. It adds the versions to the index of each provider.
func (b *Bucket) Finish(ctx context.Context) error {
	b.mu.Lock()
	all := b.indexed
	b.indexed = map[sources.Provider]map[sources.Version]bool{}
	b.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(indexers)
	for p, versions := range all {
		group.Go(func() error { return b.reindex(ctx, p, versions) })
	}
	return group.Wait()
}

// indexers is how many indexes are updated concurrently.
const indexers = 16

func (b *Bucket) reindex(ctx context.Context, p sources.Provider, versions map[sources.Version]bool) error {
	return b.update(ctx, home(p)+indexName, func(doc *fsmirror.Document) error {
		if doc.Versions == nil {
			doc.Versions = map[string]struct{}{}
		}
		for v, listed := range versions {
			if listed {
				doc.Versions[v.String()] = struct{}{}
			} else {
				delete(doc.Versions, v.String())
			}
		}
		return nil
	})
}

// Versions implements [Lister].
func (b *Bucket) Versions(ctx context.Context, p sources.Provider) (versions []sources.Version, err error) {
	there, err := b.list(ctx, p)
	for name := range there {
		if text, ok := strings.CutSuffix(name, ".json"); ok && name != indexName {
			if v, err := sources.ParseVersion(text); err == nil {
				versions = append(versions, v)
			}
		}
	}
	slices.SortFunc(versions, sources.Version.Compare)
	return versions, err
}

// Remove implements [Lister]. What names a package is changed first, and then the archive is removed.
func (b *Bucket) Remove(ctx context.Context, r sources.Release, platforms []sources.Platform) error {
	var gone []string
	left := 0
	err := b.update(ctx, documentOf(r), func(doc *fsmirror.Document) error {
		gone = nil
		for _, p := range platforms {
			if a, ok := doc.Archives[p.String()]; ok && !strings.Contains(a.URL, "/") {
				gone = append(gone, home(r.Provider)+a.URL)
			}
			delete(doc.Archives, p.String())
		}
		left = len(doc.Archives)
		if doc.Archives == nil {
			doc.Archives = map[string]fsmirror.Archive{}
		}
		return nil
	})
	if err == nil && left == 0 {
		b.index(r, false)
		err = b.reindex(ctx, r.Provider, map[sources.Version]bool{r.Version: false})
		gone = append(gone, documentOf(r))
		for info, listErr := range b.in.List(ctx, evidence.Path(r.Provider, r.Version)+"/") {
			if listErr == nil {
				gone = append(gone, info.Name)
			}
		}
	}
	if err != nil {
		return err
	}
	return b.in.Delete(ctx, gone...)
}
