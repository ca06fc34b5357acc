package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/trust"
)

func bundleCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "bundle",
		Usage:     "carry mirrors, or what is new in them, in files",
		ArgsUsage: "COMMAND [FLAG...]",
		Description: "A bundle is a plain tar: what tar makes of it is a mirror, too. \"larder help\n" +
			"bundle COMMAND\" tells more.",
		Subcommands: []*cli.Command{
			bundleCreateCommand(out), bundleShowCommand(out), bundleVerifyCommand(out),
			bundleImportCommand(out), bundleManifestCommand(out),
		},
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("bundle " + c.Args().First())
			}
			return usageError{errors.New("bundle needs a command: create, show, verify, import or manifest")}
		},
	}
}

// A carrier is who deals with bundles.
type carrier struct {
	*rootModule
	key seal.Key
}

// newCarrier reads the global flags, and the configuration for what it says of
// signatures.
func newCarrier(c *cli.Context, out *ui.Output) (carrier, error) {
	s, err := newSession(c, out)
	if err != nil {
		return carrier{}, err
	}
	return s.carrier(c, out)
}

func (s *session) carrier(c *cli.Context, out *ui.Output) (carrier, error) {
	m, err := s.root(c.Context, s.dir, out)
	if err != nil {
		return carrier{}, err
	}
	key, err := m.recordKey()
	return carrier{m, key}, err
}

// known refuses a package of a bundle that is not the one that was verified here before.
func (k carrier) known(from string) func(bundle.Package) error {
	memory := k.memory()
	return func(p bundle.Package) error {
		if memory == nil {
			return nil
		}
		return installer.CheckRepublished(memory, sources.Stored{ID: p.ID, ZH: p.ZH, H1: p.H1}, from)
	}
}

// vouchBundle judges the evidence in a bundle.
func (k carrier) vouchBundle(s sources.Stored) (trust.Report, error) {
	opts := k.trustFor(s.ID.Provider)
	opts.Carrier = trust.FromBundle
	return trust.VerifyCarried(s.Signed, s.ZH, opts)
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

func bundled(p bundle.Package) bundledPackage {
	return bundledPackage{ui.InJSON(p.ID), p.Path(), p.Size, p.ZH, p.H1, p.Part}
}

// bundleInfo is a bundle as a whole, in JSON.
type bundleInfo struct {
	File     string `json:"file"`
	ID       string `json:"id"`
	Part     int    `json:"part,omitempty"`
	Parts    int    `json:"parts,omitempty"`
	Packages int    `json:"packages"`
	Size     int64  `json:"size"`
	Base     int    `json:"base"`
}

func infoOf(file string, m bundle.Manifest) bundleInfo {
	return bundleInfo{file, m.ID(), m.Part, m.Parts, len(m.Packages), m.Size(), len(m.Base)}
}

func bundleShowCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "tell what a bundle says of itself",
		ArgsUsage: "FILE [FLAG...]",
		Description: "Lists the packages of the bundle, those in other parts of it included. Reads no\n" +
			"package: \"larder bundle verify\" does.",
		Action: func(c *cli.Context) error { return bundleShow(c, out) },
	}
}

func bundleShow(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 1 {
		return usageError{errors.New("bundle show takes one FILE")}
	}
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	b, err := bundle.Open(absolute(s.dir, c.Args().First()))
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest
	evidence := map[bundle.Release]bool{}
	for _, e := range m.Evidence {
		evidence[e.Release] = true
	}
	var rows [][]string
	for _, p := range m.Packages {
		vouched := map[bool]string{true: "evidence", false: "no evidence"}[evidence[bundle.Release{Provider: p.ID.Provider, Version: p.ID.Version}]]
		row := []string{p.ID.String(), ui.Size(p.Size), vouched}
		if m.Parts > 0 {
			row = append(row, fmt.Sprintf("part %d", p.Part))
		}
		rows = append(rows, row)
	}
	out.Table("bundled", rows, func(i int) any { return bundled(m.Packages[i]) })
	if out.JSON {
		out.Object("bundle", infoOf(b.Name(), m))
	}
	if m.Parts > 0 {
		out.Say("this is part %d of %d", m.Part, m.Parts)
	}
	out.Say("%s, %s%s", ui.Count(len(m.Packages), "package"), ui.Size(m.Size()), basedOn(m))
	return nil
}

