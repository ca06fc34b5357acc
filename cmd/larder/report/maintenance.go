package report

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/store"
)

// A CacheChecked is the summary of verifying a plugin cache.
type CacheChecked struct {
	Packages int   `json:"packages"` // read
	Unknown  int   `json:"unknown"`  // packages without a hash to compare with
	Bytes    int64 `json:"bytes"`
	Problems int   `json:"problems"`
}

// A MirrorChecked is the summary of verifying a mirror or a bundle.
type MirrorChecked struct {
	Packages  int   `json:"packages"` // read
	Bytes     int64 `json:"bytes"`
	Problems  int   `json:"problems"`
	Unvouched int   `json:"without_evidence"`
	Payloads  int   `json:"payloads,omitempty"` // of a bundle, read
	Unread    bool  `json:"unread,omitempty"`   // the packages are in a place, and their archives were not read
}

// An InstalledChecked is the summary of verifying the installed packages of root modules.
type InstalledChecked struct {
	RootModules int `json:"root_modules"`
	Packages    int `json:"packages"` // that should be installed
	Problems    int `json:"problems"`
}

// Text describes what was read: "3 packages of 2 root modules (read in 2s)".
func (s InstalledChecked) Text(o *Output) string {
	return fmt.Sprintf("%s of %s (read in %s)", ui.Count(s.Packages, "package"), ui.Count(s.RootModules, "root module"), ui.Took(o.Elapsed()))
}

// ReadText describes what was read: "212 packages (38.9 GB read in 31s)".
func ReadText(o *Output, packages int, bytes int64) string {
	return fmt.Sprintf("%s (%s read in %s)", ui.Count(packages, "package"), ui.Size(bytes), ui.Took(o.Elapsed()))
}

// A Repaired is the summary of repairing a plugin cache.
type Repaired struct {
	CacheChecked
	Replaced    int  `json:"replaced"`
	Restored    int  `json:"restored"`
	Quarantined int  `json:"quarantined"`
	Lowered     int  `json:"kept_without_evidence"`
	Failed      int  `json:"failed"`
	DryRun      bool `json:"dry_run,omitempty"`
}

// Add counts a repair as the list shows it.
func (s *Repaired) Add(m cachedir.Mending, failed error) {
	counts := map[cachedir.Remedy]*int{
		cachedir.Replaced: &s.Replaced, cachedir.Restored: &s.Restored, cachedir.Quarantined: &s.Quarantined,
		cachedir.Lowered: &s.Lowered,
	}
	if n := counts[doneTo(m, s.DryRun)]; failed == nil && n != nil {
		*n++
	} else {
		s.Failed++
	}
}

