package lockfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A Change lists the differences between new entries and a file's. Each list is
// sorted.
type Change struct {
	Added   []sources.Provider
	Removed []sources.Provider
	Changed []sources.Provider // in version or hashes; also in constraints if those are compared

	Differences []Difference // of the entries added and changed, sorted by provider

	assumed []sources.Provider // those of Changed that the file has under another address
}

// Shown returns the changes as a comparison of the files shows them: engines take an assumed
// entry for a changed one, although its address is new in the file.
func (c Change) Shown() Change {
	assumed := func(p sources.Provider) bool { return slices.Contains(c.assumed, p) }
	c.Changed = slices.DeleteFunc(slices.Clone(c.Changed), assumed)
	c.Added = slices.Concat(c.Added, c.assumed)
	slices.SortFunc(c.Added, sources.Provider.Compare)
	c.assumed = nil
	return c
}

// A Difference compares an entry with the one that it replaces.
type Difference struct {
	Was, Now       Entry          // Was is zero if there was no entry
	Added, Removed []sources.Hash // Added is sorted
}

// Constrained reports whether the constraints of a version that was locked before have
// changed.
func (d Difference) Constrained() bool {
	return d.Was.Version == d.Now.Version && d.Was.Constraints.String() != d.Now.Constraints.String()
}

// None reports whether nothing has changed.
func (c Change) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// Update returns the text that engine e would write if entries, one for each
// provider, replaced all entries of f, and the differences. If there are none, the
// text is nil and the file must not be changed. Differences in constraints do not
// count, because the engines ignore them in the comparison.
//
// An engine that keeps an installed package also keeps its entry unchanged, including
// out-of-date constraints. The caller passes such an entry unchanged.
//
// Assumed entries (see Migrate) count as entries of f. If entries lack one of them,
// OpenTofu rewrites the file, and then constraints and the header count too.
func (f *File) Update(entries []Entry, e sources.Engine) ([]byte, Change) {
	if !f.assumedInVain(entries) {
		return f.update(entries, e, sameSelection)
	}
	text, change := f.Complete(entries, e)
	if text == nil && f.engine != e {
		text = f.render(normalized(entries), e)
	}
	return text, change
}

// assumedInVain reports whether entries lack an assumed entry.
func (f *File) assumedInVain(entries []Entry) bool {
	has := providers(entries)
	for p := range f.assumed {
		if !has[p] {
			return true
		}
	}
	return false
}

// providers returns the providers of entries.
func providers(entries []Entry) map[sources.Provider]bool {
	has := map[sources.Provider]bool{}
	for _, e := range entries {
		has[e.Provider] = true
	}
	return has
}

// Rest returns the entries of f for providers that entries lack, except for those
// whose version entries contain under another address (see Migrate).
func (f *File) Rest(entries []Entry) []Entry {
	has := providers(entries)
	return slices.DeleteFunc(f.Entries(), func(e Entry) bool {
		twin := e.Provider
		twin.Host = sources.OpenTofu.DefaultHost()
		_, assumed := f.assumed[twin]
		return has[e.Provider] || assumed && has[twin] && e.Provider.Host == sources.Terraform.DefaultHost()
	})
}

// Complete is [File.Update] after hashes were determined without installing packages.
// The engines then also write constraints, so differences in constraints count.
func (f *File) Complete(entries []Entry, e sources.Engine) ([]byte, Change) {
	return f.update(entries, e, func(old, now Entry) bool {
		return sameSelection(old, now) && old.Constraints.String() == now.Constraints.String()
	})
}

// sameSelection compares versions and hashes. A different order of the hashes is a
// difference, so that Larder writes the same text as the engines.
func sameSelection(old, now Entry) bool {
	return old.Version == now.Version && slices.Equal(old.Hashes, now.Hashes)
}

func (f *File) update(entries []Entry, e sources.Engine, same func(old, now Entry) bool) ([]byte, Change) {
	entries = normalized(entries)
	change := f.compare(entries, same)
	if change.None() {
		return nil, change
	}
	return f.render(entries, e), change
}

// normalized returns entries as they are written: sorted, with sorted hashes and no
// duplicates.
func normalized(entries []Entry) []Entry {
	entries = sorted(entries)
	for i := range entries {
		entries[i].Hashes = sources.SortHashes(entries[i].Hashes)
	}
	return entries
}

