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

// A packageDocument is the answer to where a package is.
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
	Packages json.RawMessage // OpenTofu's, and anything at all elsewhere
}

// locate finds a package and the evidence for it.
func (r *Registry) locate(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	path := fmt.Sprintf("%s/%s/%s/download/%s/%s",
		id.Provider.Namespace, id.Provider.Type, id.Version, id.Platform.OS, id.Platform.Arch)
	doc, err := r.get(ctx, id.Provider.Host, path, maxPackage)
	if errors.Is(err, sources.ErrNotFound) {
		return sources.Package{}, r.missing(ctx, id, err)
	}
	if err != nil {
		return sources.Package{}, err
	}
	p, urls, err := parsePackage(doc, id, r.opts.Engine)
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		return sources.Package{}, r.suggestVersion(ctx, id, protocol)
	}
	if err != nil {
		return sources.Package{}, err
	}
	return p, r.fetchSigned(ctx, p.Signed, urls)
}

// evidenceURLs are where the signed checksums are.
type evidenceURLs struct{ sums, signature *url.URL }

// parsePackage checks a document, in the order in which engines do, so that a
// document with two faults is refused for the same one.
func parsePackage(doc *fetch.Document, id sources.PackageID, engine sources.Engine) (sources.Package, evidenceURLs, error) {
	var d packageDocument
	p, urls, err := sources.Package{}, evidenceURLs{}, doc.JSON(&d)
	if err == nil && d.OS+d.Arch == "" {
		err = doc.Refusal("the description of a package")
	}
	if err != nil {
		return p, urls, err
	}
	if p, urls, err = d.read(doc.URL, id, engine); err != nil {
		return p, urls, fmt.Errorf("%s: %w", fetch.Redact(doc.URL.String()), err)
	}
	return p, urls, nil
}

// read checks the document that the URL from answered with.
func (d *packageDocument) read(from *url.URL, id sources.PackageID, engine sources.Engine) (p sources.Package, urls evidenceURLs, err error) {
	if err := checkProtocols(d.Protocols); err != nil {
		return p, urls, err
	}
	if d.OS != id.Platform.OS || d.Arch != id.Platform.Arch {
		return p, urls, fmt.Errorf("requested %s, got a package for %q, %q", id.Platform, d.OS, d.Arch)
	}
	if err := checkFilename(d.Filename); err != nil {
		return p, urls, err
	}
	at, err := resolve(from, "download_url", d.DownloadURL)
	if err != nil {
		return p, urls, err
	}
	sum, err := parseSum(d.Shasum)
	if err != nil {
		return p, urls, err
	}
	if urls.sums, err = resolve(from, "shasums_url", d.SumsURL); err != nil {
		return p, urls, err
	}
	if urls.signature, err = resolve(from, "shasums_signature_url", d.SignatureURL); err != nil {
		return p, urls, err
	}
	p = sources.Package{
		ID:       id,
		Location: sources.Location{URL: at.String()},
		Filename: d.Filename,
		Hashes:   []sources.Hash{sources.ZipHash(sum)},
		Signed:   &sources.Signed{Keys: d.keys(), Origin: fetch.Redact(urls.sums.String())},
		Source:   name(id.Provider.Host),
		Kind:     sources.FromRegistry,
	}
	if engine == sources.OpenTofu {
		err = d.readOffers(&p)
	}
	return p, urls, err
}

func resolve(base *url.URL, member, ref string) (*url.URL, error) {
	u, err := fetch.Resolve(base, ref)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return u, nil
}

