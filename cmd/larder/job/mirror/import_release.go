package mirror

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// vouch adds the evidence that builds of providers have beside their archives. It signs what has none.
func (im *importing) vouch(ctx context.Context, candidates []legacy.Candidate) error {
	releases, err := legacy.Releases(candidates)
	if err != nil {
		return err
	}
	public, err := im.readKey(im.request.Key, len(releases))
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	private, err := im.readKey(im.request.SignKey, len(releases))
	if err != nil {
		return fmt.Errorf("--sign-key: %w", err)
	}
	var errs []error
	for _, r := range releases {
		signed, err := im.evidence(ctx, r, public, private)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.SumsPath, err))
		}
		for _, c := range r.Archives {
			c.Signed = signed
		}
	}
	return errors.Join(errs...)
}

// hintKeys replaces the hints about sources in the errors for packages without a signature.
func hintKeys(err error) error {
	errs := sources.Errors(err)
	for i, err := range errs {
		if e, ok := errors.AsType[*trust.NotSignedError](err); ok && e.Err == nil && e.Verdict < sources.MirrorEvidence {
			errs[i] = sources.WithHint(errors.New(sources.Text(err)),
				"put the signed SHA256SUMS beside the zip file and use --key, or sign it with --sign-key")
		}
	}
	return errors.Join(errs...)
}

// readKey reads the file of a key, unless its name is empty. It fails if there is no release that the key is for.
func (im *importing) readKey(typed string, releases int) (string, error) {
	if typed == "" {
		return "", nil
	}
	text, err := readKey(im.Dir, typed)
	if err == nil && releases == 0 {
		return "", sources.WithHint(errors.New("there is no build of a provider"),
			"keys are for published zip files, such as terraform-provider-thing_1.2.0_linux_amd64.zip, "+
				"that aren't in a mirror yet")
	}
	return text, err
}

// evidence returns the evidence for a release, or nil if nothing vouches for it, or if the mirror has signed
// checksums for what it has none.
func (im *importing) evidence(ctx context.Context, r *legacy.Release, public, private string) (*sources.Signed, error) {
	switch {
	case r.Signature != nil && r.Sums == nil:
		return nil, errors.New("there is a signature, but no checksums")
	case r.Signature != nil && public == "":
		err := errors.New("it is signed, but the key is not known")
		return nil, sources.WithHint(err,
			"name the file of the publisher's public key with --key; gpg --armor --export writes it")
	case r.Signature == nil && private == "" && public == "":
		return nil, nil
	case r.Signature == nil && private == "":
		err := errors.New("there is no signature that --key could verify")
		return nil, sources.WithHint(err, "to sign the checksums, name the file of a private key with --sign-key")
	}
	held, err := im.held(ctx, r.Release)
	if err != nil {
		return nil, err
	}
	var signed *sources.Signed
	if r.Signature == nil {
		signed, err = im.sign(ctx, r, held, private)
	} else if key, keyErr := trust.PublicKey(public); keyErr != nil {
		err = fmt.Errorf("--key: %w", keyErr)
	} else {
		signed = &sources.Signed{Sums: r.Sums, Keys: []sources.Key{key}}
		signed.Signature, err = trust.Binary(r.Signature)
	}
	if err != nil || signed == nil {
		return nil, err
	}
	signed.Origin = r.SumsPath
	signed.Protocols = im.protocols(r)
	return signed, im.covers(r, signed.Sums, held)
}

// protocols returns the versions of the plugin protocol in the manifest of a release. If there are checksums, they must
// list the manifest.
func (im *importing) protocols(r *legacy.Release) []string {
	if r.Manifest == nil {
		return nil
	}
	var manifest struct {
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		}
	}
	err := json.Unmarshal(r.Manifest, &manifest)
	sums, sumsErr := trust.ParseSums(r.Sums)
	if r.Sums != nil && sumsErr == nil && !sums.Has(sources.ZipHash(sha256.Sum256(r.Manifest))) {
		err = errors.New("the checksums don't list it, or list a different file")
	}
	if err != nil {
		im.Output.WarnOf(fmt.Errorf("ignored %s: %w", r.ManifestPath(), err))
		return nil
	}
	return manifest.Metadata.Protocols
}

// held returns the hashes of the archives of a version in the mirror.
func (im *importing) held(ctx context.Context, r sources.Release) (map[sources.PackageID]sources.Hash, error) {
	hashes := map[sources.PackageID]sources.Hash{}
	if !im.exists {
		return hashes, nil
	}
	ids, err := im.store.PackagesOf(ctx, r.Provider)
	for _, id := range ids {
		if id.Version != r.Version {
			continue
		}
		s, err := im.store.Get(ctx, id)
		if err != nil && !errors.Is(err, sources.ErrNotFound) { // it is in the other layout
			return nil, err
		}
		if s.ZH != "" {
			hashes[id] = s.ZH
		}
	}
	return hashes, err
}