// compare returns the differences between entries, normalized and sorted, and those
// of f.
func (f *File) compare(entries []Entry, same func(old, now Entry) bool) Change {
	var change Change
	kept := providers(entries)
	for _, e := range entries {
		old, ok := f.Entry(e.Provider)
		switch {
		case !ok:
			change.Added = append(change.Added, e.Provider)
		case !same(old, e):
			change.Changed = append(change.Changed, e.Provider)
		default:
			continue
		}
		if _, listed := f.entries[e.Provider]; ok && !listed {
			change.assumed = append(change.assumed, e.Provider)
		}
		change.Differences = append(change.Differences, Difference{
			Was: old, Now: e,
			Added:   sources.Without(slices.Clone(e.Hashes), old.Hashes...),
			Removed: sources.Without(slices.Clone(old.Hashes), e.Hashes...),
		})
	}
	for _, old := range f.Entries() {
		if !kept[old.Provider] {
			change.Removed = append(change.Removed, old.Provider)
		}
	}
	return change
}

// render returns the text of a lock file with entries, normalized and sorted, and the
// comments of f whose places are in it.
func (f *File) render(entries []Entry, e sources.Engine) []byte {
	if e == "" {
		e = sources.Terraform
	}
	w := &writer{remarks: f.comments()}
	w.line(top, "", strings.TrimSuffix(header(e), "\n"))
	w.line(head, "", "")
	for _, e := range entries {
		w.provider(e)
	}
	w.line(foot, "", "")
	return w.out.Bytes()
}

// A writer writes lines and the comments of their places.
type writer struct {
	out     bytes.Buffer
	remarks remarks
}

func (w *writer) provider(e Entry) {
	p := e.Provider
	version := "version = "
	if !e.Constraints.Empty() {
		version = "version     = "
	}
	w.out.WriteByte('\n')
	w.line(place{p, "{"}, "", fmt.Sprintf("provider %s {", quote(p.String())))
	w.line(place{p, "version"}, "  ", "  "+version+quote(e.Version.String()))
	if !e.Constraints.Empty() {
		w.line(place{p, "constraints"}, "  ", "  constraints = "+quote(e.Constraints.String()))
	}
	if len(e.Hashes) > 0 {
		w.line(place{p, "hashes"}, "  ", "  hashes = [")
		for _, h := range e.Hashes {
			w.line(place{p, string(h)}, "    ", "    "+quote(string(h))+",")
		}
		w.line(place{p, "]"}, "    ", "  ]")
	}
	w.line(place{p, "}"}, "  ", "}")
}

// line writes the comments before the place p with an indent, and then its text, if it has one,
// with the comments beside it. Outside of blocks comments keep their paragraphs. The first one
// before a text is at the beginning of the file or after a blank line already.
func (w *writer) line(p place, indent, text string) {
	r := w.remarks.at(p)
	for i, c := range r.before {
		if c.apart && indent == "" && (i > 0 || text == "") {
			w.out.WriteByte('\n')
		}
		w.out.WriteString(indent + c.text + "\n")
	}
	if text == "" {
		return
	}
	if r.apart && indent == "" && len(r.before) > 0 {
		w.out.WriteByte('\n')
	}
	w.out.WriteString(strings.Join(append([]string{text}, r.after...), " ") + "\n")
}

// Migrate adds the entries that OpenTofu assumes: for each provider of the namespace
// hashicorp in Terraform's registry, the provider of the same name in OpenTofu's
// registry, with the same version and without hashes. The warning lists them; it is
// empty if there are none.
//
// The caller keeps or drops the original entries, depending on its requirements.
func (f *File) Migrate() (warning string) {
	f.assumed = map[sources.Provider]Entry{}
	var pairs []string
	for _, e := range f.Entries() {
		if e.Provider.Host != sources.Terraform.DefaultHost() || e.Provider.Namespace != "hashicorp" {
			continue
		}
		from := e.Provider
		e.Provider.Host = sources.OpenTofu.DefaultHost()
		if _, ok := f.entries[e.Provider]; ok {
			continue
		}
		e.Hashes = nil
		f.assumed[e.Provider] = e
		pairs = append(pairs, from.String()+" as "+e.Provider.String())
	}
	if pairs == nil {
		return ""
	}
	return "the lock file is Terraform's; taking the locked versions of " + strings.Join(pairs, ", ")
}
