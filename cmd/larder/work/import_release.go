package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

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
				"it is for zip files such as terraform-provider-thing_1.2.0_linux_amd64.zip, in a directory that isn't a mirror")
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
	path, err := Existing(im.dir, typed, File, "name a file with an ASCII-armored OpenPGP key")
	if err != nil {
		return "", err
	}
	const most = 1 << 20 // in bytes
	text, err := disk.ReadFile(path, most)
	return string(text), err
}

// evidenceFor returns the evidence for a release, or nil if nothing vouches for it.
func (im *importing) evidenceFor(ctx context.Context, r *legacy.Release, public, private string) (*sources.Signed, error) {
	switch {
	case r.Signature != nil && r.Sums == nil:
		return nil, errors.New("there is a signature, but no checksums")
	case r.Signature != nil && public == "":
		err := errors.New("it is signed, but the key is not known")
		return nil, sources.WithHint(err, "name the file of the publisher's public key with --key; gpg --armor --export writes it")
	case r.Signature != nil:
		key, err := trust.PublicKey(public)
		if err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		signature, err := trust.Binary(r.Signature)
		return &sources.Signed{Sums: r.Sums, Signature: signature, Keys: []sources.Key{key}, Origin: r.SumsPath}, err
	case private == "" && public == "":
		return nil, nil
	case private == "":
		err := errors.New("there is no signature that --key could verify")
		return nil, sources.WithHint(err, "to sign the checksums, name the file of a private key with --sign-key")
	}
	sums, err := im.newSums(ctx, r)
	if err != nil {
		return nil, err
	}
	signed, err := trust.Sign(sums, private)
	if err != nil {
		return nil, fmt.Errorf("--sign-key: %w", err)
	}
	signed.Origin = r.SumsPath
	return signed, nil
}

// newSums returns the checksums of the archives in a release, and of those that the mirror already has of the version:
// there is only one file of checksums for all of them. Checksums beside the archives must be right.
func (im *importing) newSums(ctx context.Context, r *legacy.Release) ([]byte, error) {
	hashes, err := im.archivesOf(ctx, r.Release)
	if err != nil {
		return nil, err
	}
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
	return legacy.NewSums(hashes)
}

// archivesOf returns the archives of a version that the mirror already has.
func (im *importing) archivesOf(ctx context.Context, r sources.Release) (map[sources.PackageID]sources.Hash, error) {
	hashes := map[sources.PackageID]sources.Hash{}
	if _, err := os.Stat(im.to.Dir); err != nil { // the import creates it
		return hashes, nil //nolint:nilerr // or fails
	}
	b, err := im.openMirror(ctx, im.to.Dir, builder.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	ids, err := b.PackagesOf(ctx, r.Provider)
	for _, id := range ids {
		if id.Version != r.Version || err != nil {
			continue
		}
		var held sources.Stored
		if held, err = b.Get(ctx, id); err == nil && held.ZH != "" {
			hashes[id] = held.ZH
		}
	}
	return hashes, errors.Join(err, b.Close())
}
