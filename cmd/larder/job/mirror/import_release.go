package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/trust"
)

// vouch adds the evidence that builds of providers have beside their archives, or signs what has none.
func (im *importing) vouch(ctx context.Context, candidates []legacy.Candidate, request LegacyRequest) error {
	releases, err := legacy.Releases(candidates)
	if err != nil {
		return err
	}
	public, private := "", ""
	for _, file := range []struct{ flag, typed, text *string }{
		{new("--key"), &request.Key, &public}, {new("--sign-key"), &request.SignKey, &private},
	} {
		if *file.typed == "" {
			continue
		}
		if *file.text, err = im.readKey(*file.typed); err == nil && len(releases) == 0 && len(candidates) > 0 {
			err = sources.WithHint(errors.New("there is no build of a provider"),
				"it applies only to zip files such as terraform-provider-thing_1.2.0_linux_amd64.zip in a directory that isn't a mirror")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", *file.flag, err)
		}
	}
	var errs []error
	for _, r := range releases {
		signed, err := im.evidenceFor(ctx, r, public, private)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.SumsPath, err))
		} else if signed != nil {
			r.Vouch(signed)
		}
	}
	return errors.Join(errs...)
}

// readKey reads the file of a key.
func (im *importing) readKey(typed string) (string, error) {
	path, err := site.Existing(im.Dir, typed, site.File, "name a file with an ASCII-armored OpenPGP key")
	if err != nil {
		return "", err
	}
	const most = 1 << 20 // in bytes
	text, err := disk.ReadFile(path, most)
	return string(text), err
}

// evidenceFor returns the evidence for a release, or nil if nothing vouches for it, or if the mirror has signed
// checksums for what it has none.
func (im *importing) evidenceFor(ctx context.Context, r *legacy.Release, public, private string) (*sources.Signed, error) {
	switch {
	case r.Signature != nil && r.Sums == nil:
		return nil, errors.New("there is a signature, but no checksums")
	case r.Signature != nil && public == "":
		err := errors.New("it is signed, but the key is not known")
		return nil, sources.WithHint(err, "name the file of the publisher's public key with --key; gpg --armor --export writes it")
	case r.Signature == nil && private == "" && public == "":
		return nil, nil
	case r.Signature == nil && private == "":
		err := errors.New("there is no signature that --key could verify")
		return nil, sources.WithHint(err, "to sign the checksums, name the file of a private key with --sign-key")
	}
	held, err := im.heldOf(ctx, r.Release)
	if err != nil {
		return nil, err
	}
	var signed *sources.Signed
	if r.Signature != nil {
		signed, err = signedBy(r, public)
	} else {
		signed, err = im.sign(ctx, r, held, private)
	}
	if err != nil || signed == nil {
		return nil, err
	}
	signed.Origin = r.SumsPath
	return signed, im.covers(r, signed.Sums, held)
}

// signedBy returns the evidence beside the archives of a release, which the owner of a public key has signed.
func signedBy(r *legacy.Release, public string) (*sources.Signed, error) {
	key, err := trust.PublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	signature, err := trust.Binary(r.Signature)
	return &sources.Signed{Sums: r.Sums, Signature: signature, Keys: []sources.Key{key}}, err
}

// sign signs the checksums of a release with a private key. It returns nil if the mirror has signed checksums for
// all archives: each new signature would be another one.
func (im *importing) sign(ctx context.Context, r *legacy.Release, held heldRelease, private string) (*sources.Signed, error) {
	hashes, err := hashesOf(ctx, r)
	if err != nil {
		return nil, err
	}
	for id, zh := range held.hashes { // there is only one file of checksums for all archives of the version
		if hashes[id] == "" {
			hashes[id] = zh
		}
	}
	unproven := func(zh sources.Hash) bool {
		_, err := im.Judge().Prove(ctx, r.Provider, held.signed, zh)
		return err != nil
	}
	if held.signed != nil && !slices.ContainsFunc(slices.Collect(maps.Values(hashes)), unproven) {
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

// hashesOf returns the hashes of the archives in a release. Checksums beside the archives must be right.
func hashesOf(ctx context.Context, r *legacy.Release) (map[sources.PackageID]sources.Hash, error) {
	hashes := map[sources.PackageID]sources.Hash{}
	listed, err := trust.ParseSums(r.Sums)
	if err != nil {
		return nil, err
	}
	for _, c := range r.Archives() {
		h, err := archive.Open(ctx, c.Path, nil)
		if err != nil {
			return nil, err
		}
		zh := sources.ZipHash(h.Sum)
		if err := h.Close(); err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(r.Sums)) > 0 && !listed.Has(zh) {
			return nil, fmt.Errorf("it doesn't have the checksum of %s, which is %s", c.Path, zh)
		}
		hashes[c.ID] = zh
	}
	return hashes, nil
}

// covers fails if checksums for a release don't list an archive of this version that the mirror has, and keeps: clients
// would refuse it.
func (im *importing) covers(r *legacy.Release, sums []byte, held heldRelease) error {
	listed, err := trust.ParseSums(sums)
	if err != nil {
		return err
	}
	imports := map[sources.PackageID]bool{}
	for _, c := range r.Archives() {
		imports[c.ID] = true
	}
	var errs []error
	for _, id := range slices.SortedFunc(maps.Keys(held.hashes), sources.PackageID.Compare) {
		zh := held.hashes[id]
		if listed.Has(zh) || imports[id] && im.replace {
			continue
		}
		hint := "to accept these checksums, remove it from the mirror first"
		if imports[id] {
			hint = "to replace the one in the mirror, add --replace"
		}
		err := fmt.Errorf("it doesn't have the checksum of the mirror's %s, which is %s", id.Filename(), zh)
		errs = append(errs, sources.WithHint(err, "find out which package is right; %s", hint))
	}
	return errors.Join(errs...)
}

// A heldRelease is what the mirror already has of a version.
type heldRelease struct {
	hashes map[sources.PackageID]sources.Hash // of its archives
	signed *sources.Signed                    // nil if there is no evidence that can be read
}

// heldOf returns what the mirror already has of a version.
func (im *importing) heldOf(ctx context.Context, r sources.Release) (heldRelease, error) {
	held := heldRelease{hashes: map[sources.PackageID]sources.Hash{}}
	if _, err := os.Stat(im.to.Dir); errors.Is(err, fs.ErrNotExist) { // the import creates it
		return held, nil
	}
	b, err := job.OpenMirror(ctx, im.Root, im.to.Dir, builder.Options{ReadOnly: true, Unpacked: im.to.Unpacked})
	if err != nil {
		return held, err
	}
	held.signed, _ = b.Evidence(r.Provider, r.Version)
	ids, err := b.PackagesOf(ctx, r.Provider)
	for _, id := range ids {
		if id.Version != r.Version || err != nil {
			continue
		}
		var s sources.Stored
		s, err = b.Get(ctx, id)
		switch {
		case errors.Is(err, sources.ErrNotFound): // it is in the other layout
			err = nil
		case err == nil && s.ZH != "":
			held.hashes[id] = s.ZH
		}
	}
	return held, errors.Join(err, b.Close())
}
