package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func shimCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "shim",
		Category:  forModules,
		Usage:     "run larder exec for other programs",
		ArgsUsage: "DIR [FLAG...]",
		UsageText: "larder shim ~/.local/lib/larder",
		Description: "Links terraform and tofu in DIR to larder. Run by these names, it does what\n" +
			"larder exec does, with the next program of that name on PATH. With --engine-path,\n" +
			"DIR gets a script for one engine, which runs without PATH.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: enginePath, Usage: "`FILE` engine to run, instead of the next one on PATH"},
			&cli.BoolFlag{Name: "remove", Usage: "remove the links and scripts"},
			dryRunFlag("show what would be created or removed"),
		},
		Action: func(c *cli.Context) error { return shim(c, out) },
	}
}

// shim creates shims, or removes them.
func shim(c *cli.Context, out *ui.Output) error {
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	if c.NArg() != 1 || c.Args().First() == "" {
		return usageError{errors.New("shim needs one directory")}
	}
	if err := exclusive(c, enginePath, "remove"); err != nil {
		return err
	}
	dir := absolute(s.dir, c.Args().First())
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	larder, err := ownPath(s.dir)
	if err != nil {
		return err
	}
	wanted, err := s.wantedShims(c, dir, larder)
	if err != nil {
		return err
	}
	var changed []wantedShim
	for _, w := range wanted {
		did, err := w.change(larder, true) // changes nothing, so that no shim is created beside an error
		if err != nil && c.Bool("remove") {
			continue // it isn't larder's
		}
		if err != nil {
			return err
		}
		if did != "" {
			changed = append(changed, w)
		}
	}
	for _, w := range changed {
		did, err := w.change(larder, s.flags.dryRun)
		if err != nil {
			return err
		}
		out.Result("shim", shimLink{w.path, larder, did, s.flags.dryRun}, "%s  %s", out.Shorten(w.path), did)
	}
	out.Summary(shimSummary{len(changed), s.flags.dryRun})
	switch {
	case c.Bool("remove") && len(changed) == 0:
		out.Say("There is no link to larder in %s", dir)
	case c.IsSet(enginePath):
		out.Say("To use it, run %s instead of the engine", wanted[0].path)
	case !c.Bool("remove"):
		s.checkPath(dir)
	}
	return nil
}

// wantedShims returns what is to be in dir. The names of links and scripts differ on Windows only: what
// has the other name there is removed.
func (s *session) wantedShims(c *cli.Context, dir, larder string) (all []wantedShim, err error) {
	engine, script := sources.Engine(""), ""
	if c.IsSet(enginePath) {
		if engine, script, err = s.shimScript(absolute(s.dir, c.String(enginePath)), larder); err != nil {
			return nil, err
		}
	}
	for _, name := range engineNames {
		if script != "" && name != engine {
			continue
		}
		link := wantedShim{path: filepath.Join(dir, s.machine.ProgramFile(string(name)))}
		other := wantedShim{path: filepath.Join(dir, s.machine.ScriptFile(string(name))), script: true}
		switch {
		case script != "":
			other.content = script
		case !c.Bool("remove"):
			link.content = larder
		}
		if other.content != "" {
			link, other = other, link
		}
		all = append(all, link)
		if other.path != link.path {
			all = append(all, other)
		}
	}
	return all, nil
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

// checkPath explains how to use the shims in dir, and warns about engines that PATH has before them.
func (s *session) checkPath(dir string) {
	used, warned, manager := false, false, ""
	for _, engine := range engineNames {
		programs := s.machine.Programs(string(engine))
		i := slices.IndexFunc(programs, func(program string) bool { return filepath.Dir(program) == dir })
		used = used || i >= 0
		if len(programs) == 0 || i == 0 {
			continue
		}
		first, from := filepath.Dir(programs[0]), managerOf(programs[0])
		manager = cmp.Or(from, manager)
		switch {
		case i > 0 && from != "":
			s.out.Warn("%s of %s, in %s, comes before %s on PATH, so it runs without larder", engine, from, first, dir)
		case i > 0:
			s.out.Warn("%s comes before %s on PATH, so %s runs without larder", first, dir, engine)
		}
		warned = warned || i > 0
	}
	if used && !warned {
		return
	}
	s.out.Say("To use it, put the directory in front of PATH:")
	s.out.Copy("  export PATH=" + dir + string(os.PathListSeparator) + "$PATH")
	if manager != "" {
		s.out.Say("Write this after the line that sets up %s in your shell's configuration.", manager)
	}
}
