package install

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A LockChange is the difference between two blocks of a provider in a lock file.
type LockChange struct {
	report.Typed `type:"change"`
	Provider     string      `json:"provider"`
	Version      string      `json:"version"`
	Was          string      `json:"was,omitempty"`
	Constraints  *string     `json:"constraints,omitempty"` // if they have changed
	Added        []AddedHash `json:"added"`
	Removed      []string    `json:"removed"`

	of     lockfile.Difference
	module string // empty if there is only one
}

// An AddedHash is a hash that was added to a lock file, and the package with this hash, if that is known.
type AddedHash struct {
	Hash     sources.Hash  `json:"hash"`
	Platform string        `json:"platform,omitempty"`
	How      installer.How `json:"how,omitempty"`

	hasZH bool // the lock file has the zh hash of this package, so engines accept its archive
}

// lockChangeOf returns a difference in the lock file of a root module, which has a name if there are
// several. The packages are those whose hashes are known.
func lockChangeOf(d lockfile.Difference, packages []installer.Outcome, module string) LockChange {
	c := LockChange{
		Provider: d.Now.Provider.String(), Version: d.Now.Version.String(), Was: d.Was.Version.String(),
		Added: []AddedHash{}, Removed: sources.Texts(d.Removed), module: module,
		of: d,
	}
	if constraints := d.Now.Constraints.String(); constraints != d.Was.Constraints.String() {
		c.Constraints = &constraints
	}
	for _, h := range d.Added {
		added := AddedHash{Hash: h}
		i := slices.IndexFunc(packages, func(o installer.Outcome) bool {
			return o.Package.ID.Provider == d.Now.Provider && (o.Package.H1 == h || o.Package.ZH == h)
		})
		if i >= 0 {
			added.Platform, added.How = packages[i].Package.ID.Platform.String(), packages[i].How
			added.hasZH = slices.Contains(d.Was.Hashes, packages[i].Package.ZH)
		}
		c.Added = append(c.Added, added)
	}
	return c
}

// Cells implements [report.Row].
func (c LockChange) Cells(o *report.Output) []report.Cell {
	mark, version := report.Column{Paint: ui.Changed}.Of(" ~"), c.Version
	switch c.Was {
	case "":
		mark = report.Column{Paint: ui.Added}.Of(" +")
	case c.Version:
	default:
		version = c.Was + " → " + version
	}
	var plain report.Column
	name := report.Column{Paint: ui.Bold}.Of(c.Provider)
	return []report.Cell{mark, plain.Of(c.module), name, plain.Of(version), plain.Of(c.text(o.Level == report.Verbose))}
}

// text describes the changed hashes and constraints: "+1 h1, +4 zh". With detail, it includes
// the platforms of the hashes.
func (c LockChange) text(detailed bool) string {
	var parts []string
	for _, scheme := range []string{sources.H1, sources.ZH} {
		if n, of := c.addedOf(scheme); n > 0 {
			part := fmt.Sprintf("+%d %s", n, scheme)
			if detailed && len(of) > 0 {
				part += " (" + strings.Join(of, ", ") + ")"
			}
			parts = append(parts, part)
		}
	}
	if c.Was == c.Version {
		for _, same := range report.GroupBy(c.of.Removed, sources.Hash.Scheme) {
			parts = append(parts, fmt.Sprintf("-%d %s", len(same), same[0].Scheme()))
		}
	}
	if c.of.Constrained() {
		parts = append(parts, fmt.Sprintf("constraints %q", *c.Constraints))
	}
	return cmp.Or(strings.Join(parts, ", "), "reordered")
}

// lacks describes what the lock file lacks.
func (c LockChange) lacks() string {
	switch c.Was {
	case "":
		return "not locked"
	case c.Version:
	default:
		return "locked is " + c.Was
	}
	var parts []string
	h1, of := c.addedOf(sources.H1)
	for _, same := range report.GroupBy(of, c.lacked) {
		parts = append(parts, c.lacked(same[0])+ui.List("and", same))
	}
	if len(of) == 0 && h1 > 0 {
		parts = append(parts, hashes(h1, sources.H1)+" of other platforms missing")
	}
	if n, _ := c.addedOf(sources.ZH); n > 0 {
		parts = append(parts, hashes(n, sources.ZH)+" missing")
	}
	if c.of.Constrained() {
		parts = append(parts, fmt.Sprintf("constraints differ from %q", *c.Constraints))
	}
	return cmp.Or(strings.Join(parts, ", "), "hashes out of order")
}

