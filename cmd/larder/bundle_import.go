package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/trust"
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
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "write-config", Usage: "`FILE` CLI configuration to write that uses the mirror"},
			trustKeyFlag(),
			dryRunFlag("verify everything, change nothing"),
		},
		Action: func(c *cli.Context) error { return bundleImport(c, out) },
	}
}

// bundleImport verifies all files before it changes the mirror. --write-config is
// checked before that too: a run that takes an hour must not fail at its end because of
// a file that was there from the start.
func bundleImport(c *cli.Context, out *ui.Output) error {
	if c.NArg() < 2 || slices.Contains(c.Args().Slice(), "") {
		return usageError{errors.New("bundle import needs the FILE of a bundle, or of each of its parts, and the DIR of a mirror")}
	}
	if c.IsSet("write-config") && c.String("write-config") == "" {
		return usageError{errors.New("--write-config is empty")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	paths := m.files(c.Args().Slice())
	files, dir := paths[:len(paths)-1], paths[len(paths)-1]
	if err := m.noCache(dir); err != nil {
		return err
	}
	config := mirrorConfig{dir: dir}
	if name := c.String("write-config"); name != "" {
		config.path = absolute(m.dir, name)
		if err := config.check(); err != nil {
			return err
		}
	}
	dry := c.Bool("dry-run")
	key, err := m.recordKey()
	if err != nil {
		return err
	}
	arrivals, err := ui.Work(out, func(report ui.Report) ([]bundle.Arrival, error) {
		return bundle.Import(c.Context, files, dir, bundle.ImportOptions{
			Key: key, Check: m.known(files[0]), Vouch: m.vouchImport, Merge: m.mergeEvidence, Compare: m.compareKeys, DryRun: dry, Report: report, Warn: out.WarnOf,
			Waiting: out.WaitingForMirror(dir), LockTimeout: m.flags.lockTimeout,
		})
	})
	if err != nil {
		return err
	}
	m.tellImported(arrivals, dry)
	if config.path == "" || dry {
		return nil
	}
	if err := config.write(); err != nil {
		return err
	}
	out.Say("wrote %s; engines use it with TF_CLI_CONFIG_FILE=%s", config.path, c.String("write-config"))
	return nil
}

// vouchImport judges the evidence in a bundle, or in the mirror, which may have it from
// a registry.
func (m *rootModule) vouchImport(s sources.Stored) (trust.Report, error) {
	opts := m.trustFor(s.ID.Provider)
	opts.Carrier = trust.FromBundle
	return trust.VerifyArchive(s.Signed, s.ZH, opts)
}

// arrivedPackage is a package that was imported, in JSON.
type arrivedPackage struct {
	bundledPackage
	How     string `json:"how"`
	Verdict string `json:"verdict"`
	ui.Signature
}

// tellImported writes what became of each package. With planned, nothing was changed.
func (m *rootModule) tellImported(arrivals []bundle.Arrival, planned bool) {
	news, size := 0, int64(0)
	for _, a := range arrivals {
		how := string(a.How)
		if a.How != bundle.Known {
			news++
			size += a.Size
			if planned {
				how = "would be " + how
			}
		}
		m.out.Result("imported", arrivedPackage{bundled(a.Package), how, a.Verdict.String(), ui.SignatureOf(a.Report)}, "%s  %s, %s", a.ID, how, ui.SignedBy(a.Verdict, a.Report.KeyID))
	}
	did := "imported"
	if planned {
		did = "would import"
	}
	m.out.Say("%s %s, %s; %d already there", did, ui.Count(news, "package"), ui.Size(size), len(arrivals)-news)
}

// A mirrorConfig is a CLI configuration by which engines take all providers from a
// mirror, and from no other source.
type mirrorConfig struct{ path, dir string }

// maxConfig is more bytes than the configuration that larder writes has.
const maxConfig = 1 << 20

// configMark is the first line of a configuration that may be replaced.
const configMark = "# Written by larder bundle import, which may write it again."

// text is the configuration. It fails for a directory whose name cannot be written in
// HCL.
func (f mirrorConfig) text() ([]byte, error) {
	if strings.ContainsFunc(f.dir, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return nil, fmt.Errorf("%q cannot be named in a CLI configuration", f.dir)
	}
	// Not even a path is safe from being taken for a template.
	path := strings.ReplaceAll(strconv.QuoteToGraphic(f.dir), "$", `\u0024`)
	return fmt.Appendf(nil, "%s\ndisable_checkpoint = true\n\nprovider_installation {\n  filesystem_mirror {\n    path = %s\n  }\n}\n", configMark, path), nil
}

// check refuses to replace a file that larder has not written.
func (f mirrorConfig) check() error {
	if _, err := f.text(); err != nil {
		return err
	}
	old, err := disk.ReadFile(f.path, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err := os.Stat(filepath.Dir(f.path))
		return err
	case err != nil:
		return err
	case !bytes.HasPrefix(old, []byte(configMark)):
		err := fmt.Errorf("%s is there already, and larder has not written it", f.path)
		return sources.WithHint(err, "name another file, or write a filesystem_mirror block for the mirror into this one")
	}
	return nil
}

// write makes the file, by rename.
func (f mirrorConfig) write() error {
	text, err := f.text()
	if err != nil {
		return err
	}
	return disk.WriteFile(f.path, text, disk.Synced)
}
