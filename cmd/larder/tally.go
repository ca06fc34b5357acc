package main

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
)

// An installed is the result for one root module.
type installed struct {
	*installer.Result // nil if no installation was tried
	before            *lockfile.File
	required          int // providers
	fails             bool
}

// changes returns the packages of the result, and how each differs from the one before.
func (i installed) changes() []ui.Change {
	changes := make([]ui.Change, len(i.Packages))
	for n, p := range i.Packages {
		changes[n] = ui.Change{Outcome: p, Unchanged: p.How == installer.WasInstalled}
		if locked, ok := i.before.Entry(p.Package.ID.Provider); ok && locked.Version != p.Package.ID.Version {
			changes[n].Was = locked.Version
		}
	}
	return changes
}

// An installTally adds up the results of root modules. It is also the summary in JSON.
type installTally struct {
	RootModules int   `json:"root_modules"`
	Changed     int   `json:"root_modules_changed"`
	Failed      int   `json:"failed"` // providers
	UpToDate    int   `json:"up_to_date"`
	Cached      int   `json:"from_cache"`
	Fetched     int   `json:"fetched"`
	Planned     int   `json:"planned,omitempty"` // that a dry run would download
	Bytes       int64 `json:"bytes"`
	LockFiles   int   `json:"lock_files_written"`
	DryRun      bool  `json:"dry_run,omitempty"`

	failed  int // root modules
	sources map[string]bool
}

// fail counts a root module that could not be read.
func (t *installTally) fail() { t.RootModules++; t.failed++ }

// add prints and counts the result of a root module.
func (t *installTally) add(out *ui.Output, i installed) {
	t.RootModules++
	if i.fails {
		t.failed++
	}
	if i.Result == nil {
		t.Failed += i.required
		return
	}
	changed := false
	for _, p := range i.Packages {
		changed = changed || p.How != installer.WasInstalled
		t.count(p)
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
	out.Changes(i.changes())
	if !i.fails && !out.JSON {
		for _, p := range i.Lock.Removed {
			if e, ok := i.before.Entry(p); ok {
				out.Removed(p, e.Version)
			}
		}
	}
	for _, w := range i.Warnings {
		out.Warn("%s", w)
	}
	if i.Lock.Written {
		t.LockFiles++
		out.LockFile(i.Lock)
	}
}

func (t *installTally) count(p installer.Outcome) {
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
		if t.sources == nil {
			t.sources = map[string]bool{}
		}
		t.sources[p.Source] = true
	}
}

// show prints the summary.
func (t *installTally) show(out *ui.Output, flags globals) {
	t.DryRun = flags.dryRun
	if out.JSON {
		out.Summary(t)
		return
	}
	var texts []string
	if flags.recursive && t.RootModules > 0 {
		texts = append(texts, t.modules())
	}
	if t.UpToDate+t.Cached+t.Fetched+t.Planned+t.Failed > 0 {
		texts = append(texts, t.providers(out))
	}
	if len(texts) > 0 {
		out.Say("%s", strings.Join(texts, ". "))
	}
}

// idle reports whether everything was up to date.
func (t *installTally) idle() bool {
	return t.failed+t.Failed+t.Changed+t.Cached+t.Fetched+t.Planned+t.LockFiles == 0
}

// modules describes the results of the root modules.
func (t *installTally) modules() string {
	parts := []string{fmt.Sprintf("%d changed", t.Changed)}
	parts = append(parts, ui.Numbers(ui.Number{N: t.RootModules - t.Changed - t.failed, What: "up to date"}, ui.Number{N: t.failed, What: "failed"})...)
	if t.LockFiles > 0 {
		parts = append(parts, ui.Count(t.LockFiles, "lock file")+" updated")
	}
	return ui.Count(t.RootModules, "root module") + ": " + strings.Join(parts, ", ")
}

// providers describes what was installed, and how long that took.
func (t *installTally) providers(out *ui.Output) string {
	new := t.Cached + t.Fetched + t.Planned
	took := ui.Took(out.Elapsed())
	if new == 0 && t.Failed == 0 {
		return fmt.Sprintf("%s up to date (%s)", ui.Count(t.UpToDate, "provider"), took)
	}
	did := "Installed"
	if t.DryRun {
		did = "Would install"
	}
	parts := []string{did + " " + ui.Count(new, "provider")}
	switch {
	case t.Fetched == 0 && t.Planned == 0 && new > 0:
		parts[0] += " from the cache"
	case t.Planned > 0:
		parts[0] += fmt.Sprintf(" (%d to fetch)", t.Planned)
	}
	parts = append(parts, ui.Numbers(ui.Number{N: t.UpToDate, What: "up to date"}, ui.Number{N: t.Failed, What: "failed"})...)
	if t.Bytes > 0 {
		return strings.Join(append(parts, ui.Fetched(t.Bytes, out.Elapsed())), ", ")
	}
	return strings.Join(parts, ", ") + " (" + took + ")"
}
