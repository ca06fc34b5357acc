package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/store"
)

// A Verifying is a run of larder verify, with its results so far.
type Verifying struct {
	*site.Site

	mu      sync.Mutex
	Sum     report.VerifySum
	Sound   []sources.Stored // installed packages without a problem, each once
	Refused map[string]error // why the rules of root modules don't accept packages, by its text
	Unfit   []sources.Stored // these packages

	upgrades bool // a locked version doesn't match its constraints
	changed  bool // a package differs
	lacks    bool // a lock file lacks the hashes of an unchanged package
}

// The kinds of problems of root modules only.
const (
	notInstalled store.Kind = "not installed"
	isUnlocked   store.Kind = "not locked"
	isForeign    store.Kind = "hash not locked"
	isOther      store.Kind = "other version locked"
)

// Hint returns what to do about the problems.
func (v *Verifying) Hint() string {
	if v.lacks { // until then, install refuses the package
		return "if the lock file was written for other platforms only, " + v.Again("lock", v.Flags.Platforms...) +
			" adds the hashes; otherwise, the package is not the locked one"
	}
	command := "install"
	if v.upgrades {
		command += " --upgrade"
	}
	if v.changed { // records may say that the package is unchanged
		command += " --paranoid"
	}
	if v.Sum.Problems == 0 {
		return ""
	}
	const does = " replaces packages that differ, and installs those that are missing, if a source has them"
	return v.Again(command, v.Flags.Platforms...) + does
}

// At verifies the packages of the root module in dir.
func (v *Verifying) At(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	nothing := func() {}
	m, err := v.Root(ctx, dir, out)
	if err != nil {
		return nothing, err
	}
	if err := out.Warnings(m.LockProblems); err != nil {
		return nothing, err
	}
	all, err := v.Check(ctx, m)
	return func() {
		v.Output.Findings(all...)
	}, err
}

// Check returns the problems of a root module, and counts its packages.
func (v *Verifying) Check(ctx context.Context, m *site.Root) ([]report.Finding, error) {
	if !m.Lock.Exists {
		return v.unlocked(ctx, m)
	}
	all, err := v.unselected(ctx, m)
	if err != nil {
		return nil, err
	}
	store, done, err := m.Store()
	if err != nil {
		return nil, err
	}
	defer done()
	installed := store.Workdir(m.Dir, filepath.Join(m.Config.DataDir, "providers"))
	defer installed.Close()
	v.count(func() { v.Sum.RootModules++ })
	for _, e := range m.Lock.Entries() {
		if m.Overridden(e.Provider) {
			continue
		}
		for _, platform := range site.ThisIfNone(m.Flags.Platforms) {
			id := sources.PackageID{Provider: e.Provider, Version: e.Version, Platform: platform}
			s, err := installed.Get(ctx, id)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			path := filepath.Join(m.Config.DataDir, "providers", filepath.FromSlash(id.Path()))
			kind, why := compareInstalled(s, e, path, err)
			refused := error(nil)
			if kind == "" {
				s.Proof = s.AsLocked()
				s.Report = m.Judge().Report(id.Provider, s.Proof) // other root modules share the store
				_ = m.AcceptLocked(ctx, id.Provider, id.Version)  // Require refuses what this doesn't accept
				refused = m.Require(ctx, []sources.Stored{s})
				rule, ok := errors.AsType[*policy.Violation](refused)
				if ok && rule.Err == nil && m.Policy.CheckProvider(id.Provider) == nil { // otherwise each version is refused
					hint := m.UpgradeHint(id.Provider, sources.Version{}, false)
					refused = sources.WithHint(refused, "%s, if one is allowed", hint)
				}
			}
			v.count(func() { v.add(s, kind, refused) })
			if kind != "" {
				all = append(all, found(kind, path, &id, why))
			}
		}
	}
	return all, nil
}

