package report

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

// A Bundled is a package in a bundle.
type Bundled struct {
	Typed `type:"bundled"`
	PackageID
	Path string       `json:"path"`
	Size int64        `json:"size"`
	ZH   sources.Hash `json:"zh"`
	H1   sources.Hash `json:"h1"`

	evidence string // whether the bundle has signed checksums for its archive
}

// Cells implements [Row].
func (b Bundled) Cells(*Output) []Cell {
	return append(b.IDCells(), SizeColumn.Of(ui.Size(b.Size)), Column{Head: "EVIDENCE"}.Of(b.evidence))
}

// A BundledRemoval is a package that a bundle removes from the mirror into which it is imported.
type BundledRemoval struct {
	Typed `type:"bundled_removal"`
	PackageID
	ZH sources.Hash `json:"zh"`
}

// Cells implements [Row].
func (r BundledRemoval) Cells(*Output) []Cell { return marked(removedMark, r.IDCells()...) }

// removedMark is the first cell of rows of packages that are removed.
var removedMark = ui.Removed.Of(" -")

// BundledRemovals shows the packages that a bundle removes.
func (o *Output) BundledRemovals(removed []bundle.Package) {
	GridOf(o, removed, func(p bundle.Package) BundledRemoval { return BundledRemoval{Typed{}, InJSON(p.ID), p.ZH} })
}

// Bundled shows the packages, the payload and the removals of a manifest.
func (o *Output) Bundled(m bundle.Manifest) {
	GridOf(o, m.Packages, func(p bundle.Package) Bundled {
		row := Bundled{Typed{}, InJSON(p.ID), p.Path(), p.Size, p.ZH, p.H1, "no signed checksums"}
		if m.Evidenced(p.ID.Release()) {
			row.evidence = "signed checksums"
		}
		return row
	})
	o.Payload(m.Payload, "")
	o.BundledRemovals(m.Removed)
}

// A BundleSum is the summary of a job that makes or shows a bundle.
type BundleSum struct {
	File      string `json:"file"`
	ID        string `json:"id"`
	Packages  int    `json:"packages"`
	Size      int64  `json:"size"`
	Base      int    `json:"base"`
	Payloads  int    `json:"payloads,omitempty"`
	Removed   int    `json:"removed,omitempty"`   // packages that the import removes
	Unchanged bool   `json:"unchanged,omitempty"` // the file had the same contents
	DryRun    bool   `json:"dry_run,omitempty"`
}

// BundleSumOf returns the summary of a bundle in a file.
func BundleSumOf(file string, m bundle.Manifest, dryRun bool) BundleSum {
	return BundleSum{
		File: file, ID: m.ID(), Packages: len(m.Packages), Size: m.Size(), Base: len(m.Base), Payloads: len(m.Payload),
		Removed: len(m.Removed), DryRun: dryRun,
	}
}

// ContentsText describes the contents of a bundle, and the bundle that a delta requires: "3 packages,
// 80 MB, modules of 2 root modules and tofu (91 MB), for a mirror that has 5 packages already".
func ContentsText(m bundle.Manifest) string {
	text := ui.Count(len(m.Packages), "package") + ", " + ui.Size(m.Size())
	text += PayloadText(m.Payload) + RemovesText(m.Removed)
	if len(m.Set) > 0 {
		text += ", with a signed set"
	}
	if len(m.Base) > 0 {
		text += fmt.Sprintf(", for a mirror that has %s already", ui.Count(len(m.Base), "package"))
	}
	return text
}

// RemovesText describes what a bundle removes: ", and removes 2 packages".
func RemovesText(removed []bundle.Package) string {
	if len(removed) == 0 {
		return ""
	}
	return ", and removes " + ui.Count(len(removed), "package")
}

// A Manifest is the manifest of a mirror, as in files.
type Manifest struct {
	Typed `type:"manifest"`
	Of    bundle.Manifest
}

// MarshalJSON implements [json.Marshaler].
func (m Manifest) MarshalJSON() ([]byte, error) { return json.Marshal(json.RawMessage(m.Of.Text())) }

// marks are the first cells of rows, by what was done.
var marks = map[bundle.How]ui.Span{
	bundle.Added: ui.Added.Of(" +"), bundle.Replaced: ui.Changed.Of(" ~"), bundle.Vouched: ui.Changed.Of(" ~"),
	bundle.Known: {Text: "  "},
}

// howText describes what was done, or would be.
func howText(how bundle.How, planned bool) string {
	if planned && how == bundle.Vouched {
		return string(bundle.Known) + ", signed checksums would be added"
	}
	return Said(planned && how != bundle.Known, "would be ", "") + string(how)
}

