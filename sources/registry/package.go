package registry

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A packageDocument is the registry's description of a package.
type packageDocument struct {
	Protocols    []string
	OS           string
	Arch         string
	Filename     string
	DownloadURL  string `json:"download_url"`
	Shasum       string
	SumsURL      string `json:"shasums_url"`
	SignatureURL string `json:"shasums_signature_url"`
	SigningKeys  struct {
		GPG []struct {
			Armor          string `json:"ascii_armor"`
			TrustSignature string `json:"trust_signature"`
		} `json:"gpg_public_keys"`
	} `json:"signing_keys"`
	Packages json.RawMessage // from OpenTofu's registry; may be anything in other registries

	sums, signature *url.URL // of SumsURL and SignatureURL, after read
}

// Package returns a package with its signed checksums. Errors have the type
// *sources.PackageError. They wrap a *ProtocolError if no engine supports the
// package.
func (r *Registry) Package(ctx context.Context, id sources.PackageID) (p sources.Package, err error) {
	defer func() {
		if err != nil {
			source := fetch.Answering(name(id.Provider.Host), err)
			p, err = sources.Package{}, &sources.PackageError{ID: id, Source: source, Err: err}
		}
	}()
	path := fmt.Sprintf("%s/%s/%s/download/%s/%s",
		id.Provider.Namespace, id.Provider.Type, id.Version, id.Platform.OS, id.Platform.Arch)
	var d packageDocument
	_, err = r.get(ctx, id.Provider.Host, path, func(doc *fetch.Document) (err error) {
		p, err = d.parse(doc, id, r.opts.Engine)
		return err
	})
	protocol, unsupported := errors.AsType[*ProtocolError](err)
	switch {
	case errors.Is(err, sources.ErrNotFound):
		return p, r.missing(ctx, id, err)
	case unsupported:
		return p, r.suggestVersion(ctx, id, protocol, err)
	case err != nil:
		return p, err
	}
	located := p
	located.Signed = nil
	sources.Located(ctx, located)
	return p, r.fetchSigned(ctx, p.Signed, d.sums, d.signature)
}

// parse checks a document in the same order as engines, so that a
// document with two errors fails with the same one.
func (d *packageDocument) parse(
	doc *fetch.Document, id sources.PackageID, engine sources.Engine,
) (p sources.Package, err error) {
	if err = doc.JSON(d); err == nil && d.OS+d.Arch == "" {
		err = doc.Refusal("the description of a package")
	}
	if err == nil {
		p, err = d.read(doc.URL, id, engine)
		err = doc.Wrap(err)
	}
	return p, err
}

// read checks the document from the URL from.
func (d *packageDocument) read(
	from *url.URL, id sources.PackageID, engine sources.Engine,
) (p sources.Package, err error) {
	if err := checkProtocols(d.Protocols); err != nil {
		return p, err
	}
	if d.OS+d.Arch == "" {
		return p, errors.New("the document describes no package")
	}
	if d.OS != id.Platform.OS || d.Arch != id.Platform.Arch {
		return p, fmt.Errorf("requested %s, got a package for %q, %q", id.Platform, d.OS, d.Arch)
	}
	if err := checkFilename(d.Filename); err != nil {
		return p, err
	}
	at, err := resolve(from, "download_url", d.DownloadURL)
	if err != nil {
		return p, err
	}
	sum, err := parseSum(d.Shasum)
	if err != nil {
		return p, err
	}
	if d.sums, err = resolve(from, "shasums_url", d.SumsURL); err != nil {
		return p, err
	}
	if d.signature, err = resolve(from, "shasums_signature_url", d.SignatureURL); err != nil {
		return p, err
	}
	p = sources.Package{
		ID:       id,
		Location: sources.Location{URL: at.String()},
		Filename: d.Filename,
		Hashes:   []sources.Hash{sources.ZipHash(sum)},
		Signed:   &sources.Signed{Keys: d.keys(), Origin: fetch.Redact(d.sums.String())},
		Source:   name(id.Provider.Host),
		Kind:     sources.FromRegistry,
	}
	if engine == sources.OpenTofu {
		err = d.readOffers(&p)
	}
	return p, err
}

func resolve(base *url.URL, member, ref string) (*url.URL, error) {
	u, err := fetch.Resolve(base, ref)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return u, nil
}

// checkFilename checks the archive's name for messages and records. The name
// may have any format, because it is only looked up among the checksums.
func checkFilename(s string) error {
	if s == "" || len(s) > maxFilename || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		shown, _, _ := strings.Cut(s, "?") // the rest may be a secret
		return fmt.Errorf("filename %.80q is not the name of a file", shown)
	}
	return nil
}

func parseSum(s string) (sum [32]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(sum) {
		return sum, fmt.Errorf("shasum %.80q is not a SHA-256 sum", s)
	}
	return [32]byte(b), nil
}