// checkFilename checks what messages and records will call the archive. Any
// scheme will do, as it is only looked up among the checksums.
func checkFilename(s string) error {
	if s == "" || len(s) > maxFilename || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("filename %.80q is not the name of a file", s)
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

// keys are the keys listed, but for entries that are empty or null.
func (d *packageDocument) keys() []sources.Key {
	var keys []sources.Key
	for _, k := range d.SigningKeys.GPG {
		if key := (sources.Key{Armor: k.Armor, TrustSignature: k.TrustSignature}); key != (sources.Key{}) {
			keys = append(keys, key.AsListed(true))
		}
	}
	return keys
}

// An offer is what OpenTofu's registry says of the package for one platform.
type offer struct {
	Hashes []string
	Size   int64 `json:"package_size"`
}

// readOffers reads the offers for all platforms, if there are any: the size of
// p and its h1: hash, the hashes of all and those of the others.
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
	p.Size, p.Stated = own.Size, own.h1()
	var err error
	if p.Offered, err = allHashes(offers); err != nil {
		return err
	}
	delete(offers, p.ID.Platform.String())
	p.Others, err = allHashes(offers)
	return err
}

// h1 is the hash of the contents, if the offer has just one.
func (o offer) h1() sources.Hash {
	var found sources.Hash
	for _, text := range o.Hashes {
		hash, err := sources.ParseHash(text)
		switch {
		case err != nil || hash.Scheme() != sources.H1:
		case found != "":
			return ""
		default:
			found = hash
		}
	}
	return found
}

// check checks that the offer agrees with the archive's hash.
func (o offer) check(zh sources.Hash) error {
	if o.Size <= 0 {
		return fmt.Errorf("size of %d", o.Size)
	}
	found := false
	for _, text := range o.Hashes {
		if sources.Hash(text).Scheme() == sources.ZH {
			found = true
			if !strings.EqualFold(text, string(zh)) {
				return errors.New("hash differs from shasum")
			}
		}
	}
	if !found {
		return fmt.Errorf("no %s: hash", sources.ZH)
	}
	return nil
}

// allHashes are those of all platforms, sorted, each once.
func allHashes(offers map[string]offer) ([]sources.Hash, error) {
	var all []sources.Hash
	for _, platform := range slices.Sorted(maps.Keys(offers)) {
		if _, err := sources.ParsePlatform(platform); err != nil {
			return nil, fmt.Errorf("packages: %w", err)
		}
		for _, text := range offers[platform].Hashes {
			hash, err := sources.ParseHash(text)
			if err != nil {
				return nil, fmt.Errorf("packages: %s: %w", platform, err)
			}
			all = append(all, hash)
		}
	}
	return sources.SortHashes(all), nil
}

// fetchSigned fetches the checksums and the signature.
func (r *Registry) fetchSigned(ctx context.Context, s *sources.Signed, urls evidenceURLs) error {
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
	get("checksums", urls.sums, maxSums, &s.Sums)
	get("signature", urls.signature, maxSignature, &s.Signature)
	return group.Wait()
}

// evidence fetches without credentials, as evidence may be anywhere.
func (r *Registry) evidence(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	doc, err := r.client.Document(ctx, fetch.Request{URL: u.String(), Limit: limit, Plain: true})
	if err != nil {
		return nil, err
	}
	return doc.Body, doc.CheckText("checksums or a signature")
}

// missing makes the answer that a package is not there more exact: only the list of
// versions distinguishes a version that does not exist from one that is not built for the
// platform.
func (r *Registry) missing(ctx context.Context, id sources.PackageID, answer error) error {
	var absent *fetch.AbsentError
	if !errors.As(answer, &absent) {
		return answer // by service discovery
	}
	noPlatform := &fetch.AbsentError{Answer: absent.Answer, Err: sources.ErrNoPlatform}
	doc, err := r.versions(ctx, id.Provider)
	if errors.Is(err, sources.ErrNotFound) {
		return err
	}
	if err != nil {
		return noPlatform
	}
	release, ok := doc.release(id.Version)
	if !ok {
		return answer
	}
	platforms := release.platforms()
	switch {
	case slices.Contains(platforms, id.Platform.String()):
		return sources.WithHint(noPlatform, "the registry lists %s for %s, but returns 404 for it: report this to the registry's operator", id.Version, id.Platform)
	case len(platforms) > 0:
		return sources.WithHint(noPlatform, "the registry has %s for %s", id.Version, fetch.Printable(strings.Join(platforms, ", ")))
	}
	return noPlatform
}
