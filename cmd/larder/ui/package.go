package ui

import (
	"strings"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A PackageID names a package in JSON. Objects about a package embed it, so that all
// of them name it alike.
type PackageID struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
}

// InJSON returns the ID of a package for JSON.
func InJSON(id sources.PackageID) PackageID {
	return PackageID{id.Provider.String(), id.Version.String(), id.Platform.String()}
}

// An outcome is what became of a package, in JSON.
type outcome struct {
	PackageID
	How     installer.How    `json:"how"`
	Verdict sources.Verdict  `json:"verdict"`
	KeyID   string           `json:"key_id,omitempty"`
	Source  string           `json:"source,omitempty"`
	Link    sources.LinkMode `json:"link,omitempty"`
	H1      sources.Hash     `json:"h1,omitempty"`
}

// OutcomeInJSON returns what became of a package for JSON.
func OutcomeInJSON(p installer.Outcome) any {
	return outcome{InJSON(p.Package.ID), p.How, p.Package.Verdict, p.KeyID, p.Source, p.Link, p.Package.H1}
}

// OutcomeText describes what became of a package, without its name.
func OutcomeText(p installer.Outcome) string {
	words := []string{string(p.How), SignedBy(p.Package.Verdict, p.KeyID)}
	if p.Link != "" {
		words = append(words, string(p.Link))
	}
	return strings.Join(words, ", ")
}

// SignedBy is a verdict with the key it is due to, if any.
func SignedBy(v sources.Verdict, keyID string) string {
	if keyID == "" {
		return v.String()
	}
	return v.String() + " with key " + keyID
}

// Outcome writes what became of a package as a line of the result.
func (o *Output) Outcome(p installer.Outcome) {
	o.Result("package", OutcomeInJSON(p), "%s  %s", p.Package.ID, OutcomeText(p))
}

// Missing writes that a package does not exist or could not be fetched.
func (o *Output) Missing(id sources.PackageID, why error, format string, args ...any) {
	o.Result("missing", struct {
		PackageID
		Text string `json:"text"`
	}{InJSON(id), why.Error()}, format, args...)
}

// LockFile writes how a lock file was changed.
func (o *Output) LockFile(change installer.LockChange) {
	if !o.JSON {
		o.Say("wrote %s: %s", change.Path, change)
		return
	}
	o.Object("lock", struct {
		File    string   `json:"file"`
		Added   []string `json:"added"`
		Removed []string `json:"removed"`
		Changed []string `json:"changed"`
	}{change.Path, sources.Texts(change.Added), sources.Texts(change.Removed), sources.Texts(change.Changed)})
}

// A Finding is something wrong in a store, in JSON.
type Finding struct {
	Kind       string `json:"kind"`
	Path       string `json:"path"`
	*PackageID        // nil if no package is affected
	Text       string `json:"text"`
}

// FindingOf returns what is wrong with a path, and with a package unless id is nil.
func FindingOf[Kind ~string](kind Kind, path string, id *sources.PackageID, text string) Finding {
	f := Finding{Kind: string(kind), Path: path, Text: text}
	if id != nil {
		named := InJSON(*id)
		f.PackageID = &named
	}
	return f
}
