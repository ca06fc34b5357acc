package cachedir

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// VerifyOptions configure [Dir.Verify].
type VerifyOptions struct {
	ListOptions

	// Recorded hashes only packages whose files have changed since they were recorded.
	Recorded bool

	// Report is called with the number of bytes hashed so far, one call at a time. It
	// may be nil.
	Report func(done, of int64)
}

// A Verification is the result of reading all files in a cache.
type Verification struct {
	*Listing                  // with all findings
	Packages []sources.Stored // without a finding, sorted
	Unknown  int              // those of Packages that had no record
	Bytes    int64            // bytes hashed

	checked []checked // without intact entries that have a valid record, because they require no repair
}

// checked is an entry that has been hashed.
type checked struct {
	Entry
	fresh record // the contents; zero if they could not be hashed
	old   record // the record; zero if there was none
}

// Verify hashes every package and compares it with its record and its evidence. It
// changes nothing, opens no connection, and follows no link.
func (d *Dir) Verify(ctx context.Context, opts VerifyOptions) (*Verification, error) {
	listing, err := d.List(ctx, opts.ListOptions)
	if err != nil {
		return nil, err
	}
	v := &verifier{Dir: d, byRecord: opts.Recorded && !d.opts.Paranoid}
	v.Listing = listing
	found := packagesOf(v.Findings)
	var subjects []store.Subject
	for i, e := range v.Entries {
		if e.Target == "" && !found[e.ID.Path()] {
			subjects = append(subjects, v.subject(&checked{Entry: e}, &v.Entries[i]))
		}
	}
	if err := d.evidence.Verify(ctx, subjects, opts.Report); err != nil {
		return nil, err
	}
	slices.SortStableFunc(v.Findings, func(a, b *store.Finding) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(v.Packages, func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	return &v.Verification, nil
}

// A verifier collects the results of verifying.
type verifier struct {
	*Dir
	Verification
	byRecord bool // hash only packages whose files have changed since they were recorded
	mu       sync.Mutex
}

// packagesOf returns the paths of the packages that contain findings.
func packagesOf(findings []*store.Finding) map[string]bool {
	paths := map[string]bool{}
	for _, f := range findings {
		parts := strings.Split(f.Path, "/")
		paths[path.Join(parts[:min(len(parts), platformDepth+1)]...)] = true
	}
	return paths
}

// subject returns an entry, which is also in the listing, as it is to be verified.
func (v *verifier) subject(c *checked, listed *Entry) store.Subject {
	return store.Subject{
		ID: c.ID, Path: c.ID.Path(), Dir: c.Dir, Size: sizeOf(c.marks),
		Read: func(ctx context.Context) (store.Facts, error) {
			r, err := v.contents(ctx, c.Entry)
			if err == nil {
				c.fresh = r
			}
			return r.Facts, err
		},
		Recorded: func(store.Facts) (all []store.Facts, err error) {
			c.old, all, err = v.believed(c.ID)
			return all, err
		},
		Start: func() error { return checkExecutable(c.Dir, c.fresh.Files, c.ID) },
		Done: func(result store.Verified) {
			if !result.Gone {
				v.add(*c, listed, result)
			}
		},
	}
}

// contents returns a record of the contents of an entry.
func (v *verifier) contents(ctx context.Context, e Entry) (record, error) {
	if v.byRecord {
		if r, ok := recordOf(v.ledger, e.ID, e.marks); ok {
			return r, nil
		}
		if all, _ := v.recorded(e.ID, v.ledger); len(all) == 0 { // there is nothing to compare with
			return record{Files: e.marks}, nil
		}
	}
	r, err := hash(ctx, e.Dir)
	if errors.Is(err, sources.ErrNotFound) && gone(e.Dir) {
		err = store.ErrGone
	}
	return r, err
}

// believed returns the record of a package, and the verified facts in the record and in the known hashes. It ignores claims
// of an import.
func (d *Dir) believed(id sources.PackageID) (r record, all []store.Facts, err error) {
	r, err = d.ledger.Find(id.Provider, store.KeyOf(id))
	known, knownErr := d.known.Of(id)
	for _, err := range []error{err, knownErr} {
		if disk.IsUnread(err) {
			return r, nil, err
		}
	}
	if r.H1 != "" {
		all = append(all, r.dated())
	}
	if known.H1 != "" && !known.Imported {
		all = append(all, known)
	}
	return r, all, nil
}

// add adds an entry with the result, and completes the listing.
func (v *verifier) add(c checked, e *Entry, result store.Verified) {
	c.old.Facts = result.Was
	r, err := v.inherit(c.ID, c.fresh, v.ledger)
	if err != nil {
		r = c.fresh
	}
	stored := v.stored(c.ID, c.Dir, r)
	e.H1, e.ZH, e.Origin, e.Report, e.Evidence = stored.H1, stored.ZH, stored.Origin, stored.Report, stored.Signed != nil
	e.Changed = result.Has(store.Changed)
	if result.Has(store.Unreadable) {
		c.fresh = record{} // whether the contents are unchanged is unknown, so they are not recorded
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Findings = append(v.Findings, result.Findings...)
	if !result.Sound() || !slices.Equal(c.old.Files, c.fresh.Files) || !c.old.survives() {
		v.checked = append(v.checked, c)
	}
	if result.Sound() {
		v.Packages = append(v.Packages, stored)
		if result.Was.H1 == "" {
			v.Unknown++
		}
	}
	v.Bytes += sizeOf(c.marks)
}

// The kinds of problems with the layout of a cache.
const (
	Dangling    store.Kind = "dangling link"   // the target does not exist
	Elsewhere   store.Kind = "link"            // a link to another place, not followed
	NoDirectory store.Kind = "not a directory" // a file instead of a directory
	Stranger    store.Kind = "foreign file"    // does not belong in a cache
	Leftover    store.Kind = "leftover"        // from a killed process
)
