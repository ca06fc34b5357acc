package ui

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Signature is who signed a package, in JSON. It is empty for unsigned packages.
type Signature struct {
	KeyID       string              `json:"key_id,omitempty"`
	Fingerprint sources.Fingerprint `json:"fingerprint,omitempty"`
	Signer      string              `json:"signer,omitempty"`
	KeyFrom     trust.KeyOrigin     `json:"key_from,omitempty"`
}

// SignatureOf returns who signed the package of a report.
func SignatureOf(r trust.Report) Signature {
	return Signature{r.KeyID, r.Fingerprint, r.Signer, r.KeyFrom}
}

// Verdict describes a verdict with its key: "signed, key 62CF2F485EDF9A4B (from the bundle)".
func (s Signature) Verdict(v sources.Verdict) string {
	if v == sources.MirrorEvidence && s.KeyID != "" {
		return fmt.Sprintf("signed, key %s (%s)", s.KeyID, keyOrigins[s.KeyFrom])
	}
	return SignedBy(v, s.KeyID)
}

// Long returns the fingerprint of the key, and where it came from.
func (s Signature) Long() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s %q (%s)", s.Fingerprint.Spaced(), s.Signer, keyOrigins[s.KeyFrom])
}

// keyOrigins describe where a key came from, which limits what its signatures prove.
var keyOrigins = map[trust.KeyOrigin]string{
	trust.FromMirror:   "from the mirror",
	trust.FromBundle:   "from the bundle",
	trust.FromRegistry: "from the registry",
	trust.Trusted:      "trusted",
	trust.Known:        "known",
}

// A Checked is a package whose evidence was verified, in JSON.
type Checked struct {
	PackageID
	Verdict sources.Verdict `json:"verdict"`
	Signature

	id sources.PackageID
}

// CheckedOf returns a package with the verdict and the report on its evidence.
func CheckedOf(id sources.PackageID, v sources.Verdict, r trust.Report) Checked {
	return Checked{InJSON(id), v, SignatureOf(r), id}
}

// Checked prints the verified packages and who signed them.
func (o *Output) Checked(all []Checked) {
	slices.SortFunc(all, func(a, b Checked) int { return a.id.Compare(b.id) })
	rows := make([]Row, len(all))
	for i, p := range all {
		rows[i] = Row{Value: p, Cells: []Span{
			{o.Name(p.id.Provider) + " " + p.Version, Bold}, {Text: p.Platform}, {Text: p.Signature.Verdict(p.Verdict)},
		}}
	}
	platform := Column{Drop: 1}
	if slices.ContainsFunc(all, func(p Checked) bool { return p.Platform != all[0].Platform }) {
		platform.Drop = 0 // the platform distinguishes packages
	}
	o.Grid("verified", []Column{{Shorten: true}, platform, {Shorten: true}}, rows)
}

// Keys returns the text after the number of verified packages: a warning if keys came with the
// bundle or mirror. Such keys do not prove who signed the packages.
func (o *Output) Keys(all []Checked, carrier string) string {
	if !slices.ContainsFunc(all, cameAlong) {
		return ""
	}
	return fmt.Sprintf(". Keys from the %s prove only that its contents belong together:", carrier)
}

// cameAlong reports whether a package's key has the same source as the package.
func cameAlong(p Checked) bool { return p.KeyFrom == trust.FromBundle || p.KeyFrom == trust.FromMirror }

// KeyList lists the keys from the source of the packages, and how to accept them. With
// --verbose it also lists all other keys.
func (o *Output) KeyList(all []Checked) {
	var came, others []Signature
	for _, p := range all {
		list := &others
		if cameAlong(p) {
			list = &came
		}
		if p.KeyID != "" && !slices.Contains(*list, p.Signature) {
			*list = append(*list, p.Signature)
		}
	}
	o.keyList(came)
	if len(came) > 0 {
		o.Hint("to trust this key, add --trust-key %s; to trust it always, add it to trusted_keys in larder/config.hcl", came[0].Fingerprint)
	}
	if o.Level == Verbose && len(others) > 0 {
		o.Say("Signed by:")
		o.keyList(others)
	}
}

// keyList prints keys, one on each line.
func (o *Output) keyList(keys []Signature) {
	slices.SortFunc(keys, func(a, b Signature) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	for _, k := range keys {
		standing := ""
		if k.KeyFrom == trust.Trusted || k.KeyFrom == trust.Known {
			standing = ", " + keyOrigins[k.KeyFrom]
		}
		o.Say("  %s  %s  %q%s", k.KeyID, k.Fingerprint.Spaced(), k.Signer, standing)
	}
}
