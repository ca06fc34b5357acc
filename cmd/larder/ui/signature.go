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

// text is the signature in the line of a package.
func (s Signature) text() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s (%s)", s.KeyID, keyOrigins[s.KeyFrom])
}

// Long is text with what identifies the key.
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
	var rows []Row
	for _, p := range all {
		verdict, text := p.Verdict.String(), p.text()
		switch {
		case text != "" && p.Verdict == sources.MirrorEvidence: // where the key is from is in text
			verdict = "signed, " + text
		case text != "":
			verdict += ", " + text
		}
		name := Span{o.Name(p.id.Provider) + " " + p.Version, Bold}
		rows = append(rows, Row{[]Span{name, {Text: p.Platform}, {Text: verdict}}, p})
	}
	o.Grid("verified", []Column{{}, {Drop: 1}, {Shorten: true}}, rows)
}

// Keys lists the keys that signed packages. Those that came along in the carrier, which
// is a bundle or a mirror, are listed apart: they authenticate nobody.
func (o *Output) Keys(all []Checked, carrier string) {
	var came, others []Signature
	for _, p := range all {
		list := &others
		if p.KeyFrom == trust.FromBundle || p.KeyFrom == trust.FromMirror {
			list = &came
		}
		if p.KeyID != "" && !slices.Contains(*list, p.Signature) {
			*list = append(*list, p.Signature)
		}
	}
	o.keyList("signed by:", others)
	o.keyList(fmt.Sprintf("keys from the %s prove only that its contents belong together:", carrier), came)
	if len(came) > 0 {
		o.Say("hint: --trust-key %s accepts it; trusted_keys in larder/config.hcl does so for good", came[0].Fingerprint)
	}
}

// keyList writes keys below a title, if there are any.
func (o *Output) keyList(title string, keys []Signature) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(a, b Signature) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	o.Say("%s", title)
	for _, k := range keys {
		standing := ""
		if k.KeyFrom == trust.Trusted || k.KeyFrom == trust.Known {
			standing = ", " + keyOrigins[k.KeyFrom]
		}
		o.Say("  %s  %s  %q%s", k.KeyID, k.Fingerprint.Spaced(), k.Signer, standing)
	}
}
