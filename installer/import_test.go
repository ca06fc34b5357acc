package installer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const wanted = "widget 1.0.0 linux_amd64"

// An export is the data of a package in an export file.
type export struct {
	sources.Payload
	sources.Provenance
}

// claimed returns a package in an export file with the contents text, and valid
// evidence.
func claimed(text string) export {
	p := sources.Package{Hashes: []sources.Hash{zh(text)}, Filename: "widget.zip"}
	signed(&p)
	var e export
	e.Imported = true
	e.ZH, e.Signed, e.Origin, e.Filename = zh(text), p.Signed, "bundle.tar", "invented.zip"
	e.Files = func(yield func(sources.Incoming, error) bool) {
		yield(sources.Incoming{Path: "text", Data: strings.NewReader(text)}, nil)
	}
	return e
}

func (e export) into(f *fixture) (installer.Outcome, error) {
	return installer.New(nil, f.store, nil, f.opts).Import(f.t.Context(), id(wanted), h1(wanted), e.Payload, e.Provenance)
}

// The claims about an imported package count only if the records of this machine
// confirm them.
func TestImport(t *testing.T) {
	mine := sources.Stored{ID: id(wanted), H1: h1(wanted), ZH: zh(wanted), Filename: "widget.zip", Proof: sources.Proof{Matched: true}}
	tests := []struct {
		name  string
		known func(*sources.Stored)
		edit  func(*export)
		want  string // verdict and whether the archive is known, or the error
	}{
		{"nothing is known", nil, nil, "hash only"},
		{"archive is known, evidence is not", func(*sources.Stored) {}, nil, "signed, key from the mirror, widget.zip, signed"},
		{"archive is known, nothing claimed", func(*sources.Stored) {}, func(p *export) { p.Signed = nil }, "hash only, widget.zip"},
		{"another archive is claimed", func(*sources.Stored) {}, func(p *export) { p.ZH = zh("another") }, "hash only"},
		{"no archive is claimed", func(*sources.Stored) {}, func(p *export) { p.ZH = "" }, "hash only"},
		{"archive is known, evidence is forged", func(*sources.Stored) {}, func(p *export) { p.Signed.Signature = []byte("forged") }, "bad signature"},
		{"archive is known, evidence is for others", func(*sources.Stored) {}, func(p *export) { p.Signed = claimed("another").Signed }, "not among the signed checksums"},
		{"contents of the archive are not known", func(s *sources.Stored) { s.ZH = "" }, nil, "hash only"},
		{"other contents are known", func(s *sources.Stored) { s.H1, s.ZH = h1("another"), zh("another") }, nil, "republished"},
		{"other contents of the same archive", func(s *sources.Stored) { s.H1 = h1("another") }, nil, "republished"},
		{"contents are others than claimed", nil, func(p *export) { p.Files = claimed("another").Files }, "should be h1:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			if test.known != nil {
				known := mine
				test.known(&known)
				f.store.known[id(wanted)] = known
			}
			from := claimed(wanted)
			if test.edit != nil {
				test.edit(&from)
			}
			o, err := from.into(f)
			if err != nil {
				sourcetest.Expect(t, strings.Contains(err.Error(), test.want) && f.store.has() == "",
					"got %v, stored %s", err, f.store.has())
				return
			}
			got := o.Package.Report.Verdict.String()
			if o.Package.ZH != "" {
				got += ", " + o.Package.Filename
			}
			if o.Package.Signed != nil {
				got += ", signed"
			}
			sourcetest.Equal(t, got, test.want)
			sourcetest.Equal(t, string(o.How)+o.Package.Origin, string(installer.Imported)+"bundle.tar")
		})
	}
}

// An archive is verified like that of a mirror, and its evidence counts.
func TestImportArchive(t *testing.T) {
	for text, want := range map[string]string{wanted: "signed, key from the mirror", "another": "should be zh:"} {
		f := newFixture(t)
		from := claimed(wanted)
		from.Files, from.Arriving, from.Imported = nil, strings.NewReader(text), false
		o, err := from.into(f)
		got := o.Package.Report.Verdict.String()
		if err != nil {
			got = err.Error()
		}
		sourcetest.Expect(t, strings.Contains(got, want) && (err == nil || f.store.has() == ""),
			"%s: got %s, stored %s", text, got, f.store.has())
	}
}

func TestImportKeepsStoredPackage(t *testing.T) {
	f := newFixture(t)
	f.store.keep(wanted, sources.SelfSigned, nil)
	from := claimed(wanted)
	from.Files = func(yield func(sources.Incoming, error) bool) { yield(sources.Incoming{}, errors.New("read")) }
	o, err := from.into(f)
	sourcetest.Expect(t, err == nil && o.How == installer.WasStored && o.Package.Report.Verdict == sources.SelfSigned,
		"got %+v, %v", o, err)
}
