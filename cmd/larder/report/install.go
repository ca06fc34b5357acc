package report

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
)

// An InstallSum is the summary of installing the providers of root modules.
type InstallSum struct {
	RootModules int      `json:"root_modules"`
	Changed     int      `json:"root_modules_changed"`
	FailedRoots int      `json:"root_modules_failed,omitempty"`
	Failed      int      `json:"failed"` // providers
	UpToDate    int      `json:"up_to_date"`
	Cached      int      `json:"from_cache"`
	Fetched     int      `json:"fetched"`
	Planned     int      `json:"planned,omitempty"` // that a dry run would download
	Bytes       int64    `json:"bytes"`
	LockFiles   int      `json:"lock_files_written"`
	DryRun      bool     `json:"dry_run,omitempty"`
	Behind      []string `json:"behind,omitempty"` // providers with a newer release than the chosen version, as far as sources were queried

	Several bool `json:"-"` // root modules were searched for
}

// Add counts a package.
func (t *InstallSum) Add(p installer.Outcome) {
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
}

// Idle reports whether everything was up to date.
func (t *InstallSum) Idle() bool {
	return t.FailedRoots+t.Failed+t.Changed+t.Cached+t.Fetched+t.Planned+t.LockFiles == 0
}

// Installed prints the summary for people.
func (o *Output) Installed(t InstallSum) {
	var texts []string
	if t.Several && t.RootModules > 0 {
		texts = append(texts, t.modules())
	}
	if t.UpToDate+t.Cached+t.Fetched+t.Planned+t.Failed > 0 {
		texts = append(texts, t.providers(o))
	}
	if len(texts) == 0 && t.DryRun {
		texts = append(texts, "Nothing to install")
	}
	if len(texts) > 0 {
		o.Say("%s", strings.Join(texts, ". "))
	}
}

// Behind tells people which providers have newer releases, and which command shows why these were not chosen.
func (o *Output) Behind(t InstallSum, command string) {
	if len(t.Behind) > 0 && t.FailedRoots+t.Failed == 0 {
		o.Aside("Newer versions of %s were not chosen: %s shows why", ui.Some(t.Behind, 3), command)
	}
}

// modules describes the results of the root modules.
func (t InstallSum) modules() string {
	var parts []string
	if t.Changed > 0 || t.FailedRoots == 0 { // one that failed may have changed
		parts = append(parts, fmt.Sprintf("%d changed", t.Changed))
	}
	parts = append(parts, ui.Numbers(ui.N(t.RootModules-t.Changed-t.FailedRoots, "up to date"), ui.N(t.FailedRoots, "failed"))...)
	if t.LockFiles > 0 {
		parts = append(parts, ui.Count(t.LockFiles, "lock file")+" updated")
	}
	return ui.Count(t.RootModules, "root module") + ": " + strings.Join(parts, ", ")
}

// providers describes what was installed, and how long that took.
func (t InstallSum) providers(o *Output) string {
	new := t.Cached + t.Fetched + t.Planned
	took := ui.Took(o.Elapsed())
	if new == 0 && t.Failed == 0 {
		return fmt.Sprintf("%s up to date (%s)", ui.Count(t.UpToDate, "provider"), took)
	}
	parts := []string{Said(t.DryRun, "Would install ", "Installed ") + ui.Count(new, "provider")}
	switch {
	case t.Fetched == 0 && t.Planned == 0 && new > 0:
		parts[0] += " from the cache"
	case t.Planned > 0:
		parts[0] += fmt.Sprintf(" (%d to fetch)", t.Planned)
	}
	parts = append(parts, ui.Numbers(ui.N(t.UpToDate, "up to date"), ui.N(t.Failed, "failed"))...)
	if t.Bytes > 0 {
		return strings.Join(append(parts, ui.Fetched(t.Bytes, o.Elapsed())), ", ")
	}
	return strings.Join(parts, ", ") + " (" + took + ")"
}
