package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// A verifying is a run of larder verify, with its results so far.
type verifying struct {
	*Session

	mu      sync.Mutex
	sum     report.InstalledChecked
	sound   []sources.Stored // installed packages without a problem, each once
	refused map[string]error // why the rules of root modules don't accept packages, by its text
	unfit   []sources.Stored // these packages

	upgrades bool // a locked version doesn't match its constraints
	changed  bool // a package differs
}

// An installedFinding is a kind of problem with an installed package.
type installedFinding string

// The kinds.
const (
	notInstalled installedFinding = "not installed"
	notReadable  installedFinding = "unreadable"
	isChanged    installedFinding = "changed package"
	isUnlocked   installedFinding = "not locked"
)

// VerifyInstalled verifies the installed packages of root modules, which it hashes, whatever is recorded. It
// returns a [report.FoundError] if it finds a problem, and another error if the verification itself fails.
func VerifyInstalled(ctx context.Context, s *Session, roots []string) error {
	s.flags.ReadOnly, s.flags.Paranoid = true, true
	s.hashes = new(cachedir.Hashes)
	v := &verifying{Session: s, refused: map[string]error{}}
	if err := v.takeRoots(roots); err != nil {
		return err
	}
	failed := v.each(ctx, v.at)
	told, several := errors.AsType[*report.ToldError](failed)
	if failed != nil && !several {
		return failed
	}
	hint := v.hint()
	var refused []error
	for _, text := range slices.Sorted(maps.Keys(v.refused)) {
		refused = append(refused, v.refused[text])
	}
	distrusted, hints := v.trustFindings(errors.Join(append(refused, v.unusedKeys())...), slices.Concat(v.unfit, v.sound), func(s sources.Stored) string { return s.Dir }, v.workDir)
	v.sum.Problems += distrusted
	v.output.CheckedInDetail(report.CheckedOf(v.sound))
	v.output.Summary(v.sum)
	switch in := "in " + v.sum.Text(v.output); {
	case several:
		v.output.Say("%s %s; %s failed", ui.Count(v.sum.Problems, "problem"), in, ui.Count(told.Failed, "root module"))
		return failed
	case v.sum.Problems == 0:
		v.output.Say("No problem %s", in)
		return nil
	default:
		return report.Found(v.sum.Problems, "problem", in, slices.Insert(hints, 0, hint)...)
	}
}

// hint returns what to do about the problems.
func (v *verifying) hint() string {
	command := "install"
	if v.upgrades {
		command += " --upgrade"
	}
	if v.changed { // records may say that the package is unchanged
		command += " --paranoid"
	}
	if v.sum.Problems == 0 {
		return ""
	}
	return v.again(command, v.flags.Platforms...) + " replaces packages that differ, and installs those that are missing, if a source has them"
}

// at verifies the packages of the root module in dir.
func (v *verifying) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	nothing := func() {}
	m, err := v.root(ctx, dir, out)
	if err != nil {
		return nothing, err
	}
	if err := out.Warnings(m.lockProblems); err != nil {
		return nothing, err
	}
	found, err := v.check(ctx, m)
	return func() {
		for _, f := range found {
			v.output.Show(f)
		}
	}, err
}

// check returns the problems of a root module, and counts its packages.
func (v *verifying) check(ctx context.Context, m *rootModule) ([]report.Finding, error) {
	if !m.lock.Exists {
		return v.unlocked(ctx, m)
	}
	found, err := v.unselected(ctx, m)
	if err != nil {
		return nil, err
	}
	store, done, err := m.store()
	if err != nil {
		return nil, err
	}
	defer done()
	installed := store.Workdir(m.dir, filepath.Join(m.config.DataDir, "providers"))
	defer installed.Close()
	v.count(func() { v.sum.RootModules++ })
	for _, e := range m.lock.Entries() {
		if m.overridden(e.Provider) {
			continue
		}
		for _, platform := range thisIfNone(m.flags.Platforms) {
			id := sources.PackageID{Provider: e.Provider, Version: e.Version, Platform: platform}
			s, err := installed.Get(ctx, id)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			path := filepath.Join(m.config.DataDir, "providers", filepath.FromSlash(id.Path()))
			kind, why := compareInstalled(s, e, path, err)
			refused := error(nil)
			if kind == "" {
				s.Report = m.judge().Report(id.Provider, s.Proof) // other root modules share the store
				refused = m.require(ctx, []sources.Stored{s})
			}
			v.count(func() { v.add(s, kind, refused) })
			if kind != "" {
				found = append(found, report.FindingOf(kind, path, &id, why))
			}
		}
	}
	return found, nil
}

