package trust_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// A package is approved if a set lists it with its checksum, and if a key of each rule signed the set and is valid now.
func TestApproved(t *testing.T) {
	id := sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64")
	listed := sources.ZipHash([32]byte{1})
	manifest := []byte(`{"format": 1, "packages": [{"provider": "example.test/acme/widget", "version": "1.0.0",
		"platform": "linux_amd64", "zh": "` + string(listed) + `"}]}`)
	good, other, mortal, revoked := newKey(t, 0), newKey(t, 0), newKey(t, 2*year), newKey(t, 0)
	set := func(key, beside *openpgp.Entity, text []byte) *sources.Signed {
		signature := sign(t, key, manifest, born.Add(year))
		return &sources.Signed{Sums: text, Signature: signature, Keys: []sources.Key{public(t, beside)}}
	}
	byRevoked := set(revoked, revoked, manifest)
	check(t, revoked.RevokeKey(packet.KeyCompromised, "stolen", at(born.Add(2*year), 0)))
	byRevoked.Keys = []sources.Key{public(t, revoked)}
	for _, test := range []struct {
		name     string
		set      *sources.Signed
		zh       sources.Hash
		rules    []*openpgp.Entity
		broken   error // of the set
		approved bool
	}{
		{"signed", set(good, good, manifest), listed, []*openpgp.Entity{good}, nil, true},
		{"another hash", set(good, good, manifest), sources.ZipHash([32]byte{2}), []*openpgp.Entity{good}, nil, false},
		{"another key", set(other, other, manifest), listed, []*openpgp.Entity{good}, nil, false},
		{"two rules", set(good, good, manifest), listed, []*openpgp.Entity{good, other}, nil, false},
		{"expired since", set(mortal, mortal, manifest), listed, []*openpgp.Entity{mortal}, nil, false},
		{"revoked since", byRevoked, listed, []*openpgp.Entity{revoked}, sources.ErrRevoked, false},
		{"manipulated", set(good, good, append(manifest, ' ')), listed, []*openpgp.Entity{good}, trust.BadSignature, false},
		{"not by the key beside it", set(other, good, manifest), listed, []*openpgp.Entity{good}, trust.UnknownIssuer, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p policy.Policy
			for _, key := range test.rules {
				rule := policy.Rule{Setting: policy.ApprovedBy, Approvers: []sources.Fingerprint{fingerprint(key)}}
				p.Rules = append(p.Rules, rule)
			}
			judge := trust.Judge{Options: trust.Options{Policy: &p, Now: func() time.Time { return now }}}
			set, err := trust.VerifySet(t.Context(), test.set)
			if test.broken != nil {
				sourcetest.Require(t, errors.Is(err, test.broken), "got error %v", err)
			} else {
				check(t, err)
			}
			proof := sources.Proof{Matched: true, Approvals: set.Approvals(id, test.zh)}
			err = judge.Check(id, judge.Report(id.Provider, proof))
			sourcetest.Expect(t, (err == nil) == test.approved, "got error %v", err)
			expired := err != nil && strings.Contains(err.Error(), "has expired")
			sourcetest.Expect(t, expired == (test.name == "expired since"), "got error %v", err)
		})
	}
}