// sign signs the checksums of a release, and of what the mirror holds of its version, with a private key. It returns
// nil if the mirror has signed checksums for all archives: each new signature would be another one. Checksums beside
// the archives must be right.
func (im *importing) sign(
	ctx context.Context, r *legacy.Release, held map[sources.PackageID]sources.Hash, private string,
) (*sources.Signed, error) {
	listed, err := trust.ParseSums(r.Sums)
	if err != nil {
		return nil, err
	}
	hashes := maps.Clone(held) // there is only one file of checksums for all archives of the version
	for _, c := range r.Archives {
		zh, err := c.ZH(ctx)
		if err == nil && len(bytes.TrimSpace(r.Sums)) > 0 && !listed.Has(zh) {
			err = fmt.Errorf("it doesn't have the checksum of %s, which is %s", c.Path, zh)
		}
		if err != nil {
			return nil, err
		}
		hashes[c.ID] = zh
	}
	kept, _ := im.store.Evidence(r.Provider, r.Version)
	unproven := func(zh sources.Hash) bool {
		_, err := im.Judge().Prove(ctx, r.Provider, kept, zh)
		return err != nil
	}
	if kept != nil && !slices.ContainsFunc(slices.Collect(maps.Values(hashes)), unproven) {
		return nil, nil
	}
	sums, err := legacy.NewSums(hashes)
	if err != nil {
		return nil, err
	}
	signed, err := trust.Sign(sums, private)
	if err != nil {
		return nil, fmt.Errorf("--sign-key: %w", err)
	}
	return signed, nil
}

// covers fails if checksums for a release don't list an archive of this version that the mirror has, and keeps: clients
// would refuse it.
func (im *importing) covers(r *legacy.Release, sums []byte, held map[sources.PackageID]sources.Hash) error {
	listed, err := trust.ParseSums(sums)
	if err != nil {
		return err
	}
	if im.request.Replace {
		for _, c := range r.Archives {
			delete(held, c.ID)
		}
	}
	var errs []error
	for _, id := range slices.SortedFunc(maps.Keys(held), sources.PackageID.Compare) {
		if !listed.Has(held[id]) {
			err := fmt.Errorf("it doesn't have the checksum of the mirror's %s, which is %s", id.Filename(), held[id])
			const hint = "find out which package is right; import it with --replace, or remove that of the mirror first"
			errs = append(errs, sources.WithHint(err, hint))
		}
	}
	return errors.Join(errs...)
}

// prove verifies a candidate with the evidence that came with it, if any, merged with that in the mirror. News reports
// whether the mirror lacks the evidence. The error is why the candidate is refused.
func (im *importing) prove(ctx context.Context, c *legacy.Candidate) (news bool, err error) {
	given := c.Signed
	kept, err := im.store.Evidence(c.ID.Provider, c.ID.Version)
	switch {
	case errors.Is(err, sources.ErrNotFound), given != nil && err != nil:
		kept = nil
	case err != nil:
		return false, err
	}
	const elsewhere = "import it as a different version with --as, or into a different mirror"
	if c.Kind != legacy.Archive {
		if kept != nil && !im.request.Unpacked {
			err := fmt.Errorf("the mirror has signed checksums for %s, which cannot cover an archive that larder packs",
				c.ID.Release())
			return false, sources.WithHint(err, elsewhere)
		}
		return false, nil
	}
	if given == nil {
		c.Signed = kept
	}
	if c.Signed == nil {
		return false, nil
	}
	zh, err := c.ZH(ctx)
	if err != nil {
		return false, err
	}
	c.Proof, err = im.Judge().Prove(ctx, c.ID.Provider, c.Signed, zh)
	switch {
	case err != nil && given != nil: // without hints about the keys of a registry
		err = fmt.Errorf("checking it against %s: %s", given.Origin, sources.Text(err))
		return false, sources.WithHint(err,
			"name the file of the publisher's public key with --key, and the checksums of these archives beside them")
	case err != nil:
		return false, sources.WithHint(fmt.Errorf("checking it against the mirror's signed checksums: %w", err), elsewhere)
	case given == nil:
		return false, nil
	case c.Proof.Name != "" && c.Proof.Name != c.ID.Filename(): // that of another platform
		return false, fmt.Errorf("%s has its checksum for %s", given.Origin, c.Proof.Name)
	}
	merged, err := im.Judge().Merge(ctx, c.ID.Provider, kept, given)
	news = evidence.Digest(merged) != evidence.Digest(kept) || !slices.Equal(merged.Protocols, kept.Protocols)
	if news { // the store warns of a new key
		return true, nil
	}
	if err != nil {
		const hint = "find out which evidence is right; to accept the new evidence, remove this version from the mirror first"
		err = sources.WithHint(err, hint)
	}
	return false, err
}
