package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A Verification is the verification result of a package, and who signed it, in JSON.
type Verification struct {
	Verdict sources.Verdict `json:"verdict"`
	Signature
}

// VerificationOf returns the verification result of a report.
func VerificationOf(r sources.Report) Verification {
	best := r.Best()
	return Verification{r.Verdict, Signature{best.KeyID, best.Fingerprint, best.UserID, best.From}}
}

// A Signature is who signed a package, in JSON. It is empty for unsigned packages.
type Signature struct {
	KeyID       string              `json:"key_id,omitempty"`
	Fingerprint sources.Fingerprint `json:"fingerprint,omitempty"`
	Signer      string              `json:"signer,omitempty"`
	KeyFrom     sources.KeyOrigin   `json:"key_from,omitempty"`
}

// VerifiedAs describes a verification result with the key that signed. Every screen has these
// words. The ID of HashiCorp's key is left out.
func VerifiedAs(r sources.Report) string {
	best := r.Best()
	switch {
	case best.KeyID == "" || r.Verdict == sources.SignedByHashiCorp:
		return r.Verdict.String()
	case r.Verdict == sources.MirrorEvidence:
		return "signed, key " + best.KeyID + " " + keyOrigins[best.From]
	}
	return r.Verdict.String() + ", key " + best.KeyID
}

// ChangedSince is shown in place of a verification result, for a package that has changed.
const ChangedSince = "changed since it was verified"

// WithoutKey returns the text of VerifiedAs without the ID of the key, for narrow terminals.
func WithoutKey(text string) string {
	return strings.TrimSuffix(keyID.ReplaceAllString(text, " key"), ", key")
}

var keyID = regexp.MustCompile(` key [0-9A-F]{16}\b`)

// Long returns the fingerprint of the key, and where it came from.
func (s Signature) Long() string {
	if s.KeyID == "" {
		return ""
	}
	return fmt.Sprintf("key %s %q (%s)", s.Fingerprint.Spaced(), s.Signer, keyOrigins[s.KeyFrom])
}

// keyOrigins describe where a key came from, which limits what its signatures prove.
var keyOrigins = map[sources.KeyOrigin]string{
	sources.KeyFromMirror:   "from the mirror",
	sources.KeyFromBundle:   "from the bundle",
	sources.KeyFromRegistry: "from the registry",
	sources.KeyTrusted:      "trusted",
	sources.KeyBuiltIn:      "known",
}

// A Checked is a package that was verified.
type Checked struct {
	Typed `type:"verified"`
	PackageID
	Verification

	id     sources.PackageID
	report sources.Report
}

// Cells implements [Row].
func (c Checked) Cells(o *Output) []ui.Span {
	return []ui.Span{ui.Bold.Of(o.Name(c.id.Provider)), {Text: c.Version}, {Text: c.Platform}, {Text: VerifiedAs(c.report)}}
}

// CheckedOf returns verified packages, sorted.
func CheckedOf(packages []sources.Stored) []Checked {
	all := make([]Checked, len(packages))
	for i, s := range packages {
		all[i] = Checked{Typed{}, InJSON(s.ID), VerificationOf(s.Report), s.ID, s.Report}
	}
	slices.SortFunc(all, func(a, b Checked) int { return a.id.Compare(b.id) })
	return all
}

// Checked shows the verified packages and who signed them.
func (o *Output) Checked(all []Checked) {
	Grid(o, []ui.Column{{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Keep: true, Drop: 1}, {Head: "VERIFIED AS", Brief: WithoutKey, Drop: 2}}, all)
}

// CheckedInDetail is Checked for programs, and with --verbose.
func (o *Output) CheckedInDetail(all []Checked) {
	if o.JSON || o.Level == Verbose {
		o.Checked(all)
	}
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
func cameAlong(p Checked) bool {
	return p.KeyFrom == sources.KeyFromBundle || p.KeyFrom == sources.KeyFromMirror
}

// KeyList lists the keys from the source of the packages, and suggests trusting them. With
// --verbose it also lists all other keys.
func (o *Output) KeyList(all []Checked, suggest bool) {
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
	if len(came) > 0 && suggest {
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
		if k.KeyFrom == sources.KeyTrusted || k.KeyFrom == sources.KeyBuiltIn {
			standing = ", " + keyOrigins[k.KeyFrom]
		}
		o.Say("  %s  %s  %q%s", k.KeyID, k.Fingerprint.Spaced(), k.Signer, standing)
	}
}