// keys returns the listed keys without empty or null entries.
func (d *packageDocument) keys() []sources.Key {
	var keys []sources.Key
	for _, k := range d.SigningKeys.GPG {
		if key := (sources.Key{Armor: k.Armor, TrustSignature: k.TrustSignature}); key != (sources.Key{}) {
			keys = append(keys, key.AsListed(true))
		}
	}
	return keys
}

// An offer is the description of one platform's package in OpenTofu's registry.
type offer struct {
	Hashes []sources.Hash
	Size   int64 `json:"package_size"`
}

// readOffers reads the offers for all platforms, if there are any. It sets the
// size and the h1: hash of p, the hashes of all platforms, and those of the
// other platforms.
func (d *packageDocument) readOffers(p *sources.Package) error {
	var offers map[string]offer
	if len(d.Packages) == 0 {
		return nil
	}
	if err := json.Unmarshal(d.Packages, &offers); err != nil {
		return errors.New("packages: not an object of packages")
	}
	if len(offers) == 0 {
		return nil
	}
	own, ok := offers[p.ID.Platform.String()]
	if !ok {
		return fmt.Errorf("packages: %s is missing", p.ID.Platform)
	}
	if err := own.check(p.Hashes[0]); err != nil {
		return fmt.Errorf("packages: %s: %w", p.ID.Platform, err)
	}
	p.Size = own.Size
	if contents := sources.HashesOf(sources.H1, own.Hashes); len(contents) == 1 {
		p.Stated = contents[0]
	}
	for _, platform := range slices.Sorted(maps.Keys(offers)) {
		if _, err := sources.ParsePlatform(platform); err != nil {
			return fmt.Errorf("packages: %w", err)
		}
		for _, hash := range offers[platform].Hashes {
			if _, err := sources.ParseHash(string(hash)); err != nil {
				return fmt.Errorf("packages: %s: %w", platform, err)
			}
			if p.Offered = append(p.Offered, hash); platform != p.ID.Platform.String() {
				p.Others = append(p.Others, hash)
			}
		}
	}
	p.Offered, p.Others = sources.SortHashes(p.Offered), sources.SortHashes(p.Others)
	return nil
}

// check checks that the offer is consistent with the archive's hash.
func (o offer) check(zh sources.Hash) error {
	archives := sources.HashesOf(sources.ZH, o.Hashes)
	switch {
	case o.Size <= 0:
		return fmt.Errorf("invalid size %d", o.Size)
	case slices.ContainsFunc(archives, func(h sources.Hash) bool { return h != zh }):
		return errors.New("hash differs from shasum")
	case len(archives) == 0:
		return fmt.Errorf("no %s: hash", sources.ZH)
	}
	return nil
}

// fetchSigned fetches the checksums and their signature.
func (r *Registry) fetchSigned(ctx context.Context, s *sources.Signed, sums, signature *url.URL) error {
	group, ctx := errgroup.WithContext(ctx)
	get := func(what string, u *url.URL, limit int64, body *[]byte) {
		group.Go(func() (err error) {
			*body, err = r.signed.Get(ctx, u.String(), func() ([]byte, error) { return r.evidence(ctx, u, limit) })
			if err != nil {
				return fmt.Errorf("fetching %s: %w", what, err)
			}
			return nil
		})
	}
	get("checksums", sums, sources.MaxSums, &s.Sums)
	get("signature", signature, maxSignature, &s.Signature)
	return group.Wait()
}

// evidence fetches a file without credentials, because it may be on any server.
func (r *Registry) evidence(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	doc, err := r.client.Document(ctx, fetch.Request{URL: u.String(), Limit: limit, Plain: true})
	if err != nil {
		return nil, err
	}
	return doc.Body, doc.Refusal("checksums or a signature")
}

// missing makes the error for a missing package more precise. Only the list of
// versions distinguishes a version that does not exist from one without a
// package for the platform.
func (r *Registry) missing(ctx context.Context, id sources.PackageID, answer error) error {
	var absent *fetch.AbsentError
	if !errors.As(answer, &absent) {
		return answer // an error of service discovery
	}
	noPlatform := &fetch.AbsentError{Answer: absent.Answer, Err: sources.ErrNoPlatform}
	var detail sources.Detail
	var listed bool
	_, err := r.versions(ctx, id.Provider, func(d *versionsDocument) { detail, listed = d.details()[id.Version] })
	switch {
	case errors.Is(err, sources.ErrNotFound):
		return err
	case err != nil:
		return noPlatform
	case !listed:
		return answer
	case slices.Contains(detail.Platforms, id.Platform):
		return sources.WithHint(noPlatform, "the registry lists %s for %s, but returns 404 for it: "+
			"report this to the registry's operator", id.Release(), id.Platform)
	case len(detail.Platforms) > 0:
		there := strings.Join(sources.Texts(detail.Platforms), ", ")
		return sources.WithHint(noPlatform, "the registry has %s for %s", id.Release(), fetch.Printable(there))
	}
	return noPlatform
}
