package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxRaces is how often a tag is written again, because another program has changed it meanwhile.
const maxRaces = 8

// ErrMoved matches the error for a tag that other programs have changed again and again.
var ErrMoved = errors.New("the tag was changed by another program meanwhile")

// Seen are the manifests that an index had when [Mirror.Look] read it.
type Seen map[sources.Platform]digest.Digest

// A ReplacedError is a package that another program has stored with other contents since [Mirror.Look] read its index.
type ReplacedError struct {
	ID           sources.PackageID
	Theirs, Ours sources.Hash // of the archives
}

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s: another program has stored another archive meanwhile, with the hash %s", e.ID, e.Theirs)
}

// A Change is what to change about a version in a repository. Whatever it doesn't mention stays.
type Change struct {
	Add    []Added            // replaces packages for the same platforms
	Seen   Seen               // only these manifests are replaced, and others are a [ReplacedError]; nil replaces any
	Remove []sources.Platform // if nothing is left, the version is removed
	Signed *evidence.Files    // nil keeps the evidence

	Sent func(bytes int64) // called with the bytes of archives that are done, concurrently; a negative number is sent again; may be nil
}

// An Added is an archive to store. The caller has verified its checksum; the registry does so again.
type Added struct {
	Platform sources.Platform
	Archive  io.ReaderAt
	Size     int64        // in bytes
	Hash     sources.Hash // of the archive
	Filename string
}

// Put changes a version in the repository of a provider. Readers see the old version or the new one, and its archives and its
// evidence are there before. After all changes, [Mirror.Settle] must be called. Errors have the type *sources.ProviderError, except
// for each *[ReplacedError].
func (m *Mirror) Put(ctx context.Context, p sources.Provider, v sources.Version, c Change) error {
	r, err := m.repository(p)
	if err == nil {
		err = m.put(ctx, p, r, v, c)
	}
	return m.aboutVersion(p, v, err)
}