// BundleImported shows the result for each package and payload, and returns the number of
// packages that were added. If planned is set, nothing was changed.
func (o *Output) BundleImported(imported bundle.Imported, planned bool) (added int) {
	sum := ImportSum{DryRun: planned}
	for _, a := range imported.Packages {
		if a.How == bundle.Known {
			sum.There++
			continue
		}
		sum.Packages++
		sum.Size += a.Size
		if a.How == bundle.Added {
			added++
		}
	}
	GridOf(o, imported.Packages, func(a bundle.Arrival) Imported {
		return Imported{
			PackageID: InJSON(a.ID), How: howText(a.How, planned), Verification: VerificationOf(a.Report),
			Path: a.Path(), Size: a.Size, ZH: a.ZH, H1: a.H1, did: a.How,
		}
	})
	placed := o.placed(imported.Placed, planned)
	sum.Payloads, sum.Removed, sum.Kept = len(placed), len(imported.Removed), len(imported.Kept)+len(imported.Others)
	GridOf(o, imported.Removed, func(e builder.Entry) MirrorRemoval {
		return MirrorRemoval{Typed{}, MirroredOf(e), planned, true}
	})
	for _, id := range imported.Others {
		o.Warn("%s: kept: it is not the package that the sender has removed", id)
	}
	o.Summary(sum)
	did := Said(planned, "Would import", "Imported")
	switch {
	case sum.Packages+sum.Payloads == 0:
		o.Say("%s", Also("Nothing to import", there(sum.There)))
	case sum.Packages == 0:
		o.Say("%s %s (%s)", did, payloadNames(placed), ui.Size(payloadSize(placed)))
	default:
		text := fmt.Sprintf("%s %s (%s)%s", did, ui.Count(sum.Packages, "package"), ui.Size(sum.Size), PayloadText(placed))
		o.Say("%s", Also(text, there(sum.There)))
	}
	const bySender = "that the sender has removed"
	if n := sum.Removed; n > 0 {
		did, size := Said(planned, "Would remove", "Removed"), BytesOf(imported.Removed)
		o.Say("%s %s %s, %s", did, ui.Count(n, "package"), bySender, size)
	}
	if n := len(imported.Kept); n > 0 {
		o.Say("%s %s %s", Said(planned, "Would keep", "Kept"), ui.Count(n, "package"), bySender)
	}
	return added
}

// A Payload is something in a bundle besides packages: the modules of a root module, or an engine.
type Payload struct {
	Typed  `type:"payload"`
	What   bundle.PayloadKind `json:"kind"`
	Root   string             `json:"root,omitempty"`
	Name   string             `json:"name,omitempty"`
	Files  int                `json:"files"`
	Size   int64              `json:"size"`
	SHA256 string             `json:"sha256,omitempty"`
	How    string             `json:"how,omitempty"`
	To     string             `json:"to,omitempty"`

	of  bundle.Payload
	did bundle.How // what was there before is shown with --verbose
}

// Cells implements [Row].
func (p Payload) Cells(o *Output) []Cell {
	if p.did == bundle.Known && o.Level != Verbose {
		return nil
	}
	number := Column{Right: true}
	return marked(marks[p.did], Column{Paint: ui.Bold}.Of(p.of.String()), number.Of(ui.Count(p.Files, "file")),
		number.Of(ui.Size(p.Size)), Column{}.Of(o.Shorten(p.To)))
}

// payloadOf returns payload. Did is what was done with it; it may be empty.
func payloadOf(p bundle.Payload, did bundle.How) Payload {
	v := Payload{What: p.Kind, Root: p.Root, Files: len(p.Files), Size: p.Size(), of: p, did: did}
	if p.Kind == bundle.EngineBinary {
		v.Name, v.SHA256 = p.Files[0].Name, hex.EncodeToString(p.Files[0].SHA256[:])
	}
	return v
}

// Payload shows the payload of a bundle, with the checksum of an engine for the import. Did is what was
// done with it; it may be empty.
func (o *Output) Payload(all []bundle.Payload, did bundle.How) {
	GridOf(o, all, func(p bundle.Payload) Payload { return payloadOf(p, did) })
	for _, p := range all {
		if p.Kind == bundle.EngineBinary {
			o.Say("SHA-256 of %s: %x", p.Files[0].Name, p.Files[0].SHA256)
		}
	}
}

// placed shows the result for each payload, and returns those that were put in place.
func (o *Output) placed(all []bundle.Placed, planned bool) (placed []bundle.Payload) {
	GridOf(o, all, func(p bundle.Placed) Payload {
		if p.How != bundle.Known {
			placed = append(placed, p.Payload)
		}
		row := payloadOf(p.Payload, p.How)
		row.How, row.To = howText(p.How, planned), p.To
		return row
	})
	return placed
}

// PayloadLeft shows payload that was not requested.
func (o *Output) PayloadLeft(all []bundle.Payload) {
	for _, p := range all {
		left := payloadOf(p, "")
		left.How = "not requested"
		o.Tell(left)
	}
	o.Say("The bundle also contains: %s", payloadNames(all))
}

// PayloadText describes payload at the end of a summary: ", modules of 2 root modules and
// tofu (91 MB)".
func PayloadText(all []bundle.Payload) string {
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf(", %s (%s)", payloadNames(all), ui.Size(payloadSize(all)))
}

func payloadSize(all []bundle.Payload) int64 { return bundle.Manifest{Payload: all}.PayloadSize() }

// payloadNames describes payload: "modules of 2 root modules and tofu".
func payloadNames(all []bundle.Payload) string {
	var parts []string
	roots := 0
	for _, p := range all {
		if p.Kind == bundle.RootModules {
			roots++
		} else {
			parts = append(parts, p.Files[0].Name)
		}
	}
	if roots > 0 {
		parts = append([]string{"modules of " + ui.Count(roots, "root module")}, parts...)
	}
	return strings.Join(parts, " and ")
}
