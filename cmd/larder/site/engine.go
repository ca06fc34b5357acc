package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// A Choice is an engine, and the reason for it.
type Choice struct {
	Engine  sources.Engine // empty if there is no reason for one
	Reason  string         // in a few words, as in "only tofu is on PATH"
	File    string         // that the reason is about, absolute; empty if there is none
	Assumed bool           // nothing decides, so it is the default

	Undecided []string // stronger criteria, which don't decide
}

// Because returns the reason as text.
func (c Choice) Because() string { return strings.TrimSpace(c.Reason + " " + c.File) }

// chooseEngine chooses the engine of the root module in dir, whose lock file is at lockPath. Lock is
// nil if the file has errors. It returns an error for an invalid file in the checkout, even if that decides nothing.
func (s *Site) chooseEngine(ctx context.Context, dir, lockPath string, lock *lockfile.File) (Choice, error) {
	return s.chooseAfter(ctx, s.Requested, dir, lockPath, lock)
}

// IsOfOther reports whether a file, such as the lock file, names another engine for the root module than the one that
// was requested.
func (m *Root) IsOfOther(ctx context.Context) bool {
	c, err := m.chooseAfter(ctx, Choice{}, m.Dir, m.LockPath, m.Lock)
	return err == nil && c.File != "" && c.Engine != m.Config.Engine
}

// chooseAfter is chooseEngine with another first criterion.
func (s *Site) chooseAfter(
	ctx context.Context, requested Choice, dir, lockPath string, lock *lockfile.File,
) (Choice, error) {
	files, err := s.FilesFor(dir)
	if err != nil {
		return Choice{}, err
	}
	var setting, version Choice // of the nearest files
	for _, f := range files {
		if e := f.Checkout.Engine; e != "" && setting.File == "" {
			setting = Choice{Engine: e, Reason: "the setting in", File: f.Checkout.Path}
		}
		if version.File == "" {
			version = f.version
		}
	}
	var undecided []string
	for _, criterion := range []struct {
		by     string
		choose func() Choice
	}{ // the strongest first
		{"--engine", func() Choice { return requested }}, // by the user, or else by the command that exec runs
		{"the lock file", func() Choice { return LockedEngine(lockPath, lock) }},
		{cliconfig.CheckoutFile, func() Choice { return setting }},
		{"Larder's own file", func() Choice { return s.ownSetting(ctx) }},
		{"version files", func() Choice { return version }},
		{"PATH", s.onlyOnPath},
		{"files that only OpenTofu reads", func() Choice { return onlyReader(dir) }},
	} {
		if c := criterion.choose(); c.Engine != "" {
			c.Undecided = undecided
			return c, nil
		}
		undecided = append(undecided, criterion.by)
	}
	return Choice{Engine: sources.Terraform, Reason: "nothing names an engine", Assumed: true, Undecided: undecided}, nil
}

// Criterion 1: the user, see [Open].

// Criterion 2: the command.

// Runs takes over the engine that the command of exec runs, or "" if that is unknown. It fails
// if the user has named another one: the engine would replace what is prepared for the other.
func (s *Site) Runs(engine sources.Engine) error {
	switch {
	case engine == "":
	case s.Requested.Engine == "":
		s.Requested = Choice{Engine: engine, Reason: "the command runs it"}
		s.Output.For(engine)
	case s.Requested.Engine != engine:
		err := fmt.Errorf("the command runs %s, but %s is %s", engine, s.Requested.Reason, s.Requested.Engine)
		return report.Usage(sources.WithHint(err, "omit %s: the command determines the engine", s.Requested.Reason))
	}
	return nil
}

// Criterion 3: the lock file.

