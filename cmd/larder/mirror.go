package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:     "mirror",
		Category: forMirrors,
		Usage:    "make mirrors, and list, verify and prune them",
		Subcommands: []*cli.Command{
			mirrorSyncCommand(out), mirrorListCommand(out), mirrorVerifyCommand(out),
			mirrorIndexCommand(out), mirrorPruneCommand(out), mirrorDiffCommand(out),
		},
	}
}

// mirrorArgument returns the directory of the mirror. It must be the only argument, unless
// patterns follow it.
func (s *session) mirrorArgument(c *cli.Context) (string, error) {
	takesMore := strings.Contains(c.Command.ArgsUsage, "PATTERN")
	if c.NArg() != 1 && !(takesMore && c.NArg() > 1) || c.Args().First() == "" {
		return "", usageError{fmt.Errorf("%s needs one directory, that of the mirror", commandPath(c.Command))}
	}
	return s.existing(c.Args().First())
}

// existing returns the directory of an existing mirror.
func (s *session) existing(dir string) (string, error) {
	dir = absolute(s.dir, dir)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return "", sources.WithHint(err, "name the directory of a mirror; larder mirror sync creates one")
	}
	return dir, nil
}

// mirrorHere returns the mirror in dir, with the configuration for the working directory. It
// fails for a plugin cache if the command changes the mirror.
func mirrorHere(c *cli.Context, out *ui.Output, opts builder.Options) (*rootModule, *builder.Builder, error) {
	m, err := here(c, out)
	if err != nil {
		return nil, nil, err
	}
	dir, err := m.mirrorArgument(c)
	if err != nil {
		return nil, nil, err
	}
	if !opts.ReadOnly {
		if err := cmp.Or(m.noCache(dir), checkMirror(dir)); err != nil {
			return nil, nil, err
		}
	}
	b, err := m.openMirror(c.Context, dir, opts)
	return m, b, err
}

// checkMirror returns an error if a directory is not a mirror. Larder would leave its own files
// there.
func checkMirror(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil // opening the mirror reports it
	}
	if _, err := os.Lstat(filepath.Join(dir, ".larder")); err == nil || hasBelow(dir, "*/*/*.zip") || hasBelow(dir, "*/*/*/*_*") {
		return nil
	}
	return sources.WithHint(fmt.Errorf("%s is not a mirror: it contains no packages", dir), "larder mirror sync makes a mirror")
}

// mirrored is a package in a mirror, in JSON.
type mirrored struct {
	ui.PackageID
	Path     string `json:"path"`
	Unpacked bool   `json:"unpacked"`
	Size     int64  `json:"size"`
	Since    string `json:"since"`
	ui.Verification
	Changed  bool     `json:"changed,omitempty"`
	Evidence bool     `json:"evidence"`
	Hashes   []string `json:"hashes,omitempty"`
	Origin   string   `json:"origin,omitempty"`
}

// mirroredAs returns an entry of a mirror for JSON.
func mirroredAs(e builder.Entry) mirrored {
	return mirrored{
		PackageID: ui.InJSON(e.ID), Path: e.Path, Unpacked: e.Unpacked, Size: e.Size, Since: e.Since.UTC().Format("2006-01-02T15:04:05Z"),
		Changed: e.Stored.Differs != "", Evidence: e.Evidence, Origin: e.Origin, Hashes: sources.Texts(e.Hashes), Verification: ui.VerificationOf(e.Stored.Report),
	}
}

// mirrorColumns are the columns of mirrorRows.
func mirrorColumns() []ui.Column {
	return []ui.Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Drop: 1},
		{Head: "SIZE", Right: true}, {Head: "ADDED", Drop: 3}, {Head: "VERIFIED AS", Brief: ui.WithoutKey, Drop: 2},
	}
}

// mirrorRows returns entries of a mirror as rows of a table.
func mirrorRows(out *ui.Output, entries []builder.Entry, value func(int, builder.Entry) any) []ui.Row {
	rows := make([]ui.Row, len(entries))
	for i, e := range entries {
		verdict := ui.VerifiedAs(e.Stored.Report)
		switch {
		case e.Stored.Differs != "":
			verdict = ui.ChangedSince
		case e.Evidence && !e.Stored.Proof.Any():
			verdict = "not verified on this machine"
		}
		if e.Unpacked {
			verdict += ", unpacked"
		}
		rows[i] = ui.Row{Value: value(i, e), Cells: []ui.Span{
			{Text: out.Name(e.ID.Provider), Paint: ui.Bold}, {Text: e.ID.Version.String()}, {Text: e.ID.Platform.String()},
			{Text: ui.Size(e.Size)}, {Text: ui.Since(e.Since, time.Now()), Paint: ui.Faint}, {Text: verdict},
		}}
	}
	return rows
}