// Text describes the repairs: ": 2 replaced, 1 quarantined".
func (s Repaired) Text() string {
	would := said(s.DryRun, "would be ", "")
	parts := ui.Numbers(ui.N(s.Replaced, would+"replaced"),
		ui.N(s.Restored, would+"restored"),
		ui.N(s.Quarantined, would+"quarantined"),
		ui.N(s.Lowered, would+"kept without evidence"), ui.N(s.Failed, said(s.DryRun, cannotRepair, "failed")))
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// A MirrorRepaired is the summary of repairing a mirror.
type MirrorRepaired struct {
	Packages  int   `json:"packages"` // read
	Bytes     int64 `json:"bytes"`
	Problems  int   `json:"problems"`
	Replaced  int   `json:"replaced"`  // problems that were solved by fetching packages again
	Corrected int   `json:"corrected"` // problems of the index
	Failed    int   `json:"failed"`
	DryRun    bool  `json:"dry_run,omitempty"`
}

// Add counts a repair, and returns it.
func (s *MirrorRepaired) Add(f *store.Finding, do builder.Remedy) Repair {
	*map[builder.Remedy]*int{builder.Replace: &s.Replaced, builder.Correct: &s.Corrected, builder.Nothing: &s.Failed}[do]++
	did := string(do)
	switch {
	case s.DryRun && do == builder.Nothing:
		did = cannotRepair
	case s.DryRun:
		did = "would be " + said(do == builder.Replace, "fetched again", did)
	}
	found := FindingOf(f).Shown(f.Error() + ": " + did)
	return Repair{Typed{}, found, string(do), do == builder.Replace, s.DryRun}
}

// Found describes what was found: "2 problems".
func (s MirrorRepaired) Found() string {
	if s.Problems == 0 {
		return "No problem"
	}
	return ui.Count(s.Problems, "problem")
}

// Text describes the repairs: ": 2 replaced, 1 corrected".
func (s MirrorRepaired) Text() string {
	would := said(s.DryRun, "would be ", "")
	parts := ui.Numbers(ui.N(s.Replaced, would+said(s.DryRun, "fetched again", "replaced")),
		ui.N(s.Corrected, would+"corrected"), ui.N(s.Failed, said(s.DryRun, cannotRepair, "failed")))
	return said(len(parts) > 0, ": "+strings.Join(parts, ", "), "")
}

// A Pruned is the summary of pruning a plugin cache.
type Pruned struct {
	Packages  int   `json:"packages"`            // removed, or that would be removed
	Freed     int64 `json:"freed"`               // by packages and leftovers
	Leftovers int   `json:"leftovers"`           // with archives and quarantined files; removed, or that would be removed
	Used      int   `json:"used"`                // packages that root modules use
	Kept      int   `json:"kept,omitempty"`      // packages of prefetch --keep
	Recent    int   `json:"recent"`              // packages within the limits
	Others    int   `json:"of_others,omitempty"` // packages that only other users may remove
	InUse     int   `json:"in_use_since"`
	Failed    int   `json:"failed"`
	DryRun    bool  `json:"dry_run,omitempty"`
}

// Add counts what was removed, or would be.
func (s *Pruned) Add(r cachedir.Removed) {
	s.Packages, s.Freed, s.Leftovers = len(r.Packages), r.Freed, r.Besides.Total().Count
}

// KeptText describes what remains, and what could not be removed.
func (s *Pruned) KeptText() string {
	return keptText(s.Failed, ui.N(s.Used, "used by root modules"), ui.N(s.Kept, "prefetched with --keep"), ui.N(s.Recent, "within the limits"),
		ui.N(s.Others, "of other users"), ui.N(s.InUse, "in use since the listing"))
}

// A MirrorPruned is the summary of pruning a mirror.
type MirrorPruned struct {
	Packages int   `json:"packages"` // removed, or that would be removed
	Freed    int64 `json:"freed"`
	Locked   int   `json:"locked"`
	Recent   int   `json:"recent"` // packages within the limits
	Failed   int   `json:"failed"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

// Kept describes what remains, and what could not be removed.
func (s *MirrorPruned) Kept() string {
	return keptText(s.Failed, ui.N(s.Locked, "locked"), ui.N(s.Recent, "within the limits"))
}

// keptText describes the packages that a prune keeps, and how many it could not remove.
func keptText(failed int, kept ...ui.Number) string {
	text := ""
	if parts := ui.Numbers(kept...); len(parts) > 0 {
		text = "; kept: " + strings.Join(parts, ", ")
	}
	return also(text, ui.N(failed, "failed"))
}

// RemovedText describes what a prune of a cache removes: "97 packages and 2 archives, 21.4 GB".
func RemovedText(r cachedir.Removed) string {
	b := r.Besides
	parts := counted(ui.N(len(r.Packages), "package"), ui.N(b.Archives.Count, "archive"),
		ui.N(b.Abandoned.Count+b.Leftover.Count+b.Quarantine.Count, "leftover"))
	if r.Empty() {
		parts = []string{"0 packages"}
	}
	text := ui.List("and", parts) + ", " + ui.Size(r.Freed)
	used := 0
	for _, p := range r.Packages {
		if p.Reason == cachedir.Everything && !p.Unused() {
			used++
		}
	}
	if used > 0 {
		text += fmt.Sprintf(" (%d in use or kept)", used)
	}
	return text
}

// RemovedPackages describes what a prune of a mirror removes: "97 packages, 21.4 GB".
func RemovedPackages(n int, freed int64) string {
	return ui.Count(n, "package") + ", " + ui.Size(freed)
}
