package run

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

// A ShimRequest says what is to be in a directory of shims.
type ShimRequest struct {
	Dir    string // as typed
	Engine string // path of an engine for a script; empty for links with the names of engines
	Remove bool
}

// PutShims makes a directory have the shims of a request. It changes nothing if it can't make one of
// them.
func PutShims(s *site.Site, request ShimRequest) error {
	dir := site.Absolute(s.WorkDir, request.Dir)
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		err := fmt.Errorf("%s is not a directory", request.Dir)
		return sources.WithHint(err, "name a directory for the shims, created if missing")
	}
	larder, err := ownPath(s.WorkDir)
	if err != nil {
		return err
	}
	wanted, err := wantedShims(s, request, dir, larder)
	if err != nil {
		return err
	}
	var changed []wantedShim
	for _, w := range wanted {
		did, err := w.change(larder, true)
		if err != nil && request.Remove {
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
		did, err := w.change(larder, s.Flags.DryRun)
		if err != nil {
			return err
		}
		s.Output.Show(report.Shim{Path: w.path, Target: larder, Did: did, DryRun: s.Flags.DryRun})
	}
	s.Output.Summary(report.ShimSum{Links: len(changed), DryRun: s.Flags.DryRun})
	switch {
	case request.Remove && len(changed) == 0:
		s.Output.Say("There is no link to larder in %s", dir)
	case request.Engine != "":
		s.Output.Say("To use it, run %s instead of the engine", wanted[0].path)
	case !request.Remove:
		checkPath(s, dir)
	}
	return nil
}

// wantedShims returns what is to be in dir. The names of links and scripts differ on Windows only: what
// has the other name there is removed.
func wantedShims(s *site.Site, request ShimRequest, dir, larder string) (all []wantedShim, err error) {
	engine, script := sources.Engine(""), ""
	if request.Engine != "" {
		if engine, script, err = shimScript(s, site.Absolute(s.WorkDir, request.Engine), larder); err != nil {
			return nil, err
		}
	}
	for _, name := range site.BothEngines {
		if script != "" && name != engine {
			continue
		}
		link := wantedShim{path: filepath.Join(dir, s.Machine.ProgramFile(string(name)))}
		other := wantedShim{path: filepath.Join(dir, programs.ScriptFile(s.Machine, string(name))), script: true}
		switch {
		case script != "":
			other.content = script
		case !request.Remove:
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

// checkPath explains how to use the shims in dir, and warns about engines that PATH has before them.
func checkPath(s *site.Site, dir string) {
	used, warned, manager := false, false, ""
	for _, engine := range site.BothEngines {
		programs := s.Machine.Programs(string(engine))
		i := slices.IndexFunc(programs, func(program string) bool { return filepath.Dir(program) == dir })
		used = used || i >= 0
		if len(programs) == 0 || i == 0 {
			continue
		}
		first, from := filepath.Dir(programs[0]), site.ManagerOf(programs[0])
		manager = cmp.Or(from, manager)
		switch {
		case i > 0 && from != "":
			s.Output.Warn("%s of %s, in %s, comes before %s on PATH, so it runs without larder", engine, from, first, dir)
		case i > 0:
			s.Output.Warn("%s comes before %s on PATH, so %s runs without larder", first, dir, engine)
		}
		warned = warned || i > 0
	}
	if used && !warned {
		return
	}
	s.Output.Say("To use it, put the directory at the front of PATH:")
	s.Output.Copy("  " + site.PutFirst(s.Machine, dir))
	if manager != "" {
		s.Output.Say("Write this after the line that sets up %s in your shell's configuration.", manager)
	}
}
