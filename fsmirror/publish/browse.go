package publish

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/oci"
)

// ErrUnlisted matches the error of a place that can't list its providers.
var ErrUnlisted = oci.ErrUnlisted

// A Browser reads what a place has, without its archives.
type Browser interface {
	sources.Source

	// Providers returns the providers, sorted. The error matches [ErrUnlisted] if the place can't list them.
	Providers(ctx context.Context) ([]sources.Provider, error)

	// Hostless reports whether the place doesn't distinguish the hosts of providers. Then [Contents] may state another host.
	Hostless() bool

	// Read returns what the place has of a release. The error matches [sources.ErrNotFound] if it has nothing.
	Read(ctx context.Context, r sources.Release) (Contents, error)
}

// Contents are what a place has of a release.
type Contents struct {
	Provider sources.Provider // as the place states it, or else as it was asked about
	Archives map[sources.Platform]Archive
	Signed   *sources.Signed // nil if there is none
	Warnings []string
}

// An Archive is an archive in a place.
type Archive struct {
	URL    string
	Hashes []sources.Hash // that the place states
	Size   int64          // in bytes; 0 if unknown
}

// Exists returns an error if an archive isn't in its place, or has another size. It doesn't read it. The error matches
// [sources.ErrNotFound] if there is none.
func (a Archive) Exists(ctx context.Context, client *fetch.Client) error {
	reply, err := client.Do(ctx, fetch.Write{Method: http.MethodHead, URL: a.URL})
	if err != nil {
		return fetch.Absent(err)
	}
	size, err := strconv.ParseInt(reply.Header.Get("Content-Length"), 10, 64)
	if err == nil && reply.Status == http.StatusOK && a.Size > 0 && size != a.Size {
		return reply.Wrap(&SizeError{Is: size, Stated: a.Size})
	}
	return nil
}

// A SizeError is an archive with another size than its place states, in bytes.
type SizeError struct{ Is, Stated int64 }

func (e *SizeError) Error() string {
	return "the archive has " + strconv.FormatInt(e.Is, 10) + " bytes, and not " + strconv.FormatInt(e.Stated, 10)
}

// BrowseOCI returns the providers in OCI registries. Host is that of the providers, if the template doesn't contain it.
func BrowseOCI(m *oci.Mirror, host sources.Host) Browser { return &ociBrowser{m, host} }

type ociBrowser struct {
	*oci.Mirror
	host sources.Host
}

func (b *ociBrowser) Hostless() bool { return !b.Template().HasHost() }

func (b *ociBrowser) Providers(ctx context.Context) ([]sources.Provider, error) {
	return b.Mirror.Providers(ctx, b.host)
}

func (b *ociBrowser) Read(ctx context.Context, r sources.Release) (Contents, error) {
	release, err := b.Release(ctx, r.Provider, r.Version)
	c := Contents{Provider: release.Provider, Archives: map[sources.Platform]Archive{}, Signed: release.Signed, Warnings: release.Warnings}
	for platform, a := range release.Archives {
		c.Archives[platform] = Archive{URL: a.URL, Hashes: []sources.Hash{a.Hash}, Size: a.Size}
	}
	return c, err
}

// BrowseNetwork returns the providers of a network mirror, which can't list them.
func BrowseNetwork(m *netmirror.Mirror) Browser { return &networkBrowser{m} }

type networkBrowser struct{ *netmirror.Mirror }

func (b *networkBrowser) Hostless() bool { return false }

func (b *networkBrowser) Providers(context.Context) ([]sources.Provider, error) {
	return nil, sources.WithHint(ErrUnlisted, "network mirrors don't list their providers: name them, such as hashicorp/aws")
}

func (b *networkBrowser) Read(ctx context.Context, r sources.Release) (Contents, error) {
	release, err := b.Release(ctx, r.Provider, r.Version)
	c := Contents{Provider: r.Provider, Archives: map[sources.Platform]Archive{}, Signed: release.Signed, Warnings: release.Warnings}
	for platform, a := range release.Archives {
		c.Archives[platform] = Archive{URL: a.URL, Hashes: a.Hashes}
	}
	return c, err
}

// BrowseBucket returns the providers in a bucket, whose documents m reads.
func BrowseBucket(b *bucket.Bucket, m *netmirror.Mirror) Browser {
	return &bucketBrowser{networkBrowser: networkBrowser{m}, in: b, sizes: map[string]func() map[string]int64{}}
}

type bucketBrowser struct {
	networkBrowser
	in *bucket.Bucket

	mu    sync.Mutex
	sizes map[string]func() map[string]int64 // of objects, by their directory HOST/NAMESPACE/TYPE/ and then by their name
}

// Providers returns the directories with an index.
func (b *bucketBrowser) Providers(ctx context.Context) (all []sources.Provider, err error) {
	sizes := map[string]map[string]int64{}
	for info, err := range b.in.List(ctx, "") {
		if err != nil && info.Name == "" {
			return nil, err
		}
		parts := strings.Split(info.Name, "/")
		if len(parts) < 4 {
			continue
		}
		dir := strings.Join(parts[:3], "/") + "/"
		if sizes[dir] == nil {
			sizes[dir] = map[string]int64{}
		}
		sizes[dir][info.Name] = info.Size
		if len(parts) > 4 || parts[3] != indexName {
			continue
		}
		host, err := sources.ParsePunycodeHost(parts[0])
		if err != nil {
			continue
		}
		if p, err := sources.ParseProvider(string(host)+"/"+parts[1]+"/"+parts[2], sources.Terraform); err == nil {
			all = append(all, p)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for dir, known := range sizes {
		b.sizes[dir] = func() map[string]int64 { return known }
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all), nil
}

// Read takes the sizes of archives from the list of objects.
func (b *bucketBrowser) Read(ctx context.Context, r sources.Release) (Contents, error) {
	c, err := b.networkBrowser.Read(ctx, r)
	if len(c.Archives) == 0 {
		return c, err
	}
	sizes, root := b.sizesIn(ctx, home(r.Provider)), b.in.URL("")
	for platform, a := range c.Archives {
		if u, err := url.Parse(a.URL); err == nil && u.Host == root.Host {
			a.Size = sizes[strings.TrimPrefix(u.Path, root.Path)]
			c.Archives[platform] = a
		}
	}
	return c, err
}

// sizesIn returns the sizes of the objects in a directory. They are unknown if the store refuses to list it.
func (b *bucketBrowser) sizesIn(ctx context.Context, dir string) map[string]int64 {
	b.mu.Lock()
	list := b.sizes[dir]
	if list == nil {
		list = sync.OnceValue(func() map[string]int64 {
			sizes := map[string]int64{}
			for info, err := range b.in.List(ctx, dir) {
				if err == nil {
					sizes[info.Name] = info.Size
				}
			}
			return sizes
		})
		b.sizes[dir] = list
	}
	b.mu.Unlock()
	return list()
}
