package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

func bundleCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:        "bundle",
		Category:    forMirrors,
		Usage:       "carry mirrors across an air gap in files",
		Description: "A bundle is a plain tar archive, and extracting it makes a mirror.",
		Subcommands: []*cli.Command{
			bundleCreateCommand(out), bundleShowCommand(out), bundleVerifyCommand(out),
			bundleImportCommand(out), bundleManifestCommand(out),
		},
	}
}

// known fails for a package of a bundle whose contents differ from those recorded here.
func (m *rootModule) known(from string) func(bundle.Verified) error {
	memory := m.memory()
	return func(p bundle.Verified) error {
		if memory == nil {
			return nil
		}
		return acquire.CheckRepublished(memory, sources.Stored{ID: p.ID, ZH: p.ZH, H1: p.H1, Report: p.Report}, from)
	}
}

// bundledPackage is a package in a bundle, in JSON.
type bundledPackage struct {
	ui.PackageID
	Path string       `json:"path"`
	Size int64        `json:"size"`
	ZH   sources.Hash `json:"zh"`
	H1   sources.Hash `json:"h1"`
	Part int          `json:"part,omitempty"`
}

// bundled returns a package of a bundle for JSON.
func bundled(p bundle.Package) bundledPackage {
	return bundledPackage{ui.InJSON(p.ID), p.Path(), p.Size, p.ZH, p.H1, p.Part}
}

// bundleInfo describes a whole bundle, in JSON.
type bundleInfo struct {
	File     string `json:"file"`
	ID       string `json:"id"`
	Part     int    `json:"part,omitempty"`
	Parts    int    `json:"parts,omitempty"`
	Packages int    `json:"packages"`
	Size     int64  `json:"size"`
	Base     int    `json:"base"`
}

// bundleSummary is the summary of a command that makes or shows a bundle, in JSON.
type bundleSummary struct {
	Files    int   `json:"files"`
	Packages int   `json:"packages"`
	Size     int64 `json:"size"`
	Base     int   `json:"base"`
	Payloads int   `json:"payloads,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

// infoOf describes the bundle in a file for JSON. In a bundle in parts, the manifest in
// each file covers all parts.
func infoOf(file string, m bundle.Manifest) bundleInfo {
	return bundleInfo{file, m.ID(), m.Part, m.Parts, len(m.Packages), m.Size(), len(m.Base)}
}

// basedOn describes the bundle that a delta requires.
func basedOn(m bundle.Manifest) string {
	if len(m.Base) == 0 {
		return ""
	}
	return fmt.Sprintf(", for a mirror that has %s already", ui.Count(len(m.Base), "package"))
}

// marks are the first cells of rows, by what was done.
var marks = map[bundle.How]ui.Span{
	bundle.Added: {Text: " +", Paint: ui.Added}, bundle.Replaced: {Text: " ~", Paint: ui.Changed}, bundle.Known: {Text: "  "},
}

// files returns the paths of files as typed.
func (s *session) files(typed []string) []string {
	var all []string
	for _, file := range typed {
		all = append(all, absolute(s.dir, file))
	}
	return all
}
