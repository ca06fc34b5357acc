package job

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A Wanted contains the packages that the arguments and flags of a command request.
type Wanted struct {
	*site.Site
	Paths    []string // as typed
	versions installer.SelectOptions
	Keeps    bool                 // all that lock files have is requested, too
	Selected []installer.Selected // instead of what arguments and flags request; may be empty
}

// Take reads the arguments: addresses of providers, and paths as for --from. Without arguments,
// it selects the root module in the working directory.
func (w *Wanted) Take(args []string) error {
	paths, addresses, err := Separate(w.Site, args)
	if err != nil {
		return err
	}
	w.Paths = append(w.Paths, paths...)
	w.Roots = w.Paths
	for _, typed := range w.Paths {
		dir := site.Absolute(w.WorkDir, typed)
		if w.Flags.Recursive || IsRootModule(dir) {
			continue
		}
		if all, _ := fsmirror.New(dir, fsmirror.Options{}).Providers(context.Background()); len(all) > 0 {
			const hint = "to take packages from it, write a filesystem_mirror block for it into a CLI configuration, " +
				"and use that with --config"
			return report.Usage(sources.WithHint(fmt.Errorf("%s is a mirror, and has no requirements", typed), hint))
		}
	}
	if len(w.Addresses)+len(w.Paths) == 0 && w.Flags.Place.Place == "" {
		w.Paths = []string{"."}
	}
	if w.Flags.Recursive && len(w.Paths) == 0 {
		err := errors.New("if you name providers, --recursive also needs a directory")
		hint := "add . for the root modules in and below the working directory"
		if near := w.NearestDir(addresses[0]); near != "" {
			hint = "did you mean the directory " + near + "?"
		}
		return report.Usage(sources.WithHint(err, "%s", hint))
	}
	return nil
}

// A Supply contains requests that are met from the same sources.
type Supply struct {
	*site.Root // one of the root modules that make the requests
	Wants      []installer.Want
	selected   []installer.Selected // instead of what the wants select; nil if these decide
}

// An input contains requests: a root module, a file, or the command line.
type input struct {
	LockPath string // of the root module, whose rules apply
	out      *report.Output
	wants    func(context.Context, *site.Root) ([]installer.Want, error) // nil means what is selected
	selected []installer.Selected                                        // nil means everything that the place has
}

// read returns the requests of an input by the rules of an engine, or of the one that is chosen for
// it if the engine is empty.
func (in input) read(ctx context.Context, s *site.Site, engine sources.Engine) (*Supply, error) {
	m, err := s.RootFor(ctx, engine, in.LockPath, in.out)
	if err != nil {
		return &Supply{}, err
	}
	if in.wants == nil {
		selected, err := in.selected, error(nil)
		if selected == nil {
			selected, err = everything(ctx, m, s.Flags.Place)
		}
		all := &Supply{Root: m, selected: selected}
		for _, one := range selected {
			all.Wants = append(all.Wants, *one.Wants[0])
		}
		return all, err
	}
	wants, err := in.wants(ctx, m)
	return &Supply{Root: m, Wants: wants}, err
}

