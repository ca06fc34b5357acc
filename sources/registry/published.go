package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// The protocol of registries has no publication times. They are in the documents that the websites of the two public
// registries show, and that other registries may have too.

const (
	maxPublished   = 16 << 20 // in bytes; the document of hashicorp/aws has several hundred kilobytes
	publishedTries = 2        // every install waits for the document, and none fails without it
)

// tofuDocuments has the documents of registry.opentofu.org.
var tofuDocuments = &url.URL{Scheme: "https", Host: "api.opentofu.org"}

// Published returns when p's versions were published, as p's registry states it over TLS. Versions whose time isn't
// stated are left out. If the registry has no document with times, the error matches [sources.ErrUndated].
func (r *Registry) Published(ctx context.Context, p sources.Provider) (map[sources.Version]time.Time, error) {
	request, err := r.publishedAt(ctx, p)
	if err != nil {
		return nil, err
	}
	var times map[sources.Version]time.Time
	request.Read = func(doc *fetch.Document) error {
		times = publishedTimes(doc)
		return nil
	}
	doc, err := r.client.Document(ctx, request)
	switch status := (*fetch.StatusError)(nil); {
	case errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone):
		return nil, fmt.Errorf("%w: %w", sources.ErrUndated, err)
	case err != nil:
		return nil, err
	case doc.URL.Scheme != "https":
		return nil, fmt.Errorf("%s: no TLS", doc.URL)
	case len(times) == 0: // a login page, or a fault
		return nil, fmt.Errorf("%s: no publication times in the document", doc.URL)
	}
	return times, nil
}

// publishedAt returns the request for the document with p's publication times.
func (r *Registry) publishedAt(ctx context.Context, p sources.Provider) (request fetch.Request, err error) {
	base, err := r.Discover(ctx, p.Host)
	if err != nil {
		return request, err
	}
	if base.Scheme != "https" {
		return request, fmt.Errorf("%s: no TLS", base)
	}
	at, own := &url.URL{Scheme: base.Scheme, Host: base.Host}, true
	if p.Host == sources.OpenTofu.DefaultHost() {
		if _, configured := r.opts.Services[p.Host]; !configured && base.Host == p.Host.ASCII() {
			at, own = tofuDocuments, false
		}
		at = at.JoinPath("registry", "docs", "providers", p.Namespace, p.Type, "index.json")
	} else {
		at.Path, at.RawQuery = "/v2/providers/"+p.Namespace+"/"+p.Type, "include=provider-versions"
	}
	request = fetch.Request{URL: at.String(), Limit: maxPublished, Tries: publishedTries, For: p.Host}
	if own {
		request.Credentials, request.TokenOf = true, r.tokenOf(p.Host)
	}
	return request, nil
}

// publishedTimes reads the times in a document of either public registry. It skips what is invalid. If a version is
// there twice, its later time applies.
func publishedTimes(doc *fetch.Document) map[sources.Version]time.Time {
	var d struct {
		Included []json.RawMessage // of registry.terraform.io
		Versions []json.RawMessage // of registry.opentofu.org
	}
	if doc.JSON(&d) != nil {
		return nil
	}
	items, times := slices.Concat(d.Included, d.Versions), map[sources.Version]time.Time{}
	for _, text := range items[:min(len(items), maxReleases)] {
		var item struct {
			ID, Published string
			Type          string
			Attributes    struct {
				Version   string
				Published string `json:"published-at"`
			}
		}
		_ = json.Unmarshal(text, &item) // an invalid one states no time
		version, published := item.ID, item.Published
		if item.Type == "provider-versions" {
			version, published = item.Attributes.Version, item.Attributes.Published
		}
		v, err := sources.ParseVersion(strings.TrimPrefix(version, "v"))
		at, timeErr := time.Parse(time.RFC3339, published)
		if err == nil && timeErr == nil && at.After(times[v]) {
			times[v] = at.UTC()
		}
	}
	return times
}