// basedOn says what a delta builds on.
func basedOn(m bundle.Manifest) string {
	if len(m.Base) == 0 {
		return ""
	}
	return fmt.Sprintf(", for a mirror that has %s already", ui.Count(len(m.Base), "package"))
}

func bundleVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "read all of a bundle and name what is wrong",
		ArgsUsage: "FILE... [FLAG...]",
		Description: "Hashes each package and its contents, and checks the signed checksums that came\n" +
			"with it. Of a bundle in parts, all are needed. Opens no connection and changes\n" +
			"nothing. Exit status: 0 all is well, 1 it could not be told, 3 something was\n" +
			"found.",
		Flags:  []cli.Flag{trustKeyFlag()},
		Action: func(c *cli.Context) error { return bundleVerify(c, out) },
	}
}

func bundleVerify(c *cli.Context, out *ui.Output) error {
	if !c.Args().Present() {
		return usageError{errors.New("bundle verify needs the FILE of a bundle, or of each of its parts")}
	}
	k, err := newCarrier(c, out)
	if err != nil {
		return err
	}
	var v bundle.Verification
	err = k.out.Work(func(report func(done, of int64)) (err error) {
		v, err = bundle.Verify(c.Context, k.files(c.Args().Slice()), bundle.VerifyOptions{Vouch: k.vouchBundle, Report: report})
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.File, f.Package, f.Err.Error()), "%s", out.Shorten(f.Error()))
	}
	verdicts := map[sources.Verdict]int{}
	var all []ui.Checked
	for _, p := range v.Packages {
		verdicts[p.Verdict]++
		all = append(all, ui.CheckedOf(p.ID, p.Verdict, p.Report))
	}
	out.Checked(all)
	out.Say("verified %s, %s%s", ui.Count(len(v.Packages), "package"), ui.Size(v.Bytes), verdictTally(verdicts))
	out.Keys(all, "bundle")
	if n := len(v.Findings); n > 0 {
		return foundError{sources.WithHint(fmt.Errorf("%s found wrong", ui.Count(n, "thing")), "copy the bundle again, or ask for another; larder bundle import refuses it as it is")}
	}
	return nil
}

// verdictTally says how often there is each verdict, the best first.
func verdictTally(verdicts map[sources.Verdict]int) string {
	text := ""
	for v := sources.SignedByHashiCorp; v >= sources.Unverified; v-- {
		if n := verdicts[v]; n > 0 {
			text += fmt.Sprintf("; %d %s", n, v)
		}
	}
	return text
}

// files are the paths of files as typed.
func (s *session) files(typed []string) []string {
	var all []string
	for _, file := range typed {
		all = append(all, absolute(s.dir, file))
	}
	return all
}

func bundleManifestCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "manifest",
		Usage:     "tell what a mirror has, for who makes bundles for it",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Writes JSON, for \"larder bundle create --since\" on the other side. Reads only\n" +
			"those packages that have changed since they were last looked at.",
		Action: func(c *cli.Context) error { return bundleManifest(c, out) },
	}
}

func bundleManifest(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 1 {
		return usageError{errors.New("bundle manifest takes the directory of one mirror")}
	}
	k, err := newCarrier(c, out)
	if err != nil {
		return err
	}
	var m bundle.Manifest
	err = k.out.Work(func(func(done, of int64)) (err error) {
		m, err = bundle.Describe(c.Context, absolute(k.dir, c.Args().First()), k.key, k.out.WarnOf)
		return err
	})
	if err != nil {
		return err
	}
	if out.JSON {
		out.Object("manifest", json.RawMessage(m.Text()))
		return nil
	}
	_, err = io.Copy(out.Stdout, bytes.NewReader(m.Text()))
	return err
}

// readManifest reads a manifest from a file.
func readManifest(path string) (bundle.Manifest, error) {
	data, err := disk.ReadFile(path, bundle.MaxManifest)
	if err != nil {
		return bundle.Manifest{}, err
	}
	m, err := bundle.ParseManifest(data)
	if err != nil {
		err = sources.WithHint(fmt.Errorf("%s: %w", path, err), "larder bundle manifest DIR writes one, where the mirror is")
	}
	return m, err
}
