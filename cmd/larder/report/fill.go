package report

import (
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
)

// A FillSum counts packages by result.
type FillSum struct {
	Packages int   `json:"packages"` // now in the store, or that would be
	Fetched  int   `json:"fetched"`
	Planned  int   `json:"planned,omitempty"` // that a dry run would download
	Bytes    int64 `json:"bytes"`
	Missing  int   `json:"missing"` // that do not exist
	Failed   int   `json:"failed"`
	Removed  int   `json:"removed,omitempty"` // that a snapshot doesn't list
	DryRun   bool  `json:"dry_run,omitempty"`

	Tried    int      `json:"-"` // all packages
	Declared []string `json:"-"` // platforms that policies declare; empty if --platform or none determines them
}

// Empty reports whether no package was tried: nothing was required, or errors are the reason.
func (s FillSum) Empty() bool { return s.Tried == 0 }

// Add counts a package that is in the store now, or would be.
func (s *FillSum) Add(got installer.Outcome) {
	s.Packages++
	switch got.How {
	case installer.Fetched:
		s.Fetched++
		s.Bytes += got.Size
	case installer.Planned:
		s.Planned++
	}
}

// Text returns the summary as text.
func (s FillSum) Text(o *Output) string {
	text := Said(s.DryRun, "Would add ", "Added ") + ui.Count(s.Fetched+s.Planned, "package")
	if s.Fetched+s.Planned == 0 {
		text = "Nothing to add"
	}
	if len(s.Declared) > 0 {
		text += " for " + ui.List("and", s.Declared)
	}
	if s.Bytes > 0 {
		text += " (" + ui.Fetched(s.Bytes, o.Elapsed()) + ")"
	}
	missing := ui.N(s.Missing, "not available for the platform")
	return Also(text, there(s.Packages-s.Fetched-s.Planned), missing, ui.N(s.Failed, "failed"))
}