// lacked describes the hashes that the lock file lacks for a platform, whose name follows.
func (c LockChange) lacked(platform string) string {
	if slices.ContainsFunc(c.Added, func(a AddedHash) bool { return a.Platform == platform && a.hasZH }) {
		return "no h1 hash for "
	}
	return "no hash for "
}

// addedOf counts the new hashes of a scheme, and lists the platforms of those with a known
// package.
func (c LockChange) addedOf(scheme string) (n int, platforms []string) {
	for _, h := range c.Added {
		if h.Hash.Scheme() != scheme {
			continue
		}
		n++
		if h.Platform != "" && scheme == sources.H1 {
			platforms = append(platforms, h.Platform)
		}
	}
	slices.Sort(platforms)
	return n, slices.Compact(platforms)
}

// finding returns the change as a problem of a check, in a line of the lock file. The line may be 0.
func (c LockChange) finding(file string, line int) report.Finding {
	f := lockFinding(ruleLockOutOfDate, file, line, c.lacks())
	switch {
	case c.Was == "":
		f.Kind = ruleNotLocked
	case len(c.Added) > 0:
		f.Kind = ruleLockIncomplete
	}
	return f.About(c.of.Now.Provider, c.of.Now.Version)
}

// A LockDiff is the change of a lock file as a patch, for programs that read patches.
type LockDiff struct {
	report.Typed `type:"diff"`
	File         string `json:"file"`
	Patch        string `json:"text"`
}

// A LockSum is the summary of completing or checking lock files.
type LockSum struct {
	Modules    int      `json:"root_modules"` // examined
	Incomplete int      `json:"incomplete"`   // lock files that were completed, or would be
	Failed     int      `json:"failed"`       // root modules
	Problems   int      `json:"problems,omitempty"`
	Unknown    int      `json:"unknown_hashes,omitempty"`     // not covered by any package or signed checksums
	CheckedOut int      `json:"checkout_providers,omitempty"` // served by the checkout; only of a strict check
	Platforms  []string `json:"platforms"`
	Packages   int      `json:"packages"` // packages whose hashes were required
	Fetched    int      `json:"fetched"`
	Bytes      int64    `json:"bytes"`
	DryRun     bool     `json:"dry_run,omitempty"`
	Check      bool     `json:"check,omitempty"`

	declared bool // a policy declares the platforms, so the summary names them
}

// platforms returns for which platforms the lock files were completed.
func (t LockSum) platforms() string {
	if t.declared {
		return ui.List("and", t.Platforms)
	}
	return ui.Count(len(t.Platforms), "platform")
}

// text returns the summary of a run that completes or checks lock files.
func (t LockSum) text(o *report.Output) string {
	complete, all := t.Modules-t.Incomplete, t.Modules+t.Failed
	of := func(n int) string {
		if n == all {
			return ui.Count(all, "lock file")
		}
		return fmt.Sprintf("%d of %s", n, ui.Count(all, "lock file"))
	}
	text := ""
	switch {
	case t.Check:
		text = fmt.Sprintf("Checked %s for %s", of(t.Modules), ui.List("and", t.Platforms))
		if t.Incomplete+t.Unknown+t.CheckedOut+t.Failed == 0 {
			text += ": complete"
		}
	case t.Incomplete+t.Failed == 0:
		return fmt.Sprintf("%s complete for %s (%s)", of(all), t.platforms(), ui.Took(o.Elapsed()))
	default:
		did := report.Said(t.DryRun, "Would complete", "Completed")
		text = fmt.Sprintf("%s %s for %s", did, of(t.Incomplete), t.platforms())
		is := report.Said(t.DryRun, "is", "was")
		if complete > 1 {
			is = report.Said(t.DryRun, "are", "were")
		}
		text = report.Also(text, ui.N(complete, is+" complete"))
	}
	text = report.Also(text, ui.N(t.Failed, "failed"))
	switch {
	case t.Bytes > 0:
		text += "; " + ui.Count(t.Fetched, "package") + ", " + ui.Fetched(t.Bytes, o.Elapsed())
	case t.Fetched > 0: // from a directory
		text += "; " + ui.Count(t.Fetched, "package") + " read"
	}
	return text
}

// hashes returns "1 KIND hash" or "2 KIND hashes".
func hashes(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " hash"
	}
	return fmt.Sprintf("%d %s hashes", n, kind)
}