// unselected returns the problems with providers that a root module requires, and for which the lock file
// selects no version that it may use. Those that only missing modules require are unknown.
func (v *Verifying) unselected(ctx context.Context, m *site.Root) (all []report.Finding, err error) {
	tree, ds, err := m.Load(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.Out.Warnings(ds); err != nil {
		return nil, err
	}
	for _, r := range tree.Requirements {
		e, locked := m.Lock.Entry(r.Provider)
		replaced := slices.Contains(m.Config.Unmanaged, r.Provider) || m.Config.DevOverrides[r.Provider] != ""
		if replaced || locked && r.AllowsLocked(e.Version) {
			continue
		}
		v.count(func() {
			v.Sum.Problems, v.upgrades = v.Sum.Problems+1, v.upgrades || locked
			if !locked { // otherwise its package is counted
				v.Sum.Packages += len(site.ThisIfNone(m.Flags.Platforms))
			}
		})
		kind, why := isUnlocked, fmt.Sprintf("%s is required, and the lock file selects no version", r.Provider)
		if locked {
			const text = "%s is required as %q, and the lock file selects version %s"
			kind, why = isOther, fmt.Sprintf(text, r.Provider, r.Constraints, e.Version)
		}
		path := m.LockPath
		all = append(all, found(kind, path, nil, why))
	}
	return all, nil
}

func found(kind store.Kind, path string, id *sources.PackageID, why string) report.Finding {
	return report.FindingOf(&store.Finding{Kind: kind, Path: path, Package: id, Err: errors.New(why)})
}

// compareInstalled returns what is wrong with the package that is installed at path, or an empty kind. The
// error is that of reading it.
func compareInstalled(s sources.Stored, locked lockfile.Entry, path string, err error) (kind store.Kind, why string) {
	_, statErr := os.Stat(path)
	switch {
	case errors.Is(err, sources.ErrNotFound) && statErr == nil: // no engine can use it
		why = strings.TrimPrefix(sources.Reason(err), sources.ErrNotFound.Error()+": ")
		return store.Changed, strings.ReplaceAll(why, path+string(filepath.Separator), "")
	case errors.Is(err, sources.ErrNotFound):
		return notInstalled, fmt.Sprintf("the lock file selects version %s", locked.Version)
	case err != nil:
		return store.Unreadable, sources.Reason(err)
	case s.Differs != "":
		return store.Changed, s.Changes
	case sources.MatchesAny(locked.Hashes, s.H1, s.ZipH1, s.ZH):
	case !s.Since.IsZero() && !sources.AnyOf(sources.ZH, locked.Hashes): // they may be of others
		return isForeign, fmt.Sprintf("its contents are %s, as verified on %s, and the lock file does not have them",
			s.H1, s.Since.Format(time.DateOnly))
	default:
		return store.Changed, fmt.Sprintf("its contents are %s, which the lock file does not have", s.H1)
	}
	if err := archive.Startable(s.Dir, s.ID); err != nil {
		return store.Changed, err.Error()
	}
	return "", ""
}

// unlocked returns the problem of a root module without a lock file, if it requires providers.
func (v *Verifying) unlocked(ctx context.Context, m *site.Root) ([]report.Finding, error) {
	root, err := m.Needs(ctx)
	if err != nil || root == nil {
		return nil, err
	}
	n := len(root.Requirements)
	v.count(func() {
		v.Sum.RootModules, v.Sum.Problems = v.Sum.RootModules+1, v.Sum.Problems+min(n, 1)
		v.Sum.Packages += n * len(site.ThisIfNone(m.Flags.Platforms))
	})
	if n == 0 {
		return nil, nil
	}
	path, why := m.LockPath, "there is no dependency lock file to compare with"
	return []report.Finding{found(isUnlocked, path, nil, why).Shown(v.Output.Shorten(path) + ": " + why)}, nil
}

// add counts a package. Refused is why the rules of its root module don't accept it; nil if they do.
func (v *Verifying) add(s sources.Stored, kind store.Kind, refused error) {
	v.Sum.Packages++
	v.changed, v.lacks = v.changed || kind == store.Changed, v.lacks || kind == isForeign
	isSame := func(other sources.Stored) bool { return other.ID == s.ID && other.H1 == s.H1 }
	if kind != "" {
		v.Sum.Problems++
	} else if !slices.ContainsFunc(v.Sound, isSame) {
		s.Seen = nil
		v.Sound = append(v.Sound, s)
	}
	if refused != nil && v.Refused[refused.Error()] == nil {
		v.Refused[refused.Error()], v.Unfit = refused, append(v.Unfit, s)
	}
}

// count calls do while no other root module counts.
func (v *Verifying) count(do func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	do()
}