// Read reads all inputs. An input that fails does not stop the others: the error joins all
// errors.
func (w *Wanted) Read(ctx context.Context) ([]*Supply, error) {
	inputs, searchErr := w.Inputs(ctx)
	each := []sources.Engine{""} // the one that the rule chooses
	if w.Both {
		each = site.BothEngines
	}
	read := make([]*Supply, len(inputs)*len(each))
	errs := make([]error, len(read))
	var mu sync.Mutex
	var all supplies
	next := 0 // index of the next input to add, so that they are added in order
	site.ForEach(len(read), site.RootsAtOnce, func(i int) {
		s, err := inputs[i/len(each)].read(ctx, w.Site, each[i%len(each)])
		if w.Keeps {
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
	errs = slices.DeleteFunc(errs, func(err error) bool { // root modules may have the same errors
		return err != nil && !w.First("error: "+err.Error())
	})
	return all.different, errors.Join(append([]error{searchErr}, errs...)...)
}

// keepLocked adds requests for all versions that the lock file has. These are sufficient if the engine wrote the file
// but the configuration could not be read, for example because modules are not installed.
func (s *Supply) keepLocked(unread error) error {
	if s.Root == nil || s.Lock == nil || !s.Lock.Exists {
		return unread
	}
	for _, e := range s.Lock.Entries() {
		s.Wants = append(s.Wants, installer.Want{Requirement: sources.Requirement{Provider: e.Provider}, Locked: e})
	}
	if by := site.LockedEngine(s.LockPath, s.Lock).Engine; by != "" && by != s.Config.Engine {
		return unread
	}
	return nil
}

// supplies returns the supplies with different sources.
type supplies struct {
	different []*Supply
	known     map[string]*Supply
}

// add merges a supply into the one with the same sources. It omits a supply without requests.
func (all *supplies) add(s *Supply) {
	if len(s.Wants) == 0 {
		return
	}
	if all.known == nil {
		all.known = map[string]*Supply{}
	}
	key := SuppliedBy(s.Root)
	if first := all.known[key]; first != nil {
		first.Wants = append(first.Wants, s.Wants...)
		return
	}
	all.known[key] = s
	all.different = append(all.different, s)
}

// SuppliedBy returns a key that is the same for root modules with the same sources, stores and policy.
func SuppliedBy(m *site.Root) string {
	key := append([]string{string(m.Config.Engine), m.CacheRoot()}, m.Config.MirrorDirs()...) // the rest is the same
	for _, rule := range m.Policy.From(policy.Repository) {
		key = append(key, rule.Place())
	}
	if m.Policy.Has(policy.MinAge) { // what the sources of a checkout list doesn't count
		key = append(key, strconv.FormatBool(m.ConfiguresItself()))
	}
	return strings.Join(key, "\x00")
}

// Inputs returns the command line and the inputs of --from. It makes their engines known to the output.
func (w *Wanted) Inputs(ctx context.Context) ([]input, error) {
	var inputs []input
	if w.Selected != nil {
		return []input{{filepath.Join(w.WorkDir, lockfile.Name), w.Output, nil, w.Selected}}, nil
	}
	if len(w.Addresses) > 0 {
		lockPath := filepath.Join(w.WorkDir, lockfile.Name)
		w.NoteEngine(ctx, lockPath)
		inputs = append(inputs, input{lockPath, w.Output, w.arguments, nil})
	}
	if len(w.Addresses)+len(w.Paths) == 0 && w.Flags.Place.Place != "" {
		inputs = append(inputs, input{filepath.Join(w.WorkDir, lockfile.Name), w.Output, nil, nil})
	}
	var errs []error
	for _, path := range w.Paths {
		found, err := w.from(ctx, path)
		inputs, errs = append(inputs, found...), append(errs, err)
	}
	return inputs, errors.Join(errs...)
}

// from returns the inputs at a path.
func (w *Wanted) from(ctx context.Context, typed string) ([]input, error) {
	path, err := site.Existing(w.WorkDir, typed, site.FileOrDir,
		"name a root module, a lock file, or a .tf file with required_providers")
	if err != nil {
		return nil, err
	}
	switch name := filepath.Base(path); {
	case !site.IsFile(path):
		return w.modulesAt(ctx, path)
	case strings.HasSuffix(name, ".lock.hcl") && w.Flags.NoLockFile:
		return nil, report.Usage(fmt.Errorf("%s is a lock file, which --no-lock-file ignores", typed))
	case strings.HasSuffix(name, ".lock.hcl"):
		w.NoteEngine(ctx, path)
		return []input{{path, w.Output, w.allLocked, nil}}, nil
	case modules.IsConfiguration(name):
		lockPath := filepath.Join(filepath.Dir(path), lockfile.Name)
		w.NoteEngine(ctx, lockPath)
		return []input{{lockPath, w.Output, w.list(path), nil}}, nil
	}
	return nil, sources.WithHint(fmt.Errorf("%s is neither a directory nor a file that lists providers", path),
		"name a root module, a dependency lock file whose name ends in .lock.hcl, or a .tf file with required_providers")
}

// modulesAt returns the root modules of a directory.
func (w *Wanted) modulesAt(ctx context.Context, dir string) (inputs []input, err error) {
	dirs, err := w.RootsToRead(ctx, dir)
	for _, dir := range dirs {
		lockPath := filepath.Join(dir, lockfile.Name)
		inputs = append(inputs, input{lockPath, w.OutFor(dir, w.Flags.Recursive), w.module, nil})
	}
	return inputs, err
}

// arguments returns the requests on the command line.
func (w *Wanted) arguments(_ context.Context, m *site.Root) (wants []installer.Want, err error) {
	for _, address := range w.Addresses {
		m.NoteAssumed(strings.Count(address, "/") < 2)
		r, err := sources.ParseRequirement(address, m.Config.Engine)
		if err != nil {
			return nil, report.Usage(err)
		}
		wants = append(wants, installer.Want{Requirement: r})
	}
	return wants, nil
}

// module returns the requests of a root module: its locked versions, or else its requirements.
func (w *Wanted) module(ctx context.Context, m *site.Root) ([]installer.Want, error) {
	root, err := m.NeedsIfAny(ctx, w.Flags.Recursive) // others have something to do
	hasFlag := !w.Keeps && w.Server == ""             // mirror prune and serve don't
	if err != nil && m.Lock == nil && hasFlag {
		err = sources.WithHint(err, "to choose the newest versions without the lock file, run again with --no-lock-file")
	}
	if err != nil || root == nil {
		return nil, err
	}
	return w.lockedWants(m, root.Requirements), nil
}

// lockedWants returns requests for the locked versions, or those that an upgrade chooses.
func (w *Wanted) lockedWants(m *site.Root, required []sources.Requirement) []installer.Want {
	var wants []installer.Want
	for _, r := range required {
		want := installer.Want{Requirement: r, Modules: m.Out.Modules()}
		if !w.Flags.Upgrade || r.Fixed() {
			want.Locked = lockedEntry(m, r.Provider)
		}
		wants = append(wants, want)
	}
	return wants
}

// lockedEntry returns the lock file's entry for a provider. It warns if only other providers are
// locked: then init may choose another version later.
func lockedEntry(m *site.Root, p sources.Provider) lockfile.Entry {
	e, ok := m.Lock.Entry(p)
	if !ok && len(m.Lock.Entries()) > 0 {
		command := "lock"
		if m.Both || m.Requested.Engine != "" { // otherwise the rule chooses the same one
			command += " --engine " + string(m.Config.Engine)
		}
		m.Out.Warn("%s: the dependency lock file does not lock %s; taking the newest version that matches (%s adds it)",
			m.LockPath, p, m.Again(command))
	}
	return e
}

// allLocked returns all requests of a dependency lock file.
func (w *Wanted) allLocked(_ context.Context, m *site.Root) ([]installer.Want, error) {
	if err := w.Output.Warnings(m.LockProblems); err != nil {
		return nil, err
	}
	required := m.Recorded(nil)
	var errs []error
	required = slices.DeleteFunc(required, func(r sources.Requirement) bool {
		err := m.CheckOverride(m.Config, r.Provider)
		errs = append(errs, err)
		return err != nil || m.Overridden(r.Provider)
	})
	return w.lockedWants(m, required), errors.Join(errs...)
}

// list returns the requests in the configuration file at path.
func (w *Wanted) list(path string) func(context.Context, *site.Root) ([]installer.Want, error) {
	return func(_ context.Context, m *site.Root) (wants []installer.Want, err error) {
		required, ds := modules.ReadList(path, m.Config.Engine)
		for _, r := range required {
			m.NoteAssumed(r.Provider.Host == m.Config.Engine.DefaultHost())
			wants = append(wants, installer.Want{Requirement: r})
		}
		return wants, w.Output.Warnings(ds)
	}
}
