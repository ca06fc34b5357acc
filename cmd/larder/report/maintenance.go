package report

import (
	"fmt"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/store"
)

// A VerifySum is the summary of verifying packages: those of a plugin cache, of a mirror or a bundle, or the installed
// ones of root modules.
type VerifySum struct {
	RootModules int   `json:"root_modules,omitempty"`
	Packages    int   `json:"packages"`          // read, or that should be installed
	Unknown     int   `json:"unknown,omitempty"` // packages without a hash to compare with
	Bytes       int64 `json:"bytes,omitempty"`   // read
	Problems    int   `json:"problems"`
	Unvouched   int   `json:"without_evidence,omitempty"` // packages of a mirror without signed checksums
	Payloads    int   `json:"payloads,omitempty"`         // of a bundle, read
	Unread      bool  `json:"unread,omitempty"`           // the packages are in a place, and their archives were not read
}

// Text describes what was read: "212 packages (38.9 GB read in 31s)".
func (s VerifySum) Text(o *Output) string {
	text := ui.Count(s.Packages, "package")
	if s.RootModules > 0 {
		return fmt.Sprintf("%s of %s (read in %s)", text, ui.Count(s.RootModules, "root module"), ui.Took(o.Elapsed()))
	}
	if s.Unread {
		return text
	}
	return fmt.Sprintf("%s (%s read in %s)", text, ui.Size(s.Bytes), ui.Took(o.Elapsed()))
}

// A RepairSum is the summary of repairing a plugin cache or a mirror.
type RepairSum struct {
	VerifySum
	Replaced    int  `json:"replaced"` // by fetching packages again
	Restored    int  `json:"restored,omitempty"`
	Quarantined int  `json:"quarantined,omitempty"`
	Lowered     int  `json:"kept_without_evidence,omitempty"`
	Corrected   int  `json:"corrected,omitempty"` // problems of a mirror's index
	Failed      int  `json:"failed"`
	DryRun      bool `json:"dry_run,omitempty"`
}

// cannotRepair is what a dry run says about what a repair leaves as it is.
const cannotRepair = "can't be repaired"

// Add counts a repair, and returns it. Packages that are fetched again may replace damaged ones.
func (s *RepairSum) Add(f *store.Finding, do string, fetch, failed bool) Finding {
	if s.DryRun && fetch {
		do = string(cachedir.Replaced)
	}
	n := map[string]*int{
		string(cachedir.Replaced): &s.Replaced, string(cachedir.Restored): &s.Restored, string(builder.Correct): &s.Corrected,
		string(cachedir.Quarantined): &s.Quarantined, string(cachedir.Lowered): &s.Lowered,
	}[do]
	did := Said(s.DryRun, "would be ", "") + do
	switch {
	case s.DryRun && n == nil:
		did = cannotRepair
	case s.DryRun && fetch:
		did = "would be fetched again"
	}
	if failed || n == nil {
		n = &s.Failed
	}
	*n++
	repaired := FindingOf(f).Shown(f.Error() + ": " + did)
	repaired.Do, repaired.Fetch, repaired.DryRun = do, fetch, s.DryRun
	return repaired
}

// Text describes the result: "2 problems in 3 packages (1.2 GB read in 1s): 2 replaced".
func (s RepairSum) Text(o *Output) string {
	would, text := Said(s.DryRun, "would be ", ""), "No problem"
	if s.Problems > 0 {
		text = ui.Count(s.Problems, "problem")
	}
	text += " in " + s.VerifySum.Text(o)
	failed := ui.N(s.Failed, Said(s.DryRun, cannotRepair, "failed"))
	return text + Labeled(": ", ui.Numbers(ui.N(s.Replaced, would+Said(s.DryRun, "fetched again", "replaced")),
		ui.N(s.Restored, would+"restored"), ui.N(s.Quarantined, would+"quarantined"),
		ui.N(s.Lowered, would+"kept without evidence"), ui.N(s.Corrected, would+"corrected"), failed)...)
}

// A PruneSum is the summary of pruning a plugin cache or a mirror.
type PruneSum struct {
	Packages  int   `json:"packages"`               // removed, or that would be removed
	Freed     int64 `json:"freed"`                  // by packages and leftovers
	Leftovers int   `json:"leftovers,omitempty"`    // with archives and quarantined files; as packages
	Used      int   `json:"used,omitempty"`         // packages that root modules use
	Locked    int   `json:"locked,omitempty"`       // packages of a mirror that lock files select
	Kept      int   `json:"kept,omitempty"`         // packages of prefetch --keep
	Recent    int   `json:"recent"`                 // packages within the limits
	Others    int   `json:"of_others,omitempty"`    // packages that only other users may remove
	InUse     int   `json:"in_use_since,omitempty"` // packages in use since the listing
	Failed    int   `json:"failed"`
	DryRun    bool  `json:"dry_run,omitempty"`
}

// KeptText describes what remains, and what could not be removed.
func (s *PruneSum) KeptText() string {
	kept := ui.Numbers(ui.N(s.Used, "used by root modules"), ui.N(s.Locked, "locked"),
		ui.N(s.Kept, "prefetched with --keep"), ui.N(s.Recent, "within the limits"), ui.N(s.Others, "of other users"),
		ui.N(s.InUse, "in use since the listing"))
	return Also(Labeled("; kept: ", kept...), ui.N(s.Failed, "failed"))
}

// RemovedPackages describes what a prune of a mirror removes: "97 packages, 21.4 GB".
func RemovedPackages(n int, freed int64) string {
	return ui.Count(n, "package") + ", " + ui.Size(freed)
}
