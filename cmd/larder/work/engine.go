package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// The rule that chooses the engine of a root module, for every command. Docs/configuration.md
// describes it.

// A choice is an engine, and the reason for it.
type choice struct {
	engine  sources.Engine // empty if there is no reason for one
	reason  string         // in a few words, as in "only tofu is on PATH"
	file    string         // that the reason is about, absolute; empty if there is none
	assumed bool           // nothing decides, so it is the default

	undecided []string // stronger criteria, which don't decide
}

// because returns the reason as text. Shorten shortens paths.
func (c choice) because(shorten func(path string) string) string {
	if c.file == "" {
		return c.reason
	}
	return c.reason + " " + shorten(c.file)
}

// chooseEngine chooses the engine of the root module in dir, whose lock file is at lockPath. Lock is
// nil if the file has errors. It returns an error for an invalid file in the checkout, even if that decides nothing.
func (s *Session) chooseEngine(ctx context.Context, dir, lockPath string, lock *lockfile.File) (choice, error) {
	files, err := s.filesFor(dir)
	if err != nil {
		return choice{}, err
	}
	setting, version := nearestChoices(files)
	var undecided []string
	for _, criterion := range []struct {
		by     string
		choose func() choice
	}{ // the strongest first
		{"--engine", func() choice { return s.requested }}, // by the user, or else by the command that exec runs
		{"the lock file", func() choice { return lockedEngine(lockPath, lock) }},
		{cliconfig.CheckoutFile, func() choice { return setting }},
		{"Larder's own file", func() choice { return s.ownSetting(ctx) }},
		{"version files", func() choice { return version }},
		{"PATH", s.onlyOnPath},
		{"files that only OpenTofu reads", func() choice { return onlyReader(dir) }},
	} {
		if c := criterion.choose(); c.engine != "" {
			c.undecided = undecided
			return c, nil
		}
		undecided = append(undecided, criterion.by)
	}
	return choice{engine: sources.Terraform, reason: "nothing names an engine", assumed: true, undecided: undecided}, nil
}

// Criterion 1: the user.

// requests takes over the engines that the user names; none means that the rule decides.
func (s *Session) requests(named []sources.Engine, by string) {
	if s.both = len(named) > 1; len(named) == 1 {
		s.requested = choice{engine: named[0], reason: by}
		s.output.For(named[0])
	}
}

// eachEngine returns the engines to read each input for: both, or one that the rule chooses, which
// is empty here.
func (s *Session) eachEngine() []sources.Engine {
	if s.both {
		return BothEngines
	}
	return []sources.Engine{""}
}

// Criterion 2: the command.

// runs takes over the engine that the command of exec runs, or "" if that is unknown. It fails
// if the user has named another one: the engine would replace what is prepared for the other.
func (s *Session) runs(engine sources.Engine) error {
	switch {
	case engine == "":
	case s.requested.engine == "":
		s.requested = choice{engine: engine, reason: "the command runs it"}
		s.output.For(engine)
	case s.requested.engine != engine:
		err := fmt.Errorf("the command runs %s, but %s is %s", engine, s.requested.reason, s.requested.engine)
		return report.Usage(sources.WithHint(err, "omit %s: the command determines the engine", s.requested.reason))
	}
	return nil
}

// Criterion 3: the lock file.

// lockedEngine returns the engine that wrote a lock file: by its header, or else by the registries of
// its providers, if they are those of one engine. Lock may be nil.
func lockedEngine(path string, lock *lockfile.File) choice {
	if lock == nil {
		return choice{}
	}
	if e, ok := lock.Engine(); ok {
		return choice{engine: e, reason: "the header of", file: path}
	}
	var found []sources.Engine
	for _, e := range BothEngines {
		if slices.ContainsFunc(lock.Entries(), func(l lockfile.Entry) bool { return l.Provider.Host == e.DefaultHost() }) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return choice{}
	}
	return choice{engine: found[0], reason: "the registry in", file: path}
}

// Criteria 4 and 5: settings and version files.

// checkoutFiles are what files in one directory of a checkout set. The file of a choice without an
// engine names both.
type checkoutFiles struct {
	setting, version choice
	checkout         cliconfig.Checkout
}

// filesFor returns what files set for the root module in dir: those there, and those above it up to the
// top of its repository, the nearest first.
func (s *Session) filesFor(dir string) (all []checkoutFiles, err error) {
	for _, at := range s.dirsOf(dir) {
		found, err := s.filesIn.get(at, func() (checkoutFiles, error) { return readCheckoutFiles(at) })
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// dirsOf returns the directories whose files apply to the root module in dir: itself, and those above it up to the top of
// its repository. Terragrunt runs engines in a copy inside the unit, which may be a clone of another repository: it
// belongs to the repository of the unit.
func (s *Session) dirsOf(dir string) (all []string) {
	const copies = string(filepath.Separator) + ".terragrunt-cache" + string(filepath.Separator)
	dir = s.real(dir) // as git finds the repository
	unit, _, _ := strings.Cut(dir, copies)
	top := cmp.Or(s.repository(unit), unit)
	for at := dir; ; at = filepath.Dir(at) {
		if all = append(all, at); at == top {
			return all
		}
	}
}

// nearestChoices returns the nearest setting and the nearest version file.
func nearestChoices(files []checkoutFiles) (setting, version choice) {
	for _, f := range files {
		if setting.file == "" {
			setting = f.setting
		}
		if version.file == "" {
			version = f.version
		}
	}
	return setting, version
}

// repository returns the top of the repository that dir is in, or "" if it is in none.
func (s *Session) repository(dir string) string {
	top, _ := s.tops.get(dir, func() (string, error) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			return s.repository(parent), nil
		}
		return "", nil
	})
	return top
}

