package publish

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/bucket"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/store"
)

// ErrUnlisted matches the error of a place that can't list its providers.
var ErrUnlisted = oci.ErrUnlisted

// A Browser lists the contents of a place. It does not read archives.
type Browser interface {
	sources.Source

	// Providers returns the providers, sorted. The error matches [ErrUnlisted] if the place can't list them.
	Providers(ctx context.Context) ([]sources.Provider, error)

	// Hostless reports whether the place doesn't distinguish the hosts of providers. Then a [sources.Holding] may state
	// another host.
	Hostless() bool

	// Release returns what the place has of a release. The error matches [sources.ErrNotFound] if it has nothing.
	Release(ctx context.Context, p sources.Provider, v sources.Version) (sources.Holding, error)
}

// Examine returns what is wrong with an archive in its place, or nil: it isn't there, or has another size than the
// documents state. It reads no more than its beginning.
func Examine(ctx context.Context, client *fetch.Client, a sources.HeldArchive) (*store.Finding, error) {
	size, err := client.Peek(ctx, a.URL)
	err = fetch.Absent(err)
	switch {
	case errors.Is(err, sources.ErrNotFound):
		return &store.Finding{Kind: store.Missing, Err: errors.New("the place has no archive there")}, nil
	case err == nil && a.Size > 0 && size >= 0 && size != a.Size:
		err = fmt.Errorf("%s: the archive has %d bytes, and not %d", fetch.Redact(a.URL), size, a.Size)
		return &store.Finding{Kind: store.Broken, Err: err}, nil
	}
	return nil, err
}

// BrowseNetwork returns the providers of a network mirror, which can't list them.
func BrowseNetwork(m *netmirror.Mirror) Browser { return &networkBrowser{m} }

type networkBrowser struct{ *netmirror.Mirror }

func (b *networkBrowser) Hostless() bool { return false }

func (b *networkBrowser) Providers(context.Context) ([]sources.Provider, error) {
	return nil, sources.WithHint(ErrUnlisted,
		"network mirrors don't list their providers: add their addresses, such as hashicorp/aws")
}

// BrowseBucket returns the providers in a bucket, whose documents m reads.
func BrowseBucket(b *bucket.Bucket, m *netmirror.Mirror) Browser {
	return &bucketBrowser{networkBrowser: networkBrowser{m}, in: b}
}

type bucketBrowser struct {
	networkBrowser
	in    *bucket.Bucket
	sizes sources.Memo[sources.Provider, directory]
}

// Providers returns the directories with an index.
func (b *bucketBrowser) Providers(ctx context.Context) (all []sources.Provider, err error) {
	err = b.in.List(ctx, "", func(info bucket.Info) error {
		parts := strings.Split(info.Name, "/")
		if len(parts) != 4 || parts[3] != fsmirror.Index {
			return nil
		}
		host, err := sources.ParsePunycodeHost(parts[0])
		if err != nil {
			return nil //nolint:nilerr // it is no directory of a provider
		}
		if p, err := sources.ParseProvider(string(host)+"/"+parts[1]+"/"+parts[2], sources.Terraform); err == nil {
			all = append(all, p)
		}
		if len(all) > maxListed {
			return tooMany(b.in, "")
		}
		return nil
	})
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all), err
}

// Release takes the sizes of archives from the list of objects.
func (b *bucketBrowser) Release(ctx context.Context, p sources.Provider, v sources.Version) (sources.Holding, error) {
	c, err := b.networkBrowser.Release(ctx, p, v)
	if err != nil {
		return c, err
	}
	listed, err := b.sizes.Get(ctx, p, func() (directory, error) {
		listed, err := list(ctx, b.in, home(p))
		if errors.Is(err, fetch.ErrUnauthorized) {
			err = nil // then sizes are unknown
		}
		return listed, err
	})
	root := b.in.URL(home(p))
	for platform, a := range c.Archives {
		if u, err := url.Parse(a.URL); err == nil && u.Host == root.Host {
			a.Size = listed[strings.TrimPrefix(u.Path, root.Path)].Size
			c.Archives[platform] = a
		}
	}
	return c, err
}