// aboutVersion adds the provider and the version to each error that lacks them.
func (m *Mirror) aboutVersion(p sources.Provider, v sources.Version, err error) error {
	all := sources.Errors(err)
	for i, e := range all {
		if _, ok := errors.AsType[*ReplacedError](e); !ok {
			all[i] = m.about(p, fmt.Errorf("version %s: %w", v, e))
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

func (m *Mirror) put(ctx context.Context, p sources.Provider, r Repository, v sources.Version, c Change) error {
	w := &written{
		provider: p, repository: r, version: v,
		packages: c.Add, seen: c.Seen, added: make([]v1.Descriptor, len(c.Add)), manifests: make([][]byte, len(c.Add)), removed: c.Remove, signed: c.Signed,
	}
	var group errgroup.Group // after an error, the others continue, as the next run needs them too
	for i, a := range c.Add {
		group.Go(func() (err error) {
			w.added[i], w.manifests[i], err = m.pushPackage(ctx, r, a, c.Sent)
			if err != nil {
				return fmt.Errorf("%s: %w", a.Platform, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := m.write(ctx, w); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written = append(m.written, w)
	return nil
}

// A written is a change of an index.
type written struct {
	provider   sources.Provider
	repository Repository
	version    sources.Version
	packages   []Added
	seen       Seen
	added      []v1.Descriptor
	manifests  [][]byte // of added
	removed    []sources.Platform
	signed     *evidence.Files

	wrote digest.Digest // of the index that was written last; empty if it didn't have to be
	at    time.Time     // when the tag was written last; zero if it didn't have to be
	took  time.Duration // the time from reading the tag to having written it
}

// write changes the index of a version, unless it is as it should be.
func (m *Mirror) write(ctx context.Context, w *written) error {
	r, v := w.repository, w.version
	for range maxRaces {
		was, err := m.reread(ctx, r, v)
		if err != nil {
			return err
		}
		if was.digest == w.wrote && w.wrote != "" {
			return nil
		}
		if err := was.isOf(r, w.provider); err != nil {
			return err
		}
		if err := m.checkSeen(ctx, w, was); err != nil {
			return err
		}
		// Another program may have overwritten the index. Zot then removes the manifests that only the old one referred to.
		for _, manifest := range w.manifests {
			if _, _, err := m.pushManifest(ctx, r, v1.MediaTypeImageManifest, manifest, ""); err != nil {
				return err
			}
		}
		now := was.changed(w.provider, w.added, w.removed)
		if len(now.Manifests) == 0 {
			return m.removeTag(ctx, r, v, was)
		}
		data, err := json.Marshal(now)
		if err != nil {
			return err
		}
		signed := w.signed
		if signed == nil && was.digest != "" && !was.replaces(w.added) {
			signed = m.kept(ctx, r, was)
		}
		if signed != nil {
			if err := m.pushEvidence(ctx, r, descriptorOf(data), *signed); err != nil {
				return err
			}
		}
		if digest.FromBytes(data) == was.digest {
			return nil
		}
		began := time.Now()
		if is, err := m.reread(ctx, r, v); err != nil || is.digest != was.digest {
			continue // changed while the evidence was stored
		}
		_, _, err = m.pushManifest(ctx, r, v1.MediaTypeImageIndex, data, tag(v))
		m.indexes.Forget(r.at("manifests/" + tag(v)))
		if w.at = time.Now(); err != nil {
			return err
		}
		w.took, w.wrote = w.at.Sub(began), digest.FromBytes(data)
		return nil
	}
	return fmt.Errorf("%s:%s: %w", r, tag(v), ErrMoved)
}

// checkSeen returns a [ReplacedError] for each package that is to be added, if the index has a manifest for its platform that is
// neither that package nor what Look has seen.
func (m *Mirror) checkSeen(ctx context.Context, w *written, was *index) error {
	if w.seen == nil {
		return nil
	}
	var all []error
	for i, a := range w.packages {
		for _, d := range was.Manifests {
			if d.Digest == w.added[i].Digest || d.Digest == w.seen[a.Platform] || !isFor(d, a.Platform) {
				continue
			}
			archive, err := m.archive(ctx, w.repository, d)
			if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
				continue // the registry has lost it
			}
			if err != nil {
				return fmt.Errorf("%s: %w", a.Platform, err)
			}
			id := sources.PackageID{Provider: w.provider, Version: w.version, Platform: a.Platform}
			all = append(all, &ReplacedError{id, archive.Hash, a.Hash})
		}
	}
	return errors.Join(all...)
}

// isFor reports whether the manifest of a descriptor is that of a package for a platform.
func isFor(d v1.Descriptor, p sources.Platform) bool {
	return d.ArtifactType == typeTarget && d.Platform != nil && d.Platform.OSVersion == "" && d.Platform.OS == p.OS && d.Platform.Architecture == p.Arch
}

// kept returns the evidence of an index, for the index that takes its place, or nil if there is none that can be read.
func (m *Mirror) kept(ctx context.Context, r Repository, was *index) *evidence.Files {
	signed, err := m.findEvidence(ctx, r, was)
	if err != nil || signed == nil {
		return nil
	}
	files, err := evidence.Pack(signed)
	if err != nil {
		return nil
	}
	return &files
}

// Settle looks at all versions that Put has changed again, and repeats the changes that another program has
// overwritten. Registries can't write a tag on the condition that it is unchanged. So it waits until a program
// that has read a tag before Put changed it should have written it. It doesn't replace other contents of the same
// packages: they are a [ReplacedError]. It returns all errors, as Put does.
func (m *Mirror) Settle(ctx context.Context) error {
	m.mu.Lock()
	all := m.written
	m.written = nil
	m.mu.Unlock()
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(settlers)
	for i, w := range all {
		group.Go(func() error {
			errs[i] = m.aboutVersion(w.provider, w.version, m.settle(ctx, w))
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(errs...)
}

// ErrNotServed matches the error for a tag that a registry accepts again and again, and then doesn't have.
var ErrNotServed = errors.New("the registry accepts the tag, but answers that it doesn't exist")

func (m *Mirror) settle(ctx context.Context, w *written) error {
	n := 0
	for was := (time.Time{}); w.at != was; n++ {
		if n == maxRaces {
			return m.unsettled(ctx, w)
		}
		was = w.at
		if err := sleep(ctx, min(max(leastSettling, settlingTimes*w.took), mostSettling)-time.Since(was)); err != nil {
			return err
		}
		if err := m.write(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// unsettled returns the error for a tag that is never as it was written.
func (m *Mirror) unsettled(ctx context.Context, w *written) error {
	at := w.repository.String() + ":" + tag(w.version)
	if is, err := m.reread(ctx, w.repository, w.version); err == nil && is.digest == "" {
		return sources.WithHint(fmt.Errorf("%s: %w", at, ErrNotServed), "check the storage of the registry, and the proxies and caches in front of it")
	}
	return fmt.Errorf("%s: %w", at, ErrMoved)
}

// How long to wait until a tag is looked at again: a multiple of the time that writing it took, within limits.
const (
	settlingTimes = 5
	leastSettling = 100 * time.Millisecond
	mostSettling  = 5 * time.Second
	settlers      = 16 // how many tags are looked at concurrently
)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func descriptorOf(index []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: v1.MediaTypeImageIndex, ArtifactType: typeProvider, Digest: digest.FromBytes(index), Size: int64(len(index))}
}

// pushPackage stores the archive of a package, and returns its manifest, which still has to be stored, with the descriptor
// for an index.
func (m *Mirror) pushPackage(ctx context.Context, r Repository, a Added, sent func(int64)) (d v1.Descriptor, manifest []byte, err error) {
	layer, manifest, d, err := a.manifest()
	if err == nil {
		err = m.pushBlob(ctx, r, layer, a.Archive, sent)
	}
	if err == nil {
		err = m.pushEmpty(ctx, r)
	}
	return d, manifest, err
}

// manifest returns the descriptor of the archive, its manifest, and the descriptor of that. They depend on nothing else than
// a, so that Larder recognizes what it has pushed by digest.
func (a Added) manifest() (layer v1.Descriptor, manifest []byte, d v1.Descriptor, err error) {
	sum, err := a.Hash.Sum(sources.ZH)
	if err != nil {
		return layer, nil, d, err
	}
	layer = v1.Descriptor{
		MediaType: typeArchive, Digest: digest.NewDigestFromBytes(digest.SHA256, sum[:]), Size: a.Size,
		Annotations: map[string]string{v1.AnnotationTitle: a.Filename},
	}
	m := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: typeTarget, Config: v1.DescriptorEmptyJSON, Layers: []v1.Descriptor{layer}}
	m.SchemaVersion = 2
	manifest, err = json.Marshal(m)
	d = v1.Descriptor{
		MediaType: v1.MediaTypeImageManifest, ArtifactType: typeTarget, Digest: digest.FromBytes(manifest), Size: int64(len(manifest)),
		Platform: &v1.Platform{OS: a.Platform.OS, Architecture: a.Platform.Arch},
	}
	return layer, manifest, d, err
}

// A State is what a repository has of a version.
type State struct {
	Archives map[sources.Platform]sources.Hash
	Seen     Seen            // never nil
	Signed   *sources.Signed // its evidence, if that was asked about; nil if there is none that can be read
}

// Look returns what the repository of a provider has of a version. It reads nothing but the index and the list of
// referrers if Larder has pushed these packages and these files of evidence. The error matches [sources.ErrNotFound] if there is no such version.
func (m *Mirror) Look(ctx context.Context, p sources.Provider, v sources.Version, packages []Added, files *evidence.Files) (State, error) {
	s, err := m.look(ctx, p, v, packages, files)
	if err != nil {
		return s, m.about(p, fmt.Errorf("version %s: %w", v, err))
	}
	return s, nil
}

func (m *Mirror) look(ctx context.Context, p sources.Provider, v sources.Version, packages []Added, files *evidence.Files) (State, error) {
	s := State{Archives: map[sources.Platform]sources.Hash{}, Seen: Seen{}}
	r, err := m.repository(p)
	if err != nil {
		return s, err
	}
	x, err := m.reread(ctx, r, v)
	if err == nil {
		err = x.isOf(r, p)
	}
	if err == nil && x.digest == "" {
		err = cmp.Or(m.occupied(ctx, r, p), sources.ErrNotFound)
	}
	if err != nil {
		return s, err
	}
	pushed := map[digest.Digest]sources.Hash{}
	for _, a := range packages {
		if _, _, d, err := a.manifest(); err == nil {
			pushed[d.Digest] = a.Hash
		}
	}
	for _, platform := range x.platforms() {
		entry, err := x.entry(platform)
		if err != nil {
			return s, x.wrap(err)
		}
		s.Seen[platform] = entry.Digest
		hash, ok := pushed[entry.Digest]
		if !ok {
			archive, err := m.archive(ctx, r, entry)
			if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
				continue // the registry has lost it, so it can be stored again
			}
			if err != nil {
				return s, err
			}
			hash = archive.Hash
		}
		s.Archives[platform] = hash
	}
	if files != nil {
		s.Signed, err = m.compareEvidence(ctx, r, x, *files)
	}
	return s, err
}

// occupied returns an [OccupiedError] if the newest version in a repository is that of another provider.
func (m *Mirror) occupied(ctx context.Context, r Repository, p sources.Provider) error {
	x, err := m.newest.Get(ctx, r, func() (*index, error) {
		versions, err := m.versions(ctx, r)
		if err != nil || len(versions) == 0 {
			return &index{}, nil //nolint:nilerr // if the repository can't be read, writing fails too
		}
		x, err := m.index(ctx, r, slices.MaxFunc(slices.Collect(maps.Keys(versions)), sources.Version.Compare))
		if err != nil {
			return &index{}, nil //nolint:nilerr // it states no provider
		}
		return x, nil
	})
	if err != nil {
		return err
	}
	return x.isOf(r, p)
}

// pushEmpty stores the blob that stands for no configuration.
func (m *Mirror) pushEmpty(ctx context.Context, r Repository) error {
	_, err := m.empties.Get(ctx, r, func() (struct{}, error) {
		return struct{}{}, m.pushBlob(ctx, r, v1.DescriptorEmptyJSON, bytes.NewReader(v1.DescriptorEmptyJSON.Data), nil)
	})
	if err != nil {
		m.empties.Forget(r)
	}
	return err
}

// reread returns the index of a version as it is now, and an empty one if there is none.
func (m *Mirror) reread(ctx context.Context, r Repository, v sources.Version) (*index, error) {
	m.indexes.Forget(r.at("manifests/" + tag(v)))
	x, err := m.index(ctx, r, v)
	if errors.Is(fetch.Absent(err), sources.ErrNotFound) {
		x = &index{Index: v1.Index{MediaType: v1.MediaTypeImageIndex, ArtifactType: typeProvider}}
		x.SchemaVersion = 2
		return x, nil
	}
	return x, err
}

// replaces reports whether the index has other manifests for the platforms of these.
func (x *index) replaces(added []v1.Descriptor) bool {
	return slices.ContainsFunc(added, func(a v1.Descriptor) bool {
		return slices.ContainsFunc(x.Manifests, func(d v1.Descriptor) bool {
			return isFor(d, sources.Platform{OS: a.Platform.OS, Arch: a.Platform.Architecture}) && d.Digest != a.Digest
		})
	})
}

// changed returns the index of a provider with other packages. Its manifests are sorted, so that the same packages have the same
// index.
func (x *index) changed(p sources.Provider, added []v1.Descriptor, removed []sources.Platform) v1.Index {
	now := x.Index
	platform := func(d v1.Descriptor) sources.Platform {
		return sources.Platform{OS: d.Platform.OS, Arch: d.Platform.Architecture}
	}
	now.Manifests = slices.DeleteFunc(slices.Clone(x.Manifests), func(d v1.Descriptor) bool {
		if d.ArtifactType != typeTarget || d.Platform == nil || d.Platform.OSVersion != "" {
			return false
		}
		return slices.Contains(removed, platform(d)) || slices.ContainsFunc(added, func(a v1.Descriptor) bool { return platform(a) == platform(d) })
	})
	now.Manifests = append(now.Manifests, added...)
	if _, ok := x.provider(); !ok {
		now.Annotations = maps.Clone(x.Annotations)
		if now.Annotations == nil {
			now.Annotations = map[string]string{}
		}
		now.Annotations[annotationProvider] = p.String()
	}
	slices.SortStableFunc(now.Manifests, func(a, b v1.Descriptor) int {
		if a.Platform == nil || b.Platform == nil {
			return cmp.Compare(b2i(a.Platform == nil), b2i(b.Platform == nil))
		}
		return platform(a).Compare(platform(b))
	})
	return now
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// removeTag removes a version.
func (m *Mirror) removeTag(ctx context.Context, r Repository, v sources.Version, was *index) error {
	if was.digest == "" {
		return nil
	}
	var failed error
	for _, reference := range []string{tag(v), was.digest.String()} { // few registries can remove a tag without what it refers to
		if reference != tag(v) {
			if err := m.otherTags(ctx, r, v, was.digest); err != nil {
				return err
			}
		}
		_, err := m.client.Do(ctx, fetch.Write{Method: http.MethodDelete, URL: r.at("manifests/" + reference)})
		if err == nil || errors.Is(fetch.Absent(err), sources.ErrNotFound) {
			m.indexes.Forget(r.at("manifests/" + tag(v)))
			return nil
		}
		failed = err
		if status, ok := errors.AsType[*fetch.StatusError](err); !ok || status.Code != http.StatusBadRequest && status.Code != http.StatusMethodNotAllowed {
			break
		}
	}
	return sources.WithHint(failed, "some registries permit removal only on their own pages, or by a setting of the registry")
}

var validTag = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// otherTags returns an error if tags that don't stand for versions refer to the index of a version: they would be removed with it.
func (m *Mirror) otherTags(ctx context.Context, r Repository, v sources.Version, of digest.Digest) error {
	for other, err := range m.tags(ctx, r) {
		if err != nil {
			return err
		}
		if w, err := versionOf(other); err == nil && other == tag(w) || !validTag.MatchString(other) {
			continue
		}
		doc, err := m.client.Document(ctx, fetch.Request{URL: r.at("manifests/" + other), Accept: acceptManifests, Limit: maxManifest, SameHost: true})
		switch {
		case errors.Is(fetch.Absent(err), sources.ErrNotFound):
		case err != nil:
			return err
		case digest.FromBytes(doc.Body) == of:
			err := fmt.Errorf("%s:%s: not removed, because the tag %s refers to the same index, and the registry can only remove both", r, tag(v), other)
			return sources.WithHint(err, "remove the tag %s first", other)
		}
	}
	return nil
}

// pushEvidence stores the evidence for the index of a version, unless it is there. It may be stored before the index.
func (m *Mirror) pushEvidence(ctx context.Context, r Repository, of v1.Descriptor, files evidence.Files) error {
	if there, err := m.hasEvidence(ctx, r, of.Digest, files); err != nil || there {
		return err
	}
	manifest := v1.Manifest{MediaType: v1.MediaTypeImageManifest, ArtifactType: typeEvidence, Config: v1.DescriptorEmptyJSON, Subject: &of}
	manifest.SchemaVersion = 2
	for i, name := range evidence.Names {
		manifest.Layers = append(manifest.Layers, v1.Descriptor{
			MediaType: "application/octet-stream", Digest: digest.FromBytes(files[i]), Size: int64(len(files[i])),
			Annotations: map[string]string{v1.AnnotationTitle: name},
		})
	}
	if err := m.pushEmpty(ctx, r); err != nil {
		return err
	}
	for i := range manifest.Layers {
		if err := m.pushBlob(ctx, r, manifest.Layers[i], bytes.NewReader(files[i]), nil); err != nil {
			return err
		}
		if len(files[i]) <= smallFile {
			manifest.Layers[i].Data = files[i]
		}
	}
	manifest.Annotations = map[string]string{
		v1.AnnotationCreated: time.Now().UTC().Format(time.RFC3339Nano),
		annotationEvidence:   digestOf(files),
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	d, reply, err := m.pushManifest(ctx, r, v1.MediaTypeImageManifest, data, "")
	if err != nil {
		return err
	}
	m.evidences.Forget(r.at(of.Digest.String()))
	if reply.Header.Get("OCI-Subject") != "" {
		return nil
	}
	d.ArtifactType, d.Annotations = typeEvidence, manifest.Annotations
	return m.listReferrer(ctx, r, of.Digest, d)
}

// annotationEvidence is the digest of the files of evidence, which lists of referrers repeat.
const annotationEvidence = "vnd.larder.evidence.digest"

func digestOf(files evidence.Files) string {
	var sums []byte
	for _, file := range files {
		sums = append(sums, digest.FromBytes(file)...)
	}
	return digest.FromBytes(sums).String()
}

// hasEvidence reports whether the newest evidence for an index consists of these files.
func (m *Mirror) hasEvidence(ctx context.Context, r Repository, of digest.Digest, files evidence.Files) (bool, error) {
	referrers, err := m.referrers(ctx, r, of)
	if err != nil {
		return false, err
	}
	if newest := newestEvidence(referrers); newest != nil && newest.Annotations[annotationEvidence] != "" {
		return newest.Annotations[annotationEvidence] == digestOf(files), nil
	}
	others, _ := m.evidenceManifests(ctx, r, of) // what can't be read gets company
	return slices.ContainsFunc(others, func(other v1.Manifest) bool { return other.Annotations[annotationEvidence] == digestOf(files) }), nil
}

// compareEvidence returns the evidence for an index, or nil if there is none that can be read. It doesn't read these files.
func (m *Mirror) compareEvidence(ctx context.Context, r Repository, x *index, files evidence.Files) (*sources.Signed, error) {
	same, err := m.hasEvidence(ctx, r, x.digest, files)
	if err != nil {
		return nil, err
	}
	if same {
		return files.Signed()
	}
	signed, err := m.findEvidence(ctx, r, x)
	if failed, ok := errors.AsType[*fetch.Error](err); ok && failed.Cause() != "" || ctx.Err() != nil {
		return nil, err // another time, it may be readable
	}
	if err != nil {
		return nil, nil //nolint:nilerr // it can't be read
	}
	return signed, nil
}

// newestEvidence returns the newest evidence in a list of referrers, as far as the list has its age, or nil.
func newestEvidence(referrers []v1.Descriptor) (newest *v1.Descriptor) {
	for _, d := range referrers {
		if d.ArtifactType == typeEvidence && (newest == nil || d.Annotations[v1.AnnotationCreated] > newest.Annotations[v1.AnnotationCreated]) {
			newest = &d
		}
	}
	return newest
}

// smallFile is the size of a file, in bytes, up to which a manifest contains it.
const smallFile = 64 << 10

// listReferrer adds a referrer to the tag that stands for the referrers of a manifest, in registries without an API for
// them.
func (m *Mirror) listReferrer(ctx context.Context, r Repository, of digest.Digest, d v1.Descriptor) error {
	for range maxRaces {
		all, err := m.referrers(ctx, r, of)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(other v1.Descriptor) bool { return other.Digest == d.Digest }) {
			return nil
		}
		x := v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: append(all, d)}
		x.SchemaVersion = 2
		data, err := json.Marshal(x)
		if err != nil {
			return err
		}
		if _, _, err := m.pushManifest(ctx, r, v1.MediaTypeImageIndex, data, referrersTag(of)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", strings.TrimSuffix(r.at("manifests/"+referrersTag(of)), "/"), ErrMoved)
}