// readCheckoutFiles reads the files in dir.
func readCheckoutFiles(dir string) (found checkoutFiles, err error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() { // reported where the root module is read
		return found, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, cliconfig.CheckoutFile)); !errors.Is(err, fs.ErrNotExist) {
		if found.checkout, err = cliconfig.ReadCheckout(dir); err != nil {
			return found, err
		}
		if e := found.checkout.Engine; e != "" {
			found.setting = choice{engine: e, reason: "the setting in", file: found.checkout.Path}
		}
	}
	name := func(e sources.Engine, path string) {
		if found.version.file != "" && found.version.engine != e {
			e = ""
		}
		found.version = choice{engine: e, reason: "the version in", file: path}
	}
	for file, e := range map[string]sources.Engine{".opentofu-version": sources.OpenTofu, ".terraform-version": sources.Terraform} {
		if path := filepath.Join(dir, file); exists(path) {
			name(e, path)
		}
	}
	path := filepath.Join(dir, ".tool-versions")
	text, err := disk.ReadFile(path, maxToolVersions)
	if err != nil { // asdf reports it
		text = nil
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && toolEngines[words[0]] != "" {
			name(toolEngines[words[0]], path)
		}
	}
	return found, nil
}

// versionFiles are the names of the files that choose a version of an engine, and so the engine.
var versionFiles = []string{".opentofu-version", ".terraform-version", ".tool-versions"}

// maxToolVersions limits the size of .tool-versions, in bytes.
const maxToolVersions = 64 << 10

// toolEngines maps names in .tool-versions to engines.
var toolEngines = map[string]sources.Engine{"terraform": sources.Terraform, "opentofu": sources.OpenTofu}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ownSetting returns the engine that Larder's own configuration file names.
func (s *Session) ownSetting(ctx context.Context) choice {
	own, _ := s.own.get("", func() (choice, error) {
		e, path := s.machine.EngineSetting(ctx)
		return choice{engine: e, reason: "the setting in", file: path}, nil
	})
	return own
}

// Criterion 6: PATH.

// onlyOnPath returns the engine that is on PATH, if the other one isn't.
func (s *Session) onlyOnPath() choice {
	found := s.enginesOnPath()
	if len(found) != 1 {
		return choice{}
	}
	return choice{engine: found[0], reason: "only " + string(found[0]) + " is on PATH"}
}

// enginesOnPath returns the engines that PATH has. A link to larder is none.
func (s *Session) enginesOnPath() []sources.Engine {
	found, _ := s.onPath.get("", func() (found []sources.Engine, err error) {
		own := s.machine.Program
		for _, e := range BothEngines {
			if slices.ContainsFunc(s.machine.Programs(string(e)), func(path string) bool {
				_, err := exec.LookPath(path) // fails if the file is not executable
				return err == nil && !isLarder(path, own)
			}) {
				found = append(found, e)
			}
		}
		return found, nil
	})
	return found
}

// Criterion 7: files that only one engine reads.

// onlyReader returns OpenTofu if Terraform can't work in dir, because of a file that only OpenTofu
// reads and that isn't the twin of a file for Terraform.
func onlyReader(dir string) choice {
	if _, others := modules.TofuFiles(dir); others {
		return choice{engine: sources.OpenTofu, reason: "only OpenTofu reads some of the files"}
	}
	return choice{}
}

// noteEngines makes the engines of root modules, whose lock files have these paths, known to the
// output before anything is written, so that a report names a provider in one form everywhere.
func (s *Session) noteEngines(ctx context.Context, lockPaths ...string) {
	for _, engine := range s.eachEngine() {
		if engine != "" {
			s.output.For(engine)
		}
	}
	if s.both || s.requested.engine != "" {
		return
	}
	for _, path := range lockPaths {
		if e := s.engineAt(ctx, path).engine; e != "" {
			s.output.For(e)
		}
	}
}

// engineAt returns the choice for the root module whose lock file has this path. It is empty if an error stops the
// command there, which is reported later.
func (s *Session) engineAt(ctx context.Context, lockPath string) choice {
	c, _ := s.chooseEngine(ctx, filepath.Dir(lockPath), lockPath, lockfile.ReadEngine(lockPath))
	return c
}

// noteAssumed notes, for hintEngine, if nothing has decided between the engines although the machine or
// the files serve both, and the choice makes a difference: an address without a host.
func (m *rootModule) noteAssumed(defaultHost bool) {
	if !m.chosen.assumed || !defaultHost || m.lock != nil && m.lock.Exists {
		return
	}
	switch twins, _ := modules.TofuFiles(m.dir); len(m.enginesOnPath()) {
	case 0:
		if !twins {
			return
		}
	case 1:
		return
	}
	m.assumed.Store(true)
}

// hintEngine writes a hint if the default engine was assumed, unless the command failed for another reason.
func (s *Session) hintEngine() {
	if s.assumed.Load() && (!s.failed.Load() || s.notOffered.Load()) {
		s.output.Hint(`nothing names an engine here, so Larder follows Terraform; choose with --engine, or with engine = "terraform" or "tofu" in %s`, cliconfig.CheckoutFile)
	}
}

// Ended notes how the job of the session ended.
func (s *Session) Ended(err error) { s.failed.Store(err != nil) }
