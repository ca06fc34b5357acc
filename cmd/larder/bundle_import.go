package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

func bundleImportCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "add the packages in a bundle to a mirror",
		ArgsUsage: "FILE... DIR [FLAG...]",
		UsageText: "larder bundle import usb.tar ./mirror",
		Description: "Verifies everything before it changes DIR, which is created if missing. The parts\n" +
			"of a bundle can be imported together or one after another. A bundle made with\n" +
			"--since is refused if DIR lacks packages that it builds on.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "modules-to", Usage: "`DIR` directory with the root modules, for the modules"},
			&cli.StringFlag{Name: "engine-to", Usage: "`DIR` directory for the engine's executable"},
			&cli.StringFlag{Name: "engine-sha256", Usage: "`SUM` that the engine must have, for --engine-to"},
			&cli.BoolFlag{Name: "replace", Usage: "replace modules and an engine that differ"},
			writeConfigFlag(),
			dryRunFlag("verify everything, change nothing"),
		}, trustFlags()),
		Action: func(c *cli.Context) error { return bundleImport(c, out) },
	}
}

// bundleImport verifies all files before it changes anything.
func bundleImport(c *cli.Context, out *ui.Output) error {
	if c.NArg() < 2 || slices.Contains(c.Args().Slice(), "") {
		return usageError{errors.New("bundle import needs the FILE of a bundle, or of each of its parts, and the DIR of a mirror")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	paths := m.files(c.Args().Slice())
	files, dir := paths[:len(paths)-1], paths[len(paths)-1]
	if info, err := os.Stat(dir); err == nil && !info.IsDir() || err != nil && filepath.Ext(dir) == ".tar" {
		return usageError{sources.WithHint(fmt.Errorf("%s is not the directory of a mirror", dir), "write the DIR of the mirror last: larder bundle import FILE DIR")}
	}
	if err := m.noCache(dir); err != nil {
		return err
	}
	config, err := m.newMirrorConfig(c, dir)
	if err != nil {
		return err
	}
	modulesTo, err := m.placeFor(c, "modules-to")
	if err != nil {
		return err
	}
	engineTo, err := m.placeFor(c, "engine-to")
	if err != nil {
		return err
	}
	engineSum, err := engineSHA256(c)
	if err != nil {
		return err
	}
	if modulesTo != "" && m.config.DataDir != filepath.Join(m.dir, bundle.DataPath) {
		out.Warn("modules are put into %s, where engines with this TF_DATA_DIR do not find them", bundle.DataPath)
	}
	dry := c.Bool("dry-run")
	key, err := m.recordKey()
	if err != nil {
		return err
	}
	imported, err := ui.Work(out, func(report ui.Report) (bundle.Imported, error) {
		return bundle.Import(c.Context, files, dir, bundle.ImportOptions{
			Key: key, Check: m.known(files[0]), Accept: func(all []bundle.Verified) error { return m.accept(bundledAs(all)) }, Judge: m.bundleJudge(), DryRun: dry, Report: report, Warn: out.WarnOf,
			Waiting: out.WaitingForMirror(dir), LockTimeout: m.flags.lockTimeout,
			ModulesTo: modulesTo, EngineTo: engineTo, EngineSHA256: engineSum, Replace: c.Bool("replace"),
		})
	})
	if err != nil {
		return err
	}
	added := m.tellImported(imported, dry)
	m.tellLeft(imported)
	if dry {
		return nil
	}
	total, err := m.tellTotal(c.Context, dir)
	if err != nil {
		return err
	}
	return m.finish(config, total.packages == added)
}

// placeFor reads a flag that names a directory for payloads. It returns "" without the flag.
func (m *rootModule) placeFor(c *cli.Context, name string) (string, error) {
	switch {
	case !c.IsSet(name):
		return "", nil
	case c.String(name) == "":
		return "", usageError{fmt.Errorf("--%s is empty", name)}
	}
	return absolute(m.dir, c.String(name)), nil
}

// engineSHA256 reads the checksum without which no engine is put anywhere, because nothing in a
// bundle is signed.
func engineSHA256(c *cli.Context) (sum [sha256.Size]byte, err error) {
	switch {
	case c.IsSet("engine-to") != c.IsSet("engine-sha256"):
		err := errors.New("--engine-to and --engine-sha256 need each other")
		return sum, usageError{sources.WithHint(err, "larder bundle create prints the SHA-256: ask the sender")}
	case !c.IsSet("engine-to"):
		return sum, nil
	}
	text := c.String("engine-sha256")
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(sum) {
		return sum, usageError{fmt.Errorf("--engine-sha256: %q is not a SHA-256 of 64 hexadecimal digits", text)}
	}
	return [sha256.Size]byte(data), nil
}

// tellTotal prints the totals of the mirror.
func (m *rootModule) tellTotal(ctx context.Context, dir string) (mirrorTotal, error) {
	if m.out.JSON {
		return mirrorTotal{}, nil
	}
	b, err := m.openMirror(ctx, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return mirrorTotal{}, err
	}
	total, err := totalOf(ctx, b)
	if err == nil {
		m.out.Say("%s", total.text(dir))
	}
	return total, errors.Join(err, b.Close())
}

// tellLeft prints how to get the payloads that were not requested.
func (m *rootModule) tellLeft(imported bundle.Imported) {
	if len(imported.Left) == 0 {
		return
	}
	flags := map[bundle.PayloadKind]string{bundle.RootModules: "--modules-to DIR", bundle.EngineBinary: "--engine-to DIR --engine-sha256 SUM"}
	var add []string
	for _, p := range imported.Left {
		if flag := flags[p.Kind]; !slices.Contains(add, flag) {
			add = append(add, flag)
		}
	}
	if m.out.JSON {
		for _, p := range imported.Left {
			info := payloadOf(p)
			info.How = "not requested"
			m.out.Object("payload", info)
		}
	}
	m.out.Say("The bundle also contains: %s", payloadText(imported.Left))
	m.out.Hint("to import that too, run the command again with %s", strings.Join(add, " and "))
}

// arrivedPackage is a package that was imported, in JSON.
type arrivedPackage struct {
	bundledPackage
	How string `json:"how"`
	ui.Verification
}

// tellImported prints the result for each package and payload, and returns the number of
// packages that were added. If planned is set, nothing was changed.
func (m *rootModule) tellImported(imported bundle.Imported, planned bool) (added int) {
	sum := importSummary{DryRun: planned}
	var rows []ui.Row
	for _, a := range imported.Packages {
		switch a.How {
		case bundle.Known:
			sum.There++
		case bundle.Added:
			added++
			fallthrough
		default:
			sum.Packages++
			sum.Size += a.Size
		}
		if a.How == bundle.Known && !m.out.JSON && m.out.Level != ui.Verbose {
			continue
		}
		rows = append(rows, ui.Row{
			Value: arrivedPackage{bundled(a.Package), howText(a.How, planned), ui.VerificationOf(a.Report)},
			Cells: []ui.Span{
				marks[a.How], {Text: m.out.Name(a.ID.Provider), Paint: ui.Bold}, {Text: a.ID.Version.String()}, {Text: a.ID.Platform.String()},
				{Text: ui.Size(a.Size)}, {Text: ui.VerifiedAs(a.Report)},
			},
		})
	}
	m.out.Grid("imported", []ui.Column{{}, {Shorten: true}, {}, {Drop: 1}, {Right: true, Drop: 2}, {Shorten: true, Brief: ui.WithoutKey}}, rows)
	placed := m.tellPlaced(imported.Placed, planned)
	sum.Payloads = len(placed)
	m.out.Summary(sum)
	did := "Imported"
	if planned {
		did = "Would import"
	}
	switch {
	case sum.Packages+sum.Payloads == 0:
		m.out.Say("Nothing to import%s", there(sum.There))
	case sum.Packages == 0:
		m.out.Say("%s %s (%s)", did, payloadText(placed), ui.Size(payloadSize(placed)))
	default:
		m.out.Say("%s %s (%s)%s%s", did, ui.Count(sum.Packages, "package"), ui.Size(sum.Size), withPayload(placed), there(sum.There))
	}
	return added
}

// tellPlaced prints the result for each payload, and returns those that were put in place.
func (m *rootModule) tellPlaced(all []bundle.Placed, planned bool) (placed []bundle.Payload) {
	var rows []ui.Row
	for _, p := range all {
		if p.How != bundle.Known {
			placed = append(placed, p.Payload)
		} else if !m.out.JSON && m.out.Level != ui.Verbose {
			continue
		}
		row := payloadRow(p.Payload, marks[p.How])
		info := payloadOf(p.Payload)
		info.How, info.To = howText(p.How, planned), p.To
		row.Value, row.Cells[len(row.Cells)-1] = info, ui.Span{Text: m.out.Shorten(p.To)}
		rows = append(rows, row)
	}
	m.out.Grid("payload", payloadColumns, rows)
	return placed
}

// howText describes what was done, or would be.
func howText(how bundle.How, planned bool) string {
	if planned && how != bundle.Known {
		return "would be " + string(how)
	}
	return string(how)
}

// importSummary is the summary of an import, in JSON.
type importSummary struct {
	Packages int   `json:"packages"` // imported, or that would be imported
	Size     int64 `json:"size"`
	There    int   `json:"already_there"`
	Payloads int   `json:"payloads,omitempty"` // as packages
	DryRun   bool  `json:"dry_run,omitempty"`
}
