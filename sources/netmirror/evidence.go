package netmirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// evidence fetches the evidence that a VERSION.json refers to.
// Without a reference it sends no request. If the evidence cannot be fetched or
// read, it is ignored with a warning, because no package requires it.
func (m *Mirror) evidence(
	ctx context.Context, doc *fetch.Document, version version, v sources.Version,
) (*sources.Signed, []string) {
	signed, err := m.tryEvidence(ctx, doc, version)
	if err != nil {
		return nil, []string{fmt.Sprintf("the mirror's evidence for %s is ignored: %v", v, err)}
	}
	return signed, nil
}

func (m *Mirror) tryEvidence(ctx context.Context, doc *fetch.Document, version version) (*sources.Signed, error) {
	var larder evidence.Extension
	if len(version.Larder) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(version.Larder, &larder); err != nil {
		return nil, doc.Wrap(err)
	}
	if larder.Evidence == nil {
		return nil, nil
	}
	urls, err := larder.Evidence.Resolve(doc.URL)
	if err != nil {
		return nil, doc.Wrap(err)
	}
	return m.signed.Get(ctx, fmt.Sprint(urls[0], larder.Evidence.SHA256), func() (*sources.Signed, error) {
		return m.fetchEvidence(ctx, urls, larder.Evidence)
	})
}

// fetchEvidence fetches the files concurrently. The requests contain the
// mirror's token, unless VERSION.json was redirected to another host.
func (m *Mirror) fetchEvidence(
	ctx context.Context, urls [len(evidence.Names)]*url.URL, ref *evidence.Location,
) (*sources.Signed, error) {
	var files evidence.Files
	group, ctx := errgroup.WithContext(ctx)
	for i, at := range urls {
		group.Go(func() error {
			doc, err := m.client.Document(ctx, fetch.Request{
				URL:         at.String(),
				Limit:       evidence.Max,
				Redirects:   redirects,
				SameHost:    true,
				Credentials: at.Scheme == m.base.Scheme && at.Host == m.base.Host,
			})
			if err != nil {
				return err
			}
			files[i] = doc.Body
			return ref.Check(evidence.Names[i], doc.Body)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s, err := files.Signed()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", evidence.Names[1], err)
	}
	return s, nil
}

// Approvals implements [sources.Approver].
func (m *Mirror) Approvals(ctx context.Context, id sources.PackageID, zh sources.Hash) ([]sources.Signer, error) {
	set, err := m.set.Get(ctx, struct{}{}, func() (*trust.Set, error) { return m.fetchSet(ctx) })
	return set.Approvals(id, zh), err
}

// fetchSet fetches and verifies the signed set of the mirror. It is nil if there is none.
func (m *Mirror) fetchSet(ctx context.Context) (*trust.Set, error) {
	set, err := trust.ReadSet(ctx, evidence.SetPath, func(name string) ([]byte, error) {
		doc, err := m.client.Document(ctx, fetch.Request{
			URL: m.base.ResolveReference(&url.URL{Path: name}).String(), Limit: evidence.MaxSet, Redirects: redirects,
			SameHost: true, Credentials: true,
		})
		if err != nil {
			return nil, fetch.Absent(err)
		}
		return doc.Body, nil
	})
	if errors.Is(err, sources.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("the signed set: %w", err)
		err = sources.WithLastHint(err, "on the server, mirror verify DIR shows how to repair the signed set")
	}
	return set, err
}
