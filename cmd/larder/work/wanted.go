package work

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A wanted contains the packages that the arguments and flags of a command request.
type wanted struct {
	*Session
	paths    []string // as typed
	versions installer.SelectOptions
	keeps    bool // all that lock files have is requested, too
}

// take reads the arguments: addresses of providers, and paths as for --from. Without arguments,
// it selects the root module in the working directory.
func (w *wanted) take(args []string) error {
	paths, addresses, err := w.separate(args)
	if err != nil {
		return err
	}
	w.paths = append(w.paths, paths...)
	w.roots = w.paths
	if len(w.addresses)+len(w.paths) == 0 && w.place.Place == "" {
		w.paths = []string{"."}
	}
	if w.flags.Recursive && len(w.paths) == 0 {
		err := errors.New("if you name providers, --recursive also needs a directory")
		if near := w.nearestDir(addresses[0]); near != "" {
			return report.Usage(sources.WithHint(err, "did you mean the directory %s?", near))
		}
		return report.Usage(sources.WithHint(err, "add . for the root modules in and below the working directory"))
	}
	return nil
}

// A supply contains requests that are met from the same sources.
type supply struct {
	*rootModule // one of the root modules that make the requests
	wants       []installer.Want
	selected    []installer.Selected // instead of what the wants select; nil if these decide
}

// An input contains requests: a root module, a file, or the command line.
type input struct {
	lockPath string // of the root module, whose rules apply
	out      *report.Output
	wants    func(context.Context, *rootModule) ([]installer.Want, error) // nil means everything that the place has
}

// read returns the requests of an input by the rules of an engine, or of the one that is chosen for
// it if the engine is empty.
func (in input) read(ctx context.Context, s *Session, engine sources.Engine) (*supply, error) {
	m, err := s.rootFor(ctx, engine, in.lockPath, in.out)
	if err != nil {
		return &supply{}, err
	}
	if in.wants == nil {
		selected, err := m.everything(ctx, s.place)
		all := &supply{rootModule: m, selected: selected}
		for _, one := range selected {
			all.wants = append(all.wants, *one.Wants[0])
		}
		return all, err
	}
	wants, err := in.wants(ctx, m)
	return &supply{rootModule: m, wants: wants}, err
}

// read reads all inputs. An input that fails does not stop the others: the error joins all
// errors.
func (w *wanted) read(ctx context.Context) ([]*supply, error) {
	inputs, searchErr := w.inputs(ctx)
	each := w.eachEngine()
	read := make([]*supply, len(inputs)*len(each))
	errs := make([]error, len(read))
	var mu sync.Mutex
	var all supplies
	next := 0 // index of the next input to add, so that they are added in order
	forEachRoot(len(read), func(i int) {
		s, err := inputs[i/len(each)].read(ctx, w.Session, each[i%len(each)])
		if w.keeps {
			err = s.keepLocked(err)
		}
		mu.Lock()
		defer mu.Unlock()
		read[i], errs[i] = s, err
		for ; next < len(read) && read[next] != nil; next++ {
			all.add(read[next])
			read[next] = nil // free the memory: there may be thousands of root modules
		}
	})
	said := map[string]bool{} // root modules may have the same errors
	errs = slices.DeleteFunc(errs, func(err error) bool {
		again := err != nil && said[err.Error()]
		if err != nil {
			said[err.Error()] = true
		}
		return again
	})
	return all.different, errors.Join(append([]error{searchErr}, errs...)...)
}

// keepLocked adds requests for all versions that the lock file has. These are sufficient if the engine wrote the file but
// the configuration could not be read, for example because modules are not installed.
func (s *supply) keepLocked(unread error) error {
	if s.rootModule == nil || s.lock == nil || !s.lock.Exists {
		return unread
	}
	for _, e := range s.lock.Entries() {
		s.wants = append(s.wants, installer.Want{Requirement: sources.Requirement{Provider: e.Provider}, Locked: e})
	}
	if by := lockedEngine(s.lockPath, s.lock).engine; by != "" && by != s.config.Engine {
		return unread
	}
	return nil
}