// LockedEngine returns the engine that wrote a lock file: by its header, or else by the registries of
// its providers, if they are those of one engine. Lock may be nil.
func LockedEngine(path string, lock *lockfile.File) Choice {
	if lock == nil {
		return Choice{}
	}
	if e, ok := lock.Engine(); ok {
		return Choice{Engine: e, Reason: "the header of", File: path}
	}
	var found []sources.Engine
	for _, e := range BothEngines {
		if slices.ContainsFunc(lock.Entries(), func(l lockfile.Entry) bool { return l.Provider.Host == e.DefaultHost() }) {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		return Choice{}
	}
	return Choice{Engine: found[0], Reason: "the registry in", File: path}
}

// Criteria 4 and 5: settings and version files.

// CheckoutFiles are what files in one directory of a checkout set. The file of a choice without an
// engine names both.
type CheckoutFiles struct {
	version  Choice
	Checkout cliconfig.Checkout
}

// FilesFor returns what files set for the root module in dir: those there, and those above it up to the
// top of its repository, the nearest first. A server works for no root module, wherever it was started.
func (s *Site) FilesFor(dir string) (all []CheckoutFiles, err error) {
	if s.Server != "" {
		return nil, nil
	}
	for _, at := range s.DirsOf(dir) {
		found, err := s.filesIn.Once(at, func() (CheckoutFiles, error) { return s.readCheckoutFiles(at) })
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// DirsOf returns the directories whose files apply to the root module in dir: itself, and those above it up to the top
// of its repository. Terragrunt runs engines in a copy inside the unit, which may be a clone of another repository: it
// belongs to the repository of the unit.
func (s *Site) DirsOf(dir string) (all []string) {
	const copies = string(filepath.Separator) + ".terragrunt-cache" + string(filepath.Separator)
	dir = s.Real(dir) // as git finds the repository
	unit, _, _ := strings.Cut(dir, copies)
	top := cmp.Or(s.Repository(unit), unit)
	for at := dir; ; at = filepath.Dir(at) {
		if all = append(all, at); at == top {
			return all
		}
	}
}

// Repository returns the top of the repository that dir is in, or "" if it is in none.
func (s *Site) Repository(dir string) string {
	top, _ := s.tops.Once(dir, func() (string, error) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			return s.Repository(parent), nil
		}
		return "", nil
	})
	return top
}

// readCheckoutFiles reads the files in dir.
func (s *Site) readCheckoutFiles(dir string) (found CheckoutFiles, err error) {
	names := append([]string{cliconfig.CheckoutFile}, VersionFiles...)
	if !slices.ContainsFunc(names, func(name string) bool { return !s.Modules.Lacks(dir, name) }) {
		return found, nil
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() { // reported where the root module is read
		return found, nil
	}
	if _, err := os.Lstat(filepath.Join(dir, cliconfig.CheckoutFile)); !errors.Is(err, fs.ErrNotExist) {
		if found.Checkout, err = cliconfig.ReadCheckout(dir); err != nil {
			return found, err
		}
	}
	name := func(e sources.Engine, path string) {
		if found.version.File != "" && found.version.Engine != e {
			e = ""
		}
		found.version = Choice{Engine: e, Reason: "the version in", File: path}
	}
	named := map[string]sources.Engine{".opentofu-version": sources.OpenTofu, ".terraform-version": sources.Terraform}
	for file, e := range named {
		if path := filepath.Join(dir, file); Exists(path) {
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

// VersionFiles are the names of the files that choose a version of an engine, and so the engine.
var VersionFiles = []string{".opentofu-version", ".terraform-version", ".tool-versions"}

// maxToolVersions limits the size of .tool-versions, in bytes.
const maxToolVersions = 64 << 10

// toolEngines maps names in .tool-versions to engines.
var toolEngines = map[string]sources.Engine{"terraform": sources.Terraform, "opentofu": sources.OpenTofu}

// Exists reports whether there is something at path, even a link that leads nowhere.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// ownSetting returns the engine that Larder's own configuration file names.
func (s *Site) ownSetting(ctx context.Context) Choice {
	own, _ := s.own.Once("", func() (cliconfig.OwnSetting, error) { return s.Machine.OwnSetting(ctx), nil })
	return Choice{Engine: own.Engine, Reason: "the setting in", File: own.File}
}

// Criterion 6: PATH.

// onlyOnPath returns the engine that is on PATH, if the other one isn't.
func (s *Site) onlyOnPath() Choice {
	found := s.EnginesOnPath()
	if len(found) != 1 {
		return Choice{}
	}
	return Choice{Engine: found[0], Reason: "only " + string(found[0]) + " is on PATH"}
}

// EnginesOnPath returns the engines that PATH has. A link to larder is none.
func (s *Site) EnginesOnPath() []sources.Engine {
	found, _ := s.onPath.Once("", func() (found []sources.Engine, err error) {
		own := s.Machine.Program
		for _, e := range BothEngines {
			if slices.ContainsFunc(s.Executables(string(e)), func(path string) bool { return !IsLarder(path, own) }) {
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
func onlyReader(dir string) Choice {
	if _, others := modules.TofuFiles(dir); others {
		return Choice{Engine: sources.OpenTofu, Reason: "only OpenTofu reads some of the files"}
	}
	return Choice{}
}

// NoteEngine makes the engine of the root module whose lock file has this path known to the
// output before anything is written, so that a report names a provider in one form everywhere.
func (s *Site) NoteEngine(ctx context.Context, lockPath string) {
	if s.Both || s.Requested.Engine != "" {
		return // they are known
	}
	if e := s.engineAt(ctx, lockPath).Engine; e != "" {
		s.Output.For(e)
	}
}

// engineAt returns the choice for the root module whose lock file has this path. It is empty if an error stops the
// command there, which is reported later.
func (s *Site) engineAt(ctx context.Context, lockPath string) Choice {
	c, _ := s.engines.Get(ctx, lockPath, func() (Choice, error) {
		return s.chooseEngine(ctx, filepath.Dir(lockPath), lockPath, lockfile.ReadEngine(lockPath))
	})
	return c
}

// NoteAssumed notes, for hintEngine, if nothing has decided between the engines although the machine or
// the files serve both, and the choice makes a difference: an address without a host.
func (m *Root) NoteAssumed(defaultHost bool) {
	if !m.Chosen.Assumed || !defaultHost || m.Lock != nil && m.Lock.Exists {
		return
	}
	switch twins, _ := modules.TofuFiles(m.Dir); len(m.EnginesOnPath()) {
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
func (s *Site) hintEngine() {
	if s.assumed.Load() && (!s.failed.Load() || s.notOffered.Load()) {
		s.Output.Hint("nothing names an engine here, so Larder follows Terraform; choose with --engine, "+
			`or with engine = "terraform" or "tofu" in %s`, cliconfig.CheckoutFile)
	}
}

// BothEngines are the engines whose names link to larder.
var BothEngines = []sources.Engine{sources.Terraform, sources.OpenTofu}
