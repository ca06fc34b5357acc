package main

import (
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// trustOptions are what the configuration and the flags say of signatures.
func (m *rootModule) trustOptions() trust.Options {
	return trust.Options{
		EnforceGPGValidation: m.config.EnforceSignatures, EnforceGPGExpiration: m.config.EnforceKeyExpiry,
		Pinned: m.config.TrustedKeys, Accepted: m.flags.trustKeys,
	}
}

// trustFor is trustOptions for the evidence of a provider, by the rules of the engine
// whose registry the provider is from.
func (m *rootModule) trustFor(p sources.Provider) trust.Options {
	engine := m.config.Engine
	if p.Host == sources.OpenTofu.DefaultHost() {
		engine = sources.OpenTofu
	}
	return m.trustOptions().For(engine, p)
}

// vouch judges the evidence that a cache or a mirror keeps with a package.
func (m *rootModule) vouch(s sources.Stored) (trust.Report, error) {
	return trust.VerifyArchive(s.Signed, s.ZH, m.trustFor(s.ID.Provider))
}

// vouchVerdict is the verdict of vouch.
func (m *rootModule) vouchVerdict(s sources.Stored) (sources.Verdict, error) {
	report, err := m.vouch(s)
	return report.Verdict, err
}

// mergeEvidence decides which evidence a store keeps.
func (m *rootModule) mergeEvidence(p sources.Provider, kept, new *sources.Signed) (*sources.Signed, error) {
	return trust.Merge(kept, new, m.trustFor(p))
}

// compareKeys returns a warning if another version is signed by other keys.
func (m *rootModule) compareKeys(p sources.Provider, other sources.Version, was, now *sources.Signed) error {
	return trust.CompareKeys(other, was, now, m.trustFor(p))
}

// A signerMemo finds out who signed packages. Those of one version have the same
// evidence, which is verified once.
type signerMemo struct {
	*rootModule
	made memo[string, ui.Signature]
}

// of is who signed the package of s.Signed, which may be nil. What cannot be verified
// has no signature: verifying the store says why.
func (m *signerMemo) of(s sources.Stored) ui.Signature {
	if s.Signed == nil || s.ZH == "" {
		return ui.Signature{}
	}
	key := s.ID.Provider.String() + " " + string(s.ZH) + " " + evidence.Reference(s.Signed)
	found, _ := m.made.get(key, func() (ui.Signature, error) {
		report, err := m.vouch(s)
		return ui.SignatureOf(report), err
	})
	return found
}