// unselected returns the problems with providers that a root module requires, and for which the lock file
// selects no version that it may use. Those that only missing modules require are unknown.
func (v *verifying) unselected(ctx context.Context, m *rootModule) (found []report.Finding, err error) {
	tree, ds, err := m.load(ctx)
	if err != nil {
		return nil, err
	}
	for i, d := range ds {
		ds[i].File = m.full(d.File)
	}
	if err := m.out.Warnings(ds); err != nil {
		return nil, err
	}
	for _, r := range tree.Requirements {
		e, locked := m.lock.Entry(r.Provider)
		if slices.Contains(m.config.Unmanaged, r.Provider) || m.config.DevOverrides[r.Provider] != "" || locked && r.AllowsLocked(e.Version) {
			continue
		}
		v.count(func() {
			v.sum.Problems, v.upgrades = v.sum.Problems+1, v.upgrades || locked
			if !locked { // otherwise its package is counted
				v.sum.Packages += len(thisIfNone(m.flags.Platforms))
			}
		})
		why := fmt.Sprintf("%s is required, and the lock file selects no version", r.Provider)
		if locked {
			why = fmt.Sprintf("%s is required as %q, and the lock file selects version %s", r.Provider, r.Constraints, e.Version)
		}
		path := m.full(lockfile.Name)
		found = append(found, report.FindingOf(isUnlocked, path, nil, why))
	}
	return found, nil
}

// compareInstalled returns what is wrong with the package that is installed at path, or an empty kind. The
// error is that of reading it.
func compareInstalled(s sources.Stored, locked lockfile.Entry, path string, err error) (kind installedFinding, why string) {
	_, statErr := os.Stat(path)
	switch {
	case errors.Is(err, sources.ErrNotFound) && statErr == nil: // no engine can use it
		why = strings.TrimPrefix(sources.Reason(err), sources.ErrNotFound.Error()+": ")
		return isChanged, strings.ReplaceAll(why, path+string(filepath.Separator), "")
	case errors.Is(err, sources.ErrNotFound):
		return notInstalled, fmt.Sprintf("the lock file selects version %s", locked.Version)
	case err != nil:
		return notReadable, sources.Reason(err)
	case s.Differs != "":
		return isChanged, s.Changes
	case !sources.MatchesAny(locked.Hashes, s.H1, s.ZipH1, s.ZH):
		return isChanged, fmt.Sprintf("its contents are %s, which the lock file does not have", s.H1)
	}
	if err := archive.Startable(s.Dir, s.ID); err != nil {
		return isChanged, err.Error()
	}
	return "", ""
}

// unlocked returns the problem of a root module without a lock file, if it requires providers.
func (v *verifying) unlocked(ctx context.Context, m *rootModule) ([]report.Finding, error) {
	root, err := m.needs(ctx)
	if err != nil || root == nil {
		return nil, err
	}
	v.count(func() { v.sum.RootModules++ })
	if len(root.Requirements) == 0 {
		return nil, nil
	}
	v.count(func() {
		v.sum.Problems++
		v.sum.Packages += len(root.Requirements) * len(thisIfNone(m.flags.Platforms))
	})
	path, why := m.full(lockfile.Name), "there is no dependency lock file to compare with"
	return []report.Finding{report.FindingOf(isUnlocked, path, nil, why).Shown(v.output.Shorten(path) + ": " + why)}, nil
}

// add counts a package. Refused is why the rules of its root module don't accept it; nil if they do.
func (v *verifying) add(s sources.Stored, kind installedFinding, refused error) {
	v.sum.Packages++
	v.changed = v.changed || kind == isChanged
	if kind != "" {
		v.sum.Problems++
	} else if !slices.ContainsFunc(v.sound, func(other sources.Stored) bool { return other.ID == s.ID && other.H1 == s.H1 }) {
		s.Seen = nil
		v.sound = append(v.sound, s)
	}
	if refused != nil && v.refused[refused.Error()] == nil {
		v.refused[refused.Error()], v.unfit = refused, append(v.unfit, s)
	}
}

// count calls do while no other root module counts.
func (v *verifying) count(do func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do()
}
