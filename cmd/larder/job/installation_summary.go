package job

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// An installed is the result for one root module.
type installed struct {
	*installer.Result // nil if no installation was tried
	before            *lockfile.File
	required          int   // providers
	err               error // of the installation
	declared          bool  // a policy declares the platforms
	lacking           []string
}

// changes returns the packages of the result, and how each differs from the one before.
func (i installed) changes() []report.Change {
	changes := make([]report.Change, len(i.Packages))
	for n, p := range i.Packages {
		changes[n] = report.Change{Outcome: &p, Unchanged: p.How == installer.WasInstalled}
		if locked, ok := i.before.Entry(p.Package.ID.Provider); ok && locked.Version != p.Package.ID.Version {
			changes[n].Was = locked.Version
		}
	}
	return changes
}

// providers returns how many of the root module's providers have an error, and how many others have a package.
func (i installed) providers() (failed, done int) {
	broken := map[sources.Provider]bool{}
	for _, err := range sources.Errors(i.err) {
		broken[sources.About(err).Provider] = true
	}
	delete(broken, sources.Provider{})
	fine := map[sources.Provider]bool{}
	for _, p := range i.Packages {
		if of := p.Package.ID.Provider; !broken[of] {
			fine[of] = true
		}
	}
	return len(broken), len(fine)
}

// removed returns the providers that were removed from the lock file.
func (i installed) removed() (removed []sources.Release) {
	if i.err != nil {
		return nil
	}
	for _, p := range i.Lock.Removed {
		if e, ok := i.before.Entry(p); ok {
			removed = append(removed, sources.Release{Provider: p, Version: e.Version})
		}
	}
	return removed
}

// An InstallSum is the summary of installing the providers of root modules.
type InstallSum struct {
	RootModules int      `json:"root_modules"`
	Changed     int      `json:"root_modules_changed"`
	FailedRoots int      `json:"root_modules_failed,omitempty"`
	Failed      int      `json:"failed"`                  // providers with an error of their own
	Omitted     int      `json:"not_installed,omitempty"` // providers without one, because another failed
	UpToDate    int      `json:"up_to_date"`
	Cached      int      `json:"from_cache"`
	Fetched     int      `json:"fetched"`
	Planned     int      `json:"planned,omitempty"` // that a dry run would download
	Bytes       int64    `json:"bytes"`
	LockFiles   int      `json:"lock_files_written"`
	DryRun      bool     `json:"dry_run,omitempty"`
	Behind      []string `json:"behind,omitempty"` // providers with a newer release, by the queried sources
}

// An installTally adds up the results of root modules.
type installTally struct {
	InstallSum
	sources map[string]bool
	behind  map[sources.Provider]bool // with a newer release than the chosen version

	unhashed   int                       // lock files that were written without hashes for other platforms
	lacking    []string                  // platforms for which a source has no package of these providers
	incomplete map[sources.Provider]bool // without these hashes
	declared   bool                      // a policy declares the platforms of such a lock file
}

// fail counts a root module that could not be read.
func (t *installTally) fail() { t.RootModules++; t.FailedRoots++ }

