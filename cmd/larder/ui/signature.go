package ui

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Signature is who signed a package, in JSON. It is empty for what is not signed.
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

// Verdict is a verdict with the key that it rests on: "signed, key 62CF2F485EDF9A4B (from the
// bundle)".
func (s Signature) Verdict(v sources.Verdict) string {
	if v == sources.MirrorEvidence && s.KeyID != "" {
		return fmt.Sprintf("signed, key %s (%s)", s.KeyID, keyOrigins[s.KeyFrom])
	}
	return SignedBy(v, s.KeyID)
}

// Long is what identifies the key, and where it came from.
func (s Signature) Long() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s %q (%s)", s.Fingerprint.Spaced(), s.Signer, keyOrigins[s.KeyFrom])
}

// keyOrigins say where a key came from, and so what a signature with it is worth.
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

// Checked writes which packages were verified and who signed them.
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
		platform.Drop = 0 // it tells packages apart
	}
	o.Grid("verified", []Column{{Shorten: true}, platform, {Shorten: true}}, rows)
}

// Keys is what follows the number of verified packages: a warning if keys came along in
// the carrier, which is a bundle or a mirror. Such keys authenticate nobody.
func (o *Output) Keys(all []Checked, carrier string) string {
	if !slices.ContainsFunc(all, cameAlong) {
		return ""
	}
	return fmt.Sprintf(". Keys from the %s prove only that its contents belong together:", carrier)
}

// cameAlong reports whether the key of a package came from where the package did.
func cameAlong(p Checked) bool { return p.KeyFrom == trust.FromBundle || p.KeyFrom == trust.FromMirror }

// KeyList lists the keys that signed packages: those that came along, and how to accept
// them; with --verbose all others too.
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

// keyList writes keys, a line each.
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
