package work

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cachedir/share"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
)

// maxShared is the size of the largest document in a place with packages, in bytes.
const maxShared = 4 << 20

// bucketObjects are the objects in a bucket.
type bucketObjects struct{ *bucket.Bucket }

func (b bucketObjects) String() string { return b.Location().String() }

func (b bucketObjects) Get(ctx context.Context, name string) ([]byte, error) {
	data, _, err := b.Bucket.Get(ctx, name, maxShared)
	return data, err
}

func (b bucketObjects) Put(ctx context.Context, name string, data []byte) error {
	_, err := b.Bucket.Put(ctx, name, data, bucket.WriteOptions{ContentType: "application/json"})
	return err
}

func (b bucketObjects) Has(ctx context.Context, name string) (bool, error) {
	_, err := b.Head(ctx, name)
	if errors.Is(err, sources.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (b bucketObjects) Upload(ctx context.Context, name string, from io.ReaderAt, size int64, sum [32]byte, sent func(int64)) error {
	var last int64
	_, err := b.Bucket.Upload(ctx, name, from, size, sum, bucket.UploadOptions{Progress: func(bytes int64) {
		sent(bytes - last)
		last = bytes
	}})
	return err
}

func (b bucketObjects) Locate(_ context.Context, name string) (string, error) {
	return b.URL(name).String(), nil
}

// sharable returns an error for a place that can't keep packages of plugin caches.
func sharable(r PlaceRequest) error {
	if scheme := schemeOf(r.Place); scheme == inBucket || scheme == inOCI {
		return nil
	}
	err := fmt.Errorf("%s: web servers can't keep packages of plugin caches", r.Place)
	return report.Usage(sources.WithHint(err, "write s3://BUCKET/PREFIX or oci://HOST/REPOSITORY"))
}

// objects opens a place with packages of plugin caches.
func (m *rootModule) objects(ctx context.Context, r PlaceRequest, push bool) (share.Objects, error) {
	switch {
	case m.flags.Offline:
		return nil, fmt.Errorf("%s: %w", r.Place, sources.ErrOffline)
	case schemeOf(r.Place) == inBucket:
		b, err := m.openBucket(ctx, r)
		return bucketObjects{b}, err
	}
	in, err := oci.ParseRepository(withoutScheme(r.Place))
	if err == nil && in.Name == "" {
		err = errors.New("it has no repository after the host")
	}
	if err != nil {
		return nil, report.Usage(fmt.Errorf("%s: %w", r.Place, err))
	}
	return oci.NewObjects(m.client, in, m.ociAccess(push)), nil
}

// ShareCache stores the packages that root modules select in a place, each as one object. It uploads only those that the place
// lacks.
func ShareCache(ctx context.Context, s *Session, r PlaceRequest, roots []string, partial bool) error {
	if err := cmp.Or(sharable(r), s.takeRoots(roots)); err != nil {
		return err
	}
	t, err := s.tree(ctx)
	if err != nil {
		return err
	}
	k, err := openCache(ctx, s, false)
	if err != nil {
		return err
	}
	if k.cache != nil {
		release, err := k.cache.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	packages, missing, err := k.collect(ctx, t)
	if err != nil {
		return err
	}
	if err := k.tellMissing(missing, partial); err != nil {
		return err
	}
	if private, err := privateIn(packages); err != nil || private != "" {
		return cmp.Or(err, sources.WithHint(fmt.Errorf("%s can't be read by all users, and a place is for others", private), "write a file that only you can read: larder cache export FILE"))
	}
	in, err := k.objects(ctx, r, true)
	if err != nil {
		return err
	}
	sum, err := report.Work(k.out, func(progress report.Report) (report.ExportSum, error) {
		return k.share(ctx, in, t.key(), packages, progress)
	})
	sum.File, sum.Missing = r.Place, len(missing)
	sum.Unchanged = sum.Same == sum.Packages && err == nil
	text := fmt.Sprintf("Stored %s (%s) in %s", ui.Count(sum.Stored, "package"), ui.Size(sum.Size), r.Place)
	switch {
	case sum.Unchanged:
		text = r.Place + " is up to date"
	case sum.Stored == 0:
		text = "Stored nothing in " + r.Place
	}
	text += report.ThereText(sum.Same)
	if failed := sum.Packages - sum.Same - sum.Stored; failed > 0 {
		text += fmt.Sprintf("; %d not stored", failed)
	}
	k.out.Summary(sum)
	k.out.Conclude("%s", text)
	return err
}

// share stores packages, and then lists them for the key.
func (k *targetCache) share(ctx context.Context, in share.Objects, key string, packages []sources.Stored, progress report.Report) (sum report.ExportSum, err error) {
	sum.Packages = len(packages)
	all := make([]share.Package, len(packages))
	for i, s := range packages {
		all[i] = share.Package{ID: s.ID, H1: s.H1}
	}
	known, err := share.Key(ctx, in, key)
	listed := err == nil && slices.Equal(known, all)
	work, err := disk.Temporary("larder-share-")
	if err != nil {
		return sum, err
	}
	defer work.Close()
	var mu sync.Mutex
	var done, total int64
	sent := func(bytes int64) {
		mu.Lock()
		defer mu.Unlock()
		done += bytes
		progress(done, total)
	}
	var errs []error
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(k.flags.Jobs, 4))
	for i, s := range packages {
		group.Go(func() error {
			there, err := share.Has(inner, in, s.H1)
			size := int64(0)
			if err == nil && !there {
				size, err = sharePackage(inner, in, work, s, all[i], func(size int64) {
					mu.Lock()
					total += size
					mu.Unlock()
				}, sent)
			}
			if err == nil && !(there && listed) {
				err = share.List(inner, in, all[i])
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Size += size
			switch {
			case err != nil:
				errs = append(errs, sources.InPackage(s.ID, err))
			case there:
				sum.Same++
			default:
				sum.Stored++
			}
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil || listed {
		return sum, err
	}
	return sum, share.ListKey(ctx, in, key, all)
}

// sharePackage packs a package into a file, uploads it, and returns its size in bytes.
func sharePackage(ctx context.Context, in share.Objects, work *disk.Scratch, s sources.Stored, p share.Package, sized, sent func(int64)) (int64, error) {
	f, err := work.NewTemp(strings.ReplaceAll(s.ID.Path(), "/", "_"))
	if err != nil {
		return 0, err
	}
	defer f.Discard()
	hash := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(f, hash), 1<<20)
	if err := errors.Join(share.Pack(ctx, buffered, s), buffered.Flush()); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	sized(info.Size())
	return info.Size(), share.Store(ctx, in, p, f, info.Size(), [32]byte(hash.Sum(nil)), sent)
}

// ImportShared adds to the plugin cache the packages that root modules select, that it lacks, and that a place has.
func ImportShared(ctx context.Context, s *Session, r PlaceRequest, roots []string) error {
	if err := cmp.Or(sharable(r), s.takeRoots(roots)); err != nil {
		return err
	}
	t, err := s.tree(ctx)
	if err != nil {
		return err
	}
	k, err := findCache(ctx, s)
	if err != nil {
		return err
	}
	if k.cache, err = k.openCache(k.path, func(*cachedir.Options) {}); err != nil {
		return err
	}
	release, err := k.cache.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	in, err := k.objects(ctx, r, false)
	if err != nil {
		return err
	}
	im := &importer{targetCache: k, into: installer.New(nil, k.cache, k.client, k.installerOptions(nil))}
	lacked, err := report.Work(k.out, func(progress report.Report) (int, error) { return im.fetchShared(ctx, in, t, progress) })
	im.show(len(sources.Errors(err)))
	if lacked > 0 {
		k.out.Conclude("%s lacks %s that the lock files require: %s downloads what is missing, and larder cache export adds it to the place",
			r.Place, ui.Count(lacked, "package"), k.again("install"))
	}
	return err
}

// fetchShared imports what the cache lacks, and returns how many packages the place lacks.
func (im *importer) fetchShared(ctx context.Context, in share.Objects, t *tree, progress report.Report) (lacked int, err error) {
	wanted := t.wanted()
	var need []sources.PackageID
	for id, locks := range wanted {
		s, err := im.stored(ctx, id)
		if err != nil || !slices.ContainsFunc(locks, func(l lockedProvider) bool { return l.allows(s) }) {
			need = append(need, id)
		}
	}
	if len(need) == 0 {
		return 0, nil
	}
	slices.SortFunc(need, sources.PackageID.Compare)
	known := map[sources.PackageID][]share.Package{}
	byKey, err := share.Key(ctx, in, t.key())
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		return 0, err
	}
	for _, p := range byKey {
		known[p.ID] = append(known[p.ID], p)
	}
	work, err := disk.Temporary("larder-share-")
	if err != nil {
		return 0, err
	}
	defer work.Close()
	var mu sync.Mutex
	var errs []error
	var done int64
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(im.flags.Jobs, 4))
	for _, id := range need {
		candidates := known[id]
		group.Go(func() error {
			took, err := im.fetchOne(inner, in, work, id, candidates, wanted[id], func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				done += n
				progress(done, 0)
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, sources.InPackage(id, err))
			case !took:
				lacked++
			}
			return nil
		})
	}
	_ = group.Wait()
	return lacked, errors.Join(append(errs, ctx.Err())...)
}

// fetchOne imports a package, and reports whether the place has one that a lock file accepts, as far as this can be told
// before the download.
func (im *importer) fetchOne(ctx context.Context, in share.Objects, work *disk.Scratch, id sources.PackageID, byKey []share.Package, locks []lockedProvider, arrived func(int64)) (bool, error) {
	tried := map[sources.Hash]bool{}
	took, failed := im.fetchFirst(ctx, in, work, byKey, locks, tried, arrived)
	if took || ctx.Err() != nil {
		return took, ctx.Err()
	}
	others, err := share.Find(ctx, in, id) // another key may have had better ones
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		return false, errors.Join(failed, err)
	}
	took, err = im.fetchFirst(ctx, in, work, others, locks, tried, arrived)
	if took {
		return true, nil
	}
	return false, errors.Join(failed, err)
}

// fetchFirst imports the first candidate that can be imported and wasn't tried. It returns the errors of those before only if there
// is none.
func (im *importer) fetchFirst(ctx context.Context, in share.Objects, work *disk.Scratch, candidates []share.Package, locks []lockedProvider, tried map[sources.Hash]bool, arrived func(int64)) (bool, error) {
	var failed []error
	for _, p := range candidates {
		if tried[p.H1] || !slices.ContainsFunc(locks, func(l lockedProvider) bool { return l.mayAllow(p.H1) }) {
			continue
		}
		tried[p.H1] = true
		url, err := share.Locate(ctx, in, p)
		if err == nil {
			err = im.fetchContents(ctx, url, work, p, in.String(), arrived)
		}
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case !errors.Is(fetch.Absent(err), sources.ErrNotFound): // otherwise the place has removed it
			failed = append(failed, err)
		}
	}
	return false, errors.Join(failed...)
}

