package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/disk"
)

func shimCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "shim",
		Category:  forModules,
		Usage:     "run larder exec for other programs",
		ArgsUsage: "DIR [FLAG...]",
		UsageText: "larder shim ~/.local/lib/larder",
		Description: "Links terraform and tofu in DIR to larder. Run by these names, it does what\n" +
			"larder exec does, with the next program of that name on PATH.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "remove", Usage: "remove the links"},
			dryRunFlag("show what would be linked or removed"),
		},
		Action: func(c *cli.Context) error { return shim(c, out) },
	}
}

// shim links the engines' names to this program, or removes the links.
func shim(c *cli.Context, out *ui.Output) error {
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	if c.NArg() != 1 || c.Args().First() == "" {
		return usageError{errors.New("shim needs one directory")}
	}
	dir := absolute(s.dir, c.Args().First())
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	larder, err := ownPath(s.dir)
	if err != nil {
		return err
	}
	change := link
	if c.Bool("remove") {
		change = unlink
	}
	var paths []string
	for _, engine := range engineNames {
		path := filepath.Join(dir, s.machine.ProgramFile(string(engine)))
		did, err := change(path, larder, true) // changes nothing, so that no link is created beside an error
		if err != nil {
			return err
		}
		if did != "" {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		did, err := change(path, larder, s.flags.dryRun)
		if err != nil {
			return err
		}
		out.Result("shim", shimLink{path, larder, did, s.flags.dryRun}, "%s  %s", out.Shorten(path), did)
	}
	changed := len(paths)
	out.Summary(shimSummary{changed, s.flags.dryRun})
	switch {
	case c.Bool("remove") && changed == 0:
		out.Say("There is no link to larder in %s", dir)
	case !c.Bool("remove"):
		s.checkPath(dir)
	}
	return nil
}

// A shimLink describes a changed link, in JSON.
type shimLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
	Did    string `json:"did"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// A shimSummary is the summary in JSON.
type shimSummary struct {
	Links  int  `json:"links"` // created or removed
	DryRun bool `json:"dry_run,omitempty"`
}

// unlink removes a link to larder.
func unlink(path, larder string, dryRun bool) (did string, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if !isShim(path, larder) {
		return "", noShim(path)
	}
	if dryRun {
		return "removed", nil
	}
	dir, err := disk.Open(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return "removed", dir.Remove(filepath.Base(path))
}

// checkPath explains how to use the links in dir, and warns if PATH has no engine behind them.
func (s *session) checkPath(dir string) {
	found := false
	for _, engine := range engineNames {
		for i, program := range s.machine.Programs(string(engine)) {
			switch first := filepath.Dir(program) == dir; {
			case first && i == 0:
				found = true
			case first:
				s.out.Warn("%s comes before %s on PATH, so %s runs without larder", filepath.Dir(s.machine.Programs(string(engine))[0]), dir, engine)
				return
			}
		}
	}
	if !found {
		s.out.Say("To use it, put the directory in front of PATH:")
		s.out.Copy("  export PATH=" + dir + string(os.PathListSeparator) + "$PATH")
	}
}
