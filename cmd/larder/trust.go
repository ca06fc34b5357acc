package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// trustKeyFlag is for commands that judge signatures.
func trustKeyFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "trust-key", Usage: "trust the `KEY` of this fingerprint; repeatable"}
}

// readTrustKeys reads the flag, which not every command has.
func readTrustKeys(c *cli.Context) (keys []sources.Fingerprint, err error) {
	for _, text := range c.StringSlice("trust-key") {
		key, err := sources.ParseFingerprint(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--trust-key: %w", err)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

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

// mirrorOptions adds the rules for evidence to the options of a mirror.
func (m *rootModule) mirrorOptions(opts builder.Options) builder.Options {
	opts.Merge, opts.Vouch, opts.Compare = m.mergeEvidence, m.vouchVerdict, m.compareKeys
	return opts
}

// signature is who signed a package, in JSON. It is empty for what is not signed.
type signature struct {
	KeyID       string              `json:"key_id,omitempty"`
	Fingerprint sources.Fingerprint `json:"fingerprint,omitempty"`
	Signer      string              `json:"signer,omitempty"`
	KeyFrom     trust.KeyOrigin     `json:"key_from,omitempty"`
}

func signatureOf(r trust.Report) signature {
	return signature{r.KeyID, r.Fingerprint, r.Signer, r.KeyFrom}
}

// text is the signature in the line of a package.
func (s signature) text() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s (%s)", s.KeyID, keyOrigins[s.KeyFrom])
}

// long is text with what identifies the key.
func (s signature) long() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s %q (%s)", s.Fingerprint.Spaced(), s.Signer, keyOrigins[s.KeyFrom])
}

var keyOrigins = map[trust.KeyOrigin]string{
	trust.FromMirror:   "from the mirror",
	trust.FromBundle:   "from the bundle",
	trust.FromRegistry: "from the registry",
	trust.Trusted:      "trusted",
	trust.Known:        "known",
}

// A signerMemo finds out who signed packages. Those of one version have the same
// evidence, which is verified once.
type signerMemo struct {
	*rootModule
	mu   sync.Mutex
	made map[string]signature
}

// of is who signed the package of s.Signed, which may be nil. What cannot be verified
// has no signature: verifying the store says why.
func (m *signerMemo) of(s sources.Stored) signature {
	if s.Signed == nil || s.ZH == "" {
		return signature{}
	}
	key := s.ID.Provider.String() + " " + string(s.ZH) + " " + evidence.Reference(s.Signed)
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.made[key]
	if !ok {
		report, _ := m.vouch(s)
		found = signatureOf(report)
		if m.made == nil {
			m.made = map[string]signature{}
		}
		m.made[key] = found
	}
	return found
}

// A checkedPackage is a package whose evidence was verified, in JSON.
type checkedPackage struct {
	Provider string          `json:"provider"`
	Version  string          `json:"version"`
	Platform string          `json:"platform"`
	Verdict  sources.Verdict `json:"verdict"`
	signature

	id sources.PackageID
}

func checked(id sources.PackageID, v sources.Verdict, r trust.Report) checkedPackage {
	return checkedPackage{id.Provider.String(), id.Version.String(), id.Platform.String(), v, signatureOf(r), id}
}

// checked writes which packages were verified, at a level, and who signed them.
func (o *output) checked(at level, all []checkedPackage) {
	slices.SortFunc(all, func(a, b checkedPackage) int { return a.id.Compare(b.id) })
	var rows [][]string
	for _, p := range all {
		row := []string{p.id.Provider.String() + " " + p.Version, p.Platform, p.Verdict.String()}
		if text := p.text(); text != "" {
			row[2] += ", " + text
		}
		rows = append(rows, row)
	}
	if !o.json && at == verbose && o.level != verbose {
		return
	}
	for i, line := range columns(rows) {
		o.result("verified", all[i], "%s", line)
	}
}

// keys lists the keys that signed packages: those that came along, whose packages are
// signed by nobody who is known, and the others.
func (o *output) keys(all []checkedPackage, carrier string) {
	var came, others []signature
	for _, p := range all {
		list := &others
		if p.KeyFrom == trust.FromBundle || p.KeyFrom == trust.FromMirror {
			list = &came
		}
		if p.KeyID != "" && !slices.Contains(*list, p.signature) {
			*list = append(*list, p.signature)
		}
	}
	o.keyList("signed by:", others)
	o.keyList(fmt.Sprintf("keys from the %s prove only that its contents belong together:", carrier), came)
	if len(came) > 0 {
		o.say(normal, "hint: --trust-key %s accepts it; trusted_keys in larder/config.hcl does so for good", came[0].Fingerprint)
	}
}

func (o *output) keyList(title string, keys []signature) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(a, b signature) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	o.say(normal, "%s", title)
	for _, k := range keys {
		o.say(normal, "  %s  %s  %q%s", k.KeyID, k.Fingerprint.Spaced(), k.Signer, map[bool]string{true: ", " + keyOrigins[k.KeyFrom]}[k.KeyFrom == trust.Trusted || k.KeyFrom == trust.Known])
	}
}