// mayAllow reports whether the lock file may accept contents with this hash: it has the hash, or none of its scheme.
func (l lockedProvider) mayAllow(h1 sources.Hash) bool {
	return !sources.AnyOf(sources.H1, l.Hashes) || slices.Contains(l.Hashes, h1)
}

// fetchContents downloads an object and imports the package in it.
func (im *importer) fetchContents(ctx context.Context, url string, work *disk.Scratch, p share.Package, from string, arrived func(int64)) error {
	f, err := work.NewTemp(work.Name())
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := im.client.Download(ctx, fetch.Archive{URL: url}, &received{file: f.File, arrived: arrived}); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := im.importObject(ctx, f.File, p, from); err != nil {
		return sources.WithHint(err, "if the object is damaged, remove %s from %s: larder cache export stores it again", p.Object(), from)
	}
	return nil
}

// importObject imports the package in an object.
func (im *importer) importObject(ctx context.Context, object io.Reader, p share.Package, from string) error {
	e, done, err := share.Unpack(bufio.NewReaderSize(object, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	defer done()
	if all := e.Packages(); len(all) != 1 || all[0].ID != p.ID || all[0].H1 != p.H1 {
		return fmt.Errorf("%s has another package in the object for %s", from, p.H1)
	}
	contents, err := e.Next()
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err := im.accept(ctx, []sources.Stored{im.into.Foresee(ctx, p.ID, p.H1, claimsOf(contents.Packages[0], from))}); err != nil {
		return err
	}
	return im.take(ctx, contents, opened{Reader: e, name: from})
}

// received is the file to which an object is downloaded.
type received struct {
	file    *os.File
	arrived func(int64)
	have    int64
}

func (r *received) Write(p []byte) (int, error) {
	n, err := r.file.Write(p)
	r.have += int64(n)
	r.arrived(int64(n))
	return n, err
}

// Begin implements [fetch.Stage].
func (r *received) Begin(string) error {
	r.arrived(-r.have)
	r.have = 0
	_, err := r.file.Seek(0, io.SeekStart)
	return cmp.Or(r.file.Truncate(0), err)
}

// Resume implements [fetch.Stage]: there is nothing from earlier runs.
func (r *received) Resume() (int64, string) { return 0, "" }

// Spool implements [fetch.Stage].
func (r *received) Spool() (sources.Spool, error) { return nil, errors.ErrUnsupported }
