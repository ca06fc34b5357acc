package job

import (
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// An installed is the result for one root module.
type installed struct {
	*installer.Result // nil if no installation was tried
	before            *lockfile.File
	required          int // providers
	fails             bool
}

// changes returns the packages of the result, and how each differs from the one before.
func (i installed) changes() []report.Change {
	changes := make([]report.Change, len(i.Packages))
	for n, p := range i.Packages {
		changes[n] = report.Change{Outcome: p, Unchanged: p.How == installer.WasInstalled}
		if locked, ok := i.before.Entry(p.Package.ID.Provider); ok && locked.Version != p.Package.ID.Version {
			changes[n].Was = locked.Version
		}
	}
	return changes
}

// removed returns the providers that were removed from the lock file.
func (i installed) removed() (removed []sources.Release) {
	if i.fails {
		return nil
	}
	for _, p := range i.Lock.Removed {
		if e, ok := i.before.Entry(p); ok {
			removed = append(removed, sources.Release{Provider: p, Version: e.Version})
		}
	}
	return removed
}

// An installTally adds up the results of root modules.
type installTally struct {
	report.InstallSum
	sources map[string]bool
	behind  map[sources.Provider]bool // with a newer release than the chosen version
}

// fail counts a root module that could not be read.
func (t *installTally) fail() { t.RootModules++; t.FailedRoots++ }

// add prints and counts the result of a root module.
func (t *installTally) add(out *report.Output, i installed) {
	t.RootModules++
	if i.fails {
		t.FailedRoots++
	}
	if i.Result == nil {
		t.Failed += i.required
		return
	}
	if t.sources == nil {
		t.sources, t.behind = map[string]bool{}, map[sources.Provider]bool{}
	}
	for _, p := range i.Behind {
		t.behind[p] = true
	}
	changed := false
	for _, p := range i.Packages {
		changed = changed || p.How != installer.WasInstalled
		t.Add(p)
		if p.Source != "" {
			t.sources[p.Source] = true
		}
	}
	if changed && !i.fails {
		t.Changed++
	}
	if i.fails {
		t.Failed += max(0, i.required-len(i.Packages))
	}
	if changed && len(t.sources) > 0 {
		out.Resolved(i.required, len(t.sources))
	}
	out.Changes(i.changes(), i.removed()...)
	for _, w := range i.Warnings {
		out.Warn("%s", w)
	}
	if i.Lock.Written {
		t.LockFiles++
		out.LockFile(i.Lock)
	}
}
