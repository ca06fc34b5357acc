package main

import (
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// trustOptions returns the rules for signatures from the configuration and the flags.
func (m *rootModule) trustOptions() trust.Options {
	return trust.Options{
		EnforceGPGValidation: m.config.EnforceSignatures, EnforceGPGExpiration: m.config.EnforceKeyExpiry,
		Pinned: m.config.TrustedKeys, Accepted: m.flags.trustKeys,
	}
}

// trustFor returns trustOptions for the evidence of a provider, with the rules of the engine
// whose registry has the provider.
func (m *rootModule) trustFor(p sources.Provider) trust.Options {
	engine := m.config.Engine
	if p.Host == sources.OpenTofu.DefaultHost() {
		engine = sources.OpenTofu
	}
	return m.trustOptions().For(engine, p)
}

// vouch verifies the evidence that a cache or a mirror has for a package.
func (m *rootModule) vouch(s sources.Stored) (trust.Report, error) {
	return trust.VerifyArchive(s.Signed, s.ZH, m.trustFor(s.ID.Provider))
}

// vouchVerdict returns the verdict of vouch.
func (m *rootModule) vouchVerdict(s sources.Stored) (sources.Verdict, error) {
	report, err := m.vouch(s)
	return report.Verdict, err
}

// mergeEvidence selects the evidence that a store keeps.
func (m *rootModule) mergeEvidence(p sources.Provider, kept, new *sources.Signed) (*sources.Signed, error) {
	return trust.Merge(kept, new, m.trustFor(p))
}

// compareKeys returns a warning if another version is signed with other keys.
func (m *rootModule) compareKeys(p sources.Provider, other sources.Version, was, now *sources.Signed) error {
	return trust.CompareKeys(other, was, now, m.trustFor(p))
}

// A signerMemo caches who signed packages. Packages of a version have the same evidence, which
// it verifies once.
type signerMemo struct {
	*rootModule
	made memo[string, ui.Signature]
}

// of returns who signed the package of s.Signed, which may be nil. Evidence that cannot be
// verified has no signature: verifying the store reports the reason.
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
