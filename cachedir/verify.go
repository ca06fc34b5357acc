package cachedir

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// VerifyOptions configure [Dir.Verify].
type VerifyOptions struct {
	ListOptions
	Listing *Listing // if the cache was listed a moment ago; Verify completes it

	// Recorded believes the record of a package whose files and evidence are the recorded ones. Such packages are only
	// among the entries.
	Recorded bool

	// Report is called with the number of bytes hashed so far, one call at a time. It
	// may be nil.
	Report func(done, of int64)
}

// A Verification is the result of reading all files in a cache.
type Verification struct {
	*Listing                  // with all findings
	Packages []sources.Stored // without a finding, sorted; without evidence and sums
	Unknown  int              // those of Packages that had no record
	Bytes    int64            // bytes hashed
}

// Verify hashes every package and compares it with its record and its evidence. It
// changes nothing, opens no connection, and follows no link.
func (d *Dir) Verify(ctx context.Context, opts VerifyOptions) (*Verification, error) {
	v := &verifier{Dir: d, byRecord: opts.Recorded && !d.opts.Paranoid}
	if v.Listing = opts.Listing; v.Listing == nil {
		var err error
		if v.Listing, err = d.List(ctx, opts.ListOptions); err != nil {
			return nil, err
		}
	}
	found := map[sources.PackageID]bool{}
	for _, f := range v.Findings {
		if f.Package != nil {
			found[*f.Package] = true
		}
	}
	if v.byRecord {
		err := eachOf(ctx, v.Entries, func(e *Entry) {
			if e.Target == "" && !found[e.ID] {
				v.believe(e)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	var subjects []store.Subject
	for i, e := range v.Entries {
		if e.Target == "" && !found[e.ID] && e.H1 == "" {
			subjects = append(subjects, v.subject(&v.Entries[i]))
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
	byRecord bool
	mu       sync.Mutex
}

// believe completes an entry by its record, if its files are the recorded ones, and its evidence wasn't written since.
func (v *verifier) believe(e *Entry) {
	r, ok := recordOf(v.ledger, e.ID, e.marks)
	if ok && v.evidence.IsOlder(e.ID.Release(), r.Facts, r.Written) && checkExecutable(e.Dir, e.marks, e.ID) == nil {
		e.H1, e.Origin, e.Evidence = r.H1, r.Origin, r.Evidence != ""
		e.Report = v.opts.Judge.Report(e.ID.Provider, r.Proof)
	}
}

// subject returns an entry as it is to be verified.
func (v *verifier) subject(e *Entry) store.Subject {
	var now record // zero if it could not be hashed
	return store.Subject{
		ID: e.ID, Path: e.ID.Path(), Dir: e.Dir, Size: sizeOf(e.marks),
		Read: func(ctx context.Context) (store.Facts, error) {
			r, err := v.contents(ctx, *e)
			if err == nil {
				now = r
			}
			return r.Facts, err
		},
		Recorded: func(store.Facts) (facts []store.Facts, err error) {
			all, err := v.recorded(e.ID, v.ledger)
			for _, r := range all {
				facts = append(facts, r.Facts)
			}
			return facts, err
		},
		Start: func() error { return checkExecutable(e.Dir, now.Files, e.ID) },
		Done: func(result store.Verified) {
			if !result.Gone {
				v.add(e, now, result)
			}
		},
	}
}

// contents returns a record of the contents of an entry.
func (v *verifier) contents(ctx context.Context, e Entry) (record, error) {
	if v.byRecord {
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

// add completes an entry with its contents and the result, and collects the result.
func (v *verifier) add(e *Entry, now record, result store.Verified) {
	r, err := v.inherit(e.ID, now, v.ledger)
	if err != nil {
		r = now
	}
	stored := v.stored(e.ID, e.Dir, r)
	e.H1, e.Origin, e.Report, e.Evidence = stored.H1, stored.Origin, stored.Report, stored.Signed != nil
	e.Changed = result.Has(store.Changed)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Findings = append(v.Findings, result.Findings...)
	if result.Sound() {
		stored.Signed, stored.Sums, stored.Seen = nil, nil, nil // of thousands of packages
		v.Packages = append(v.Packages, stored)
		if result.Was.H1 == "" {
			v.Unknown++
		}
	}
	v.Bytes += sizeOf(e.marks)
}

// The kinds of problems with the layout of a cache.
const (
	Dangling    store.Kind = "dangling link"   // the target does not exist
	Elsewhere   store.Kind = "link"            // a link to another place, not followed
	NoDirectory store.Kind = "not a directory" // a file instead of a directory
	Stranger    store.Kind = "foreign file"    // does not belong in a cache
)