// add prints and counts the result of a root module.
func (t *installTally) add(out *report.Output, i installed) {
	t.RootModules++
	if i.err != nil {
		t.FailedRoots++
	}
	if i.Result == nil {
		i.Result = &installer.Result{}
	}
	if t.sources == nil {
		t.sources, t.behind, t.incomplete = map[string]bool{}, map[sources.Provider]bool{}, map[sources.Provider]bool{}
	}
	for _, p := range i.Behind {
		t.behind[p] = true
	}
	before := t.UpToDate
	for _, p := range i.Packages {
		switch p.How {
		case installer.WasInstalled:
			t.UpToDate++
		case installer.Fetched:
			t.Fetched++
			t.Bytes += p.Size
		case installer.Planned:
			t.Planned++
		default:
			t.Cached++
		}
		if p.Source != "" {
			t.sources[p.Source] = true
		}
	}
	changed := t.UpToDate-before < len(i.Packages)
	if changed && i.err == nil {
		t.Changed++
	}
	if i.err != nil {
		failed, done := i.providers()
		t.Failed += failed
		t.Omitted += max(0, i.required-failed-done)
	}
	if changed && len(t.sources) > 0 {
		out.Resolved(i.required, len(t.sources))
	}
	out.Changes(i.changes(), i.removed()...)
	for _, w := range i.Warnings {
		out.Warn("%s", w)
	}
	if i.Lock.Path != "" && i.err == nil {
		t.LockFiles++
		out.LockFile(i.Lock)
	}
	if i.Lock.Written && len(i.Incomplete) > 0 {
		t.unhashed++
		t.declared = t.declared || i.declared
		for _, p := range i.Incomplete {
			t.incomplete[p] = true
		}
		t.lacking = append(t.lacking, i.lacking...)
	}
}

// show prints the summary for people, and which providers have newer releases, with the command that shows why these
// were not chosen, if there is one. Several means that root modules were searched for. A quiet run that changed nothing
// shows nothing.
func (t InstallSum) show(o *report.Output, several, quiet bool, command string) {
	if quiet && t.FailedRoots+t.Failed+t.Changed+t.Cached+t.Fetched+t.Planned+t.LockFiles == 0 {
		return
	}
	var texts []string
	if several && t.RootModules > 0 {
		texts = append(texts, t.modules())
	}
	if t.UpToDate+t.Cached+t.Fetched+t.Planned+t.Failed+t.Omitted > 0 {
		texts = append(texts, t.providers(o))
	}
	if len(texts) == 0 && t.DryRun {
		texts = append(texts, "Nothing to install")
	}
	if len(texts) > 0 {
		o.Say("%s", strings.Join(texts, ". "))
	}
	if len(t.Behind) > 0 && t.FailedRoots+t.Failed == 0 {
		text := fmt.Sprintf("Newer versions of %s were not chosen", ui.Some(t.Behind, 3))
		if command != "" {
			text += ": " + command + " shows why"
		}
		o.Aside("%s", text)
	}
}

// modules describes the results of the root modules.
func (t InstallSum) modules() string {
	var parts []string
	if t.Changed > 0 || t.FailedRoots == 0 { // one that failed may have changed
		parts = append(parts, fmt.Sprintf("%d changed", t.Changed))
	}
	same := t.RootModules - t.Changed - t.FailedRoots
	parts = append(parts, ui.Numbers(ui.N(same, "up to date"), ui.N(t.FailedRoots, "failed"))...)
	if t.LockFiles > 0 {
		parts = append(parts, ui.Count(t.LockFiles, "lock file")+report.Said(t.DryRun, " to update", " updated"))
	}
	return ui.Count(t.RootModules, "root module") + ": " + strings.Join(parts, ", ")
}

// providers describes what was installed, and how long that took.
func (t InstallSum) providers(o *report.Output) string {
	new := t.Cached + t.Fetched + t.Planned
	took := ui.Took(o.Elapsed())
	if new+t.Failed+t.Omitted == 0 {
		return fmt.Sprintf("%s up to date (%s)", ui.Count(t.UpToDate, "provider"), took)
	}
	parts := []string{report.Said(t.DryRun, "Would install ", "Installed ") + ui.Count(new, "provider")}
	switch {
	case t.Fetched == 0 && t.Planned == 0 && new > 0:
		parts[0] += " from the cache"
	case t.Planned > 0:
		parts[0] += fmt.Sprintf(" (%d to fetch)", t.Planned)
	}
	others := ui.Numbers(ui.N(t.UpToDate, "up to date"), ui.N(t.Failed, "failed"), ui.N(t.Omitted, "not installed"))
	parts = append(parts, others...)
	if t.Bytes > 0 {
		return strings.Join(append(parts, ui.Fetched(t.Bytes, o.Elapsed())), ", ")
	}
	return strings.Join(parts, ", ") + " (" + took + ")"
}