// supplies returns the supplies with different sources.
type supplies struct {
	different []*supply
	known     map[string]*supply
}

// add merges a supply into the one with the same sources. It omits a supply without requests.
func (all *supplies) add(s *supply) {
	if len(s.wants) == 0 {
		return
	}
	if all.known == nil {
		all.known = map[string]*supply{}
	}
	key := s.suppliedBy()
	if first := all.known[key]; first != nil {
		first.wants = append(first.wants, s.wants...)
		return
	}
	all.known[key] = s
	all.different = append(all.different, s)
}

// suppliedBy returns a key that is the same for root modules with the same sources, stores and policy.
func (m *rootModule) suppliedBy() string {
	key := []string{string(m.config.Engine), m.cacheRoot()}
	if m.config.Implied {
		key = append(key, m.config.ImpliedDirs()...)
	}
	for _, method := range m.config.Methods {
		key = append(key, method.Path) // the rest is the same for all root modules
	}
	for _, rule := range m.policy.From(policy.Repository) {
		key = append(key, rule.Place())
	}
	return strings.Join(key, "\x00")
}

// inputs returns the command line and the inputs of --from. It makes their engines known to the output.
func (w *wanted) inputs(ctx context.Context) ([]input, error) {
	var inputs []input
	if len(w.addresses) > 0 {
		lockPath := filepath.Join(w.workDir, lockfile.Name)
		w.noteEngines(ctx, lockPath)
		inputs = append(inputs, input{lockPath, w.output, w.arguments})
	}
	if len(w.addresses)+len(w.paths) == 0 { // with a place only
		inputs = append(inputs, input{filepath.Join(w.workDir, lockfile.Name), w.output, nil})
	}
	var errs []error
	for _, path := range w.paths {
		found, err := w.from(ctx, path)
		inputs, errs = append(inputs, found...), append(errs, err)
	}
	return inputs, errors.Join(errs...)
}

// from returns the inputs at a path.
func (w *wanted) from(ctx context.Context, typed string) ([]input, error) {
	path, err := Existing(w.workDir, typed, FileOrDir, "name a root module, a lock file, or a .tf file with required_providers")
	if err != nil {
		return nil, err
	}
	switch name := filepath.Base(path); {
	case !isFile(path):
		return w.modulesAt(ctx, path)
	case strings.HasSuffix(name, ".lock.hcl") && w.flags.NoLockFile:
		return nil, report.Usage(fmt.Errorf("%s is a lock file, which --no-lock-file ignores", typed))
	case strings.HasSuffix(name, ".lock.hcl"):
		w.noteEngines(ctx, path)
		return []input{{path, w.output, w.allLocked}}, nil
	case modules.IsConfiguration(name):
		lockPath := filepath.Join(filepath.Dir(path), lockfile.Name)
		w.noteEngines(ctx, lockPath)
		return []input{{lockPath, w.output, w.list(path)}}, nil
	}
	return nil, sources.WithHint(fmt.Errorf("%s is neither a directory nor a file that lists providers", path),
		"name a root module, a dependency lock file whose name ends in .lock.hcl, or a .tf file with required_providers")
}

// modulesAt returns the root modules of a directory.
func (w *wanted) modulesAt(ctx context.Context, dir string) (inputs []input, err error) {
	dirs, err := w.rootsToRead(ctx, dir)
	for _, dir := range dirs {
		lockPath := filepath.Join(dir, lockfile.Name)
		inputs = append(inputs, input{lockPath, w.outFor(dir, w.flags.Recursive), w.module})
	}
	return inputs, err
}

