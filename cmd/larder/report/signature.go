package report

import (
	"cmp"
	"fmt"
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

// As describes a verification result with the key that signed. Every screen has these words. The ID of HashiCorp's
// key is left out.
func (v Verification) As() string {
	switch {
	case v.KeyID == "" || v.Verdict == sources.SignedByHashiCorp:
		return v.Verdict.String()
	case v.Verdict == sources.MirrorEvidence:
		return "signed, key " + v.KeyID + " " + keyOrigins[v.KeyFrom]
	}
	return v.Verdict.String() + ", key " + v.KeyID
}

// SignedBy returns the cell with the key, if --verbose is set.
func (v Verification) SignedBy(o *Output) Cell {
	if o.Level != Verbose {
		return Cell{}
	}
	return Cell{Span: ui.Faint.Of(v.Long())}
}

// ChangedSince is shown in place of a verification result, for a package that has changed.
const ChangedSince = "changed since it was verified"

// withoutKey returns the text of As without the ID of the key.
func withoutKey(text string) string {
	return keyID().ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, " from") {
			return ", key from"
		}
		return ""
	})
}

var keyID = sources.Regexp(`, key [0-9A-F]{16}\b( from)?`)

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
}

// Cells implements [Row].
func (c Checked) Cells(*Output) []Cell { return append(c.IDCells(), VerifiedColumn.Of(c.As())) }

// CheckedOf returns verified packages, sorted.
func CheckedOf(packages []sources.Stored) (all []Checked) {
	byID := func(a, b sources.Stored) int { return a.ID.Compare(b.ID) }
	for _, s := range slices.SortedFunc(slices.Values(packages), byID) {
		all = append(all, Checked{Typed{}, InJSON(s.ID), VerificationOf(s.Report)})
	}
	return all
}

// CheckedInDetail shows the verified packages and who signed them to programs, and with --verbose.
func (o *Output) CheckedInDetail(all []Checked) {
	if o.JSON || o.Level == Verbose {
		Grid(o, all)
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

// KeyList lists the keys from the source of the packages, and suggests how to trust one.
func (o *Output) KeyList(all []Checked, suggest bool) {
	var keys []Signature
	for _, p := range all {
		if cameAlong(p) && p.KeyID != "" && !slices.Contains(keys, p.Signature) {
			keys = append(keys, p.Signature)
		}
	}
	slices.SortFunc(keys, func(a, b Signature) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	for _, k := range keys {
		o.Say("  %s  %s  %q", k.KeyID, k.Fingerprint.Spaced(), k.Signer)
	}
	if len(keys) > 0 && suggest {
		o.Hint("if a publisher has announced one of these keys, trust it with --trust-key FINGERPRINT, " +
			"or always with trusted_keys in larder/config.hcl")
	}
}
