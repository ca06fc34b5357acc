package lockfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A Change tells how new entries differ from a file's, each list sorted.
type Change struct {
	Added   []sources.Provider
	Removed []sources.Provider
	Changed []sources.Provider // in version or hashes; in constraints if that counts
}

// None reports whether nothing has changed.
func (c Change) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// Update is the text that engine e would write if entries, one for each
// provider, replaced all that f holds, and what is different in it. If nothing
// is, the file is to be left as it is and the text is nil. Constraints do not
// count: the engines leave them out of the comparison.
//
// An engine that keeps a package which is installed already keeps its entry as
// it is, out-of-date constraints included; so the caller passes that entry on.
//
// What is assumed (see Migrate) counts as held. If entries lack any of it, OpenTofu
// rewrites the file, and so constraints and the header count too.
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

// assumedInVain reports whether any of what is assumed is not in entries.
func (f *File) assumedInVain(entries []Entry) bool {
	for p := range f.assumed {
		if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Provider == p }) {
			return true
		}
	}
	return false
}

// Rest are the entries of f for providers that entries lack, but for those that entries
// have taken over (see Migrate).
func (f *File) Rest(entries []Entry) []Entry {
	has := func(p sources.Provider) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return e.Provider == p })
	}
	return slices.DeleteFunc(f.Entries(), func(e Entry) bool {
		twin := e.Provider
		twin.Host = sources.OpenTofu.DefaultHost()
		_, assumed := f.assumed[twin]
		return has(e.Provider) || assumed && has(twin) && e.Provider.Host == sources.Terraform.DefaultHost()
	})
}

// Complete is [File.Update] for when hashes are found out, not packages
// installed: the engines then write constraints again too, so these count.
func (f *File) Complete(entries []Entry, e sources.Engine) ([]byte, Change) {
	return f.update(entries, e, func(old, now Entry) bool {
		return sameSelection(old, now) && old.Constraints.String() == now.Constraints.String()
	})
}

// sameSelection compares what is selected. Hashes in another order are a
// difference, so that engines and we agree on the text.
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

// normalized is entries as they are written: all in order, no hash twice.
func normalized(entries []Entry) []Entry {
	entries = sorted(entries)
	for i := range entries {
		entries[i].Hashes = sources.SortHashes(entries[i].Hashes)
	}
	return entries
}

// compare tells how entries, normalized and sorted, differ from f's.
func (f *File) compare(entries []Entry, same func(old, now Entry) bool) Change {
	var change Change
	kept := map[sources.Provider]bool{}
	for _, e := range entries {
		kept[e.Provider] = true
		old, ok := f.Entry(e.Provider)
		switch {
		case !ok:
			change.Added = append(change.Added, e.Provider)
		case !same(old, e):
			change.Changed = append(change.Changed, e.Provider)
		}
	}
	for _, old := range f.Entries() {
		if !kept[old.Provider] {
			change.Removed = append(change.Removed, old.Provider)
		}
	}
	return change
}

// render is the text of a lock file with entries, normalized and sorted, and
// those of f's comments whose places are in it.
func (f *File) render(entries []Entry, e sources.Engine) []byte {
	if e == "" {
		e = sources.Terraform
	}
	w := &writer{remarks: f.remarks}
	w.out.WriteString(header(e))
	w.comments(head)
	for _, e := range entries {
		w.provider(e)
	}
	w.comments(foot)
	return w.out.Bytes()
}

// A writer writes lines, and the comments of their places with them.
type writer struct {
	out     bytes.Buffer
	remarks remarks
}

func (w *writer) provider(e Entry) {
	p := e.Provider
	open := fmt.Sprintf("provider %s {", quote(p.String()))
	version := "version = "
	if !e.Constraints.Empty() {
		version = "version     = "
	}

	w.out.WriteByte('\n')
	w.opening(place{p, "{"}, open)
	w.line(place{p, "version"}, "  ", version+quote(e.Version.String()))
	if !e.Constraints.Empty() {
		w.line(place{p, "constraints"}, "  ", "constraints = "+quote(e.Constraints.String()))
	}
	if len(e.Hashes) > 0 {
		w.line(place{p, "hashes"}, "  ", "hashes = [")
		for _, h := range e.Hashes {
			w.line(place{p, string(h)}, "    ", quote(string(h))+",")
		}
		w.lead(place{p, "]"}, "    ")
		w.end(place{p, "]"}, "  ]")
	}
	w.lead(place{p, "}"}, "  ")
	w.end(place{p, "}"}, "}")
}

// comments writes comments that stand for themselves, in their paragraphs.
func (w *writer) comments(p place) {
	for _, c := range w.remarks.get(p).before {
		if c.apart {
			w.out.WriteByte('\n')
		}
		w.out.WriteString(c.text + "\n")
	}
}

// opening writes the first line of a block, which has its blank line already,
// and before it the paragraphs that belong to it.
func (w *writer) opening(p place, text string) {
	r := w.remarks.get(p)
	for i, c := range r.before {
		if i > 0 && c.apart {
			w.out.WriteByte('\n')
		}
		w.out.WriteString(c.text + "\n")
	}
	if len(r.before) > 0 && r.apart {
		w.out.WriteByte('\n')
	}
	w.end(p, text)
}

// line writes a line inside a block, after the comments that precede it.
func (w *writer) line(p place, indent, text string) {
	w.lead(p, indent)
	w.end(p, indent+text)
}

// lead writes the comments before the line for p.
func (w *writer) lead(p place, indent string) {
	for _, c := range w.remarks.get(p).before {
		w.out.WriteString(indent + c.text + "\n")
	}
}

// end writes the line for p itself, and the comments beside it.
func (w *writer) end(p place, text string) {
	w.out.WriteString(strings.Join(append([]string{text}, w.remarks.get(p).after...), " ") + "\n")
}

// get is the remark at p, or an empty one.
func (rs remarks) get(p place) remark {
	if r := rs[p]; r != nil {
		return *r
	}
	return remark{}
}

// Migrate makes f lock what OpenTofu takes to be locked besides its entries: for
// each provider that Terraform's registry has in the namespace hashicorp, the
// provider of the same name in OpenTofu's own, at the same version and with no
// hashes. The warning tells the user which; it is empty if there are none.
//
// The original entries are for the caller to keep or to drop, as its
// requirements say.
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