// arguments returns the requests on the command line.
func (w *wanted) arguments(_ context.Context, m *rootModule) (wants []installer.Want, err error) {
	for _, address := range w.addresses {
		m.noteAssumed(strings.Count(address, "/") < 2)
		r, err := sources.ParseRequirement(address, m.config.Engine)
		if err != nil {
			return nil, report.Usage(err)
		}
		wants = append(wants, installer.Want{Requirement: r})
	}
	return wants, nil
}

// module returns the requests of a root module: its locked versions, or else its requirements.
func (w *wanted) module(ctx context.Context, m *rootModule) ([]installer.Want, error) {
	needs := m.needs
	if w.flags.Recursive { // others have something to do
		needs = m.needsIfAny
	}
	root, err := needs(ctx)
	if err != nil && m.lock == nil {
		err = sources.WithHint(err, "to choose the newest versions without the lock file, run again with --no-lock-file")
	}
	if err != nil || root == nil {
		return nil, err
	}
	return w.lockedWants(m, root.Requirements), nil
}

// lockedWants returns requests for the locked versions, or those that an upgrade chooses.
func (w *wanted) lockedWants(m *rootModule, required []sources.Requirement) []installer.Want {
	var wants []installer.Want
	for _, r := range required {
		want := installer.Want{Requirement: r, Modules: m.out.Modules()}
		if !w.flags.Upgrade || r.Fixed() {
			want.Locked = m.lockedEntry(r.Provider)
		}
		wants = append(wants, want)
	}
	return wants
}

// lockedEntry returns the lock file's entry for a provider. It warns if only other providers are
// locked: then init may choose another version later.
func (m *rootModule) lockedEntry(p sources.Provider) lockfile.Entry {
	e, ok := m.lock.Entry(p)
	if !ok && len(m.lock.Entries()) > 0 {
		command := "lock"
		if m.both || m.requested.engine != "" { // otherwise the rule chooses the same one
			command += " --engine " + string(m.config.Engine)
		}
		m.out.Warn("%s: the dependency lock file does not lock %s; taking the newest version that matches (%s adds it)", m.full(lockfile.Name), p, m.again(command))
	}
	return e
}

// allLocked returns all requests of a dependency lock file.
func (w *wanted) allLocked(_ context.Context, m *rootModule) ([]installer.Want, error) {
	if err := w.output.Warnings(m.lockProblems); err != nil {
		return nil, err
	}
	required := m.recorded(m.lockPath, nil)
	var errs []error
	required = slices.DeleteFunc(required, func(r sources.Requirement) bool {
		err := m.checkOverride(m.config, r.Provider)
		errs = append(errs, err)
		return err != nil || m.overridden(r.Provider)
	})
	return w.lockedWants(m, required), errors.Join(errs...)
}

// list returns the requests in the configuration file at path.
func (w *wanted) list(path string) func(context.Context, *rootModule) ([]installer.Want, error) {
	return func(_ context.Context, m *rootModule) (wants []installer.Want, err error) {
		required, ds := modules.ReadList(path, m.config.Engine)
		for _, r := range required {
			m.noteAssumed(r.Provider.Host == m.config.Engine.DefaultHost())
			wants = append(wants, installer.Want{Requirement: r})
		}
		return wants, w.output.Warnings(ds)
	}
}

// thisIfNone returns the current platform if platforms is empty.
func thisIfNone(platforms []sources.Platform) []sources.Platform {
	if len(platforms) == 0 {
		return []sources.Platform{sources.CurrentPlatform()}
	}
	return platforms
}

// platforms returns the platforms that the command works for in this root module: those of the flags, else those that
// the policy declares if the command is for several platforms, else this one.
func (m *rootModule) platforms() []sources.Platform {
	if m.declared() {
		return m.policy.DeclaredPlatforms()
	}
	return thisIfNone(m.flags.Platforms)
}

// declared reports whether the policy declares the platforms that the command works for.
func (m *rootModule) declared() bool {
	return m.forDeclared && len(m.flags.Platforms) == 0 && len(m.policy.DeclaredPlatforms()) > 0
}
