package trust

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/policy"
)

// A Set is the packages that a signed manifest lists.
type Set struct {
	Signed   *sources.Signed // its checksums are the manifest
	Signers  []sources.Signer
	Packages map[sources.PackageID]sources.Hash // the checksums of their archives
}

// SetOf reads the set of the mirror in a directory, see [ReadSet].
func SetOf(ctx context.Context, mirror *disk.Dir) (*Set, error) {
	set, err := ReadSet(ctx, evidence.SetPath, func(name string) ([]byte, error) {
		data, _, err := mirror.ReadFile(name, evidence.MaxSet)
		return data, err
	})
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		err = fmt.Errorf("%s: %w", mirror.Path(evidence.SetPath), err)
		err = sources.WithHint(err, "larder mirror verify %s shows how to repair the signed set", mirror.Path("."))
	}
	return set, err
}

// ReadSet reads a set with a function, see [evidence.ReadSet], and verifies its signature. Whether a key is approved or
// has expired is not examined.
func ReadSet(ctx context.Context, name string, read func(name string) ([]byte, error)) (*Set, error) {
	s, err := evidence.ReadSet(name, read)
	if err == nil {
		return VerifySet(ctx, s)
	}
	return nil, err
}

// VerifySet verifies the signature of a set.
func VerifySet(ctx context.Context, s *sources.Signed) (_ *Set, err error) {
	signed := *s
	if signed.Signature, err = Binary(s.Signature); err != nil {
		return nil, badSignature(err)
	}
	x, err := examine(ctx, &signed, Judge{}.rules(sources.Terraform, sources.Provider{}))
	if errors.Is(err, UnknownIssuer) { // its hint is about registries
		err = fault(UnknownIssuer, "%v, and not by the key that came with it", err)
	}
	if errors.Is(err, sources.ErrRevoked) { // its hint is about publishers
		err = fault(sources.ErrRevoked, "%v", err)
	}
	if err != nil {
		return nil, err
	}
	set := &Set{Signed: s, Packages: map[sources.PackageID]sources.Hash{}}
	for _, by := range x.good {
		set.Signers = append(set.Signers, by.Signer)
	}
	var doc struct {
		Format   int
		Packages []struct {
			Provider, Version, Platform string
			ZH                          sources.Hash
		}
	}
	if err := json.Unmarshal(s.Sums, &doc); err != nil || doc.Format != 1 {
		return nil, errors.Join(errors.New("it is not the manifest of a mirror"), err)
	}
	for _, p := range doc.Packages {
		id, err := sources.ParsePackageID(p.Provider, p.Version, p.Platform)
		if err == nil {
			_, err = p.ZH.Sum(sources.ZH)
		}
		if err != nil {
			return nil, fmt.Errorf("%.99q %.99q %.99q: %w", p.Provider, p.Version, p.Platform, err)
		}
		set.Packages[id] = p.ZH
	}
	return set, nil
}

// Approvals returns the signers if the set lists a package with a checksum, or with any if zh is empty. The
// set may be nil.
func (s *Set) Approvals(id sources.PackageID, zh sources.Hash) []sources.Signer {
	if s == nil {
		return nil
	}
	if listed, ok := s.Packages[id]; !ok || zh != "" && zh != listed {
		return nil
	}
	return s.Signers
}

// NeedsApproval reports whether the policy requires that a set lists the packages of a provider.
func (j Judge) NeedsApproval(p sources.Provider) bool {
	return len(j.Options.Policy.ApproversOf(p)) > 0
}

// Current returns the approvals whose signature and key are valid now.
func (j Judge) Current(approvals []sources.Signer) []sources.Signer {
	now := j.rules("", sources.Provider{}).now
	return slices.DeleteFunc(slices.Clone(approvals), func(s sources.Signer) bool {
		return s.Signed.After(now) || ended(s.SignatureEnds, now) || ended(s.KeyEnds, now)
	})
}

// CheckApproved returns a violation of the rules about approvals.
func (j Judge) CheckApproved(id sources.PackageID, approvals []sources.Signer) error {
	current := j.Current(approvals)
	for _, rule := range j.Options.Policy.ApproversOf(id.Provider) {
		approved := func(s sources.Signer) bool { return slices.Contains(rule.Approvers, s.Fingerprint) }
		if !slices.ContainsFunc(current, approved) {
			v := &policy.Violation{Rule: rule, Provider: id.Provider, Version: id.Version}
			v.Expired = slices.ContainsFunc(approvals, approved)
			return v.With()
		}
	}
	return nil
}
