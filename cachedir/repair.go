package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A Mending is what is to be done about a finding, or was.
type Mending struct {
	Finding
	Do     Remedy
	Aside  string         // whither it was moved; empty unless it was
	Stored []sources.Hash // of the package that was moved, as it was once stored; empty if that is not known
	Err    error          // why nothing was done
}

// Fetch reports whether a package is missing now, or would be, because of what
// was wrong with it.
func (m Mending) Fetch() bool { return m.Do == SetAside && m.Package != nil && m.Err == nil }

// A Remedy is what can be done about a finding.
type Remedy string

// The remedies.
const (
	SetAside Remedy = "set aside" // moved into .larder/aside; a package can be fetched again
	Recorded Remedy = "recorded"  // what is in the package is remembered anew
	Lowered  Remedy = "lowered"   // the package stays, as one that nobody vouches for
	Nothing  Remedy = "left"      // somebody who may has to mend it
)

func (f Finding) remedy() Remedy {
	switch f.Kind {
	case BadRecord:
		return Recorded
	case BadEvidence:
		return Lowered
	case Unreadable:
		return Nothing
	}
	return SetAside
}

// Mendings are what is to be done about the findings.
func (v *Verification) Mendings() []Mending {
	var all []Mending
	for _, f := range v.Findings {
		all = append(all, Mending{Finding: f, Do: f.remedy()})
	}
	return all
}

// Repair mends what Verify has found, without fetching anything: it sets aside
// what is wrong, under .larder/aside and by rename, so that nothing is lost, and
// remembers what the packages hold of which nothing valid was remembered. It
// waits until nothing is being installed from the cache.
func (d *Dir) Repair(ctx context.Context, v *Verification) ([]Mending, error) {
	if d.readOnly != nil {
		return nil, fmt.Errorf("the plugin cache cannot be written: %w", d.readOnly)
	}
	release, err := d.clean(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d.removeLeftovers()
	for _, c := range v.checked {
		d.remakeRecord(c)
	}
	m := mender{Dir: d, v: v}
	mended := v.Mendings()
	for i := range mended {
		if ctx.Err() != nil {
			return mended[:i], ctx.Err()
		}
		mended[i].Err = m.mend(&mended[i])
	}
	return mended, nil
}

// remakeRecord replaces a record that is none or is out of date, unless the
// package has other contents than were recorded.
func (d *Dir) remakeRecord(c checked) {
	marks, err := scan(c.Dir)
	valid := slices.Equal(c.old.Files, marks) && c.old.survives()
	if err != nil || c.fresh.H1 == "" || valid || !slices.Equal(c.fresh.Files, marks) || !settled(marks, d.opts.Now()) {
		return
	}
	if c.old.H1 != "" && c.old.H1 != c.fresh.H1 {
		return
	}
	path := d.recordPath(c.ID)
	d.keepRecord(path, d.inherit(c.fresh, path))
	_ = os.Chtimes(path, c.Used, c.Used) // being repaired is no use
}

// A mender does what is to be done.
type mender struct {
	*Dir
	v     *Verification
	aside string // where to put what is wrong; empty until needed
}

// mend does what is to be done, and notes what came of it.
func (m *mender) mend(f *Mending) (err error) {
	switch f.Do {
	case SetAside:
		return m.setAside(f)
	case Lowered:
		f.Aside, err = m.lower(*f.Package)
	}
	return err // or recorded already, or beyond us
}

// setAside moves what a finding is about. A package is moved whole, unless it is
// another now than the one that was verified.
func (m *mender) setAside(f *Mending) (err error) {
	parts := strings.Split(f.Path, "/")
	if len(parts) <= platformDepth {
		f.Aside, err = m.move(filepath.Join(m.root, filepath.FromSlash(f.Path)), f.Path)
		return err
	}
	at := path.Join(parts[:platformDepth+1]...)
	full := filepath.Join(m.root, filepath.FromSlash(at))
	i := slices.IndexFunc(m.v.checked, func(c checked) bool { return c.ID.Path() == at })
	if i >= 0 {
		marks, err := scan(full)
		if err == nil && !slices.Equal(marks, m.v.checked[i].marks) {
			return errors.New("it has changed since it was verified")
		}
	}
	if !canonical(at, platformDepth) {
		f.Aside, err = m.move(full, at)
		return err
	}
	id := idOf(at)
	unlock, err := m.holdTofu(id)
	if err != nil {
		return err
	}
	defer unlock()
	for _, path := range []string{m.knownPath(id), m.recordPath(id)} { // the record counts, if there is one
		if r, ok := m.readRecord(path); ok {
			f.Stored = r.hashes()
		}
	}
	if f.Aside, err = m.move(full, at); err != nil {
		return err
	}
	return m.forgetRecord(id)
}

// lower sets aside the evidence for a version that does not vouch for one of its
// packages, and what is recorded of the verdict on that package.
func (m *mender) lower(id sources.PackageID) (string, error) {
	path := m.recordPath(id)
	used := m.lastUse(Entry{ID: id, Dir: m.entry(id)})
	if r, ok := m.readRecord(path); ok {
		r.Verdict, r.Evidence = sources.Unverified, ""
		m.keepRecord(path, r)
		_ = os.Chtimes(path, used, used)
	}
	m.lowerKnown(id)
	return m.move(m.evidencePath(id.Provider, id.Version), "evidence/"+id.Provider.String()+"/"+id.Version.String())
}

// move moves what is at full to its path in the directory for what is aside. If
// it is there no more, there is nothing to do.
func (m *mender) move(full, at string) (string, error) {
	if gone(full) {
		return "", nil
	}
	if m.aside == "" {
		top := filepath.Join(m.opts.State, "aside")
		if err := os.MkdirAll(top, 0o755); err != nil {
			return "", err
		}
		dir, err := os.MkdirTemp(top, m.opts.Now().UTC().Format("20060102T150405Z-*"))
		if err != nil {
			return "", err
		}
		m.aside = dir
	}
	to := filepath.Join(m.aside, filepath.FromSlash(at))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	if err := rename(full, to); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	return to, nil
}
