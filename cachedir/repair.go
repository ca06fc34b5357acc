package cachedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Mending is what is to be done about a finding, or was.
type Mending struct {
	Finding
	Do     Remedy
	Aside  string         // whither it was moved; empty unless it was
	Stored []sources.Hash // of the package that was moved, as it was once stored; empty if that is not known
	Err    error          // why nothing was done
}

// Fetch reports whether a package would be missing without what was wrong with it,
// unless it is fetched again.
func (m Mending) Fetch() bool { return m.Do == SetAside && m.Package != nil && m.Err == nil }

// A Remedy is what can be done about a finding.
type Remedy string

// The remedies.
const (
	SetAside Remedy = "set aside" // moved to .larder/aside
	Replaced Remedy = "replaced"  // set aside, and fetched again
	Recorded Remedy = "recorded"  // the package has a new record
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

// A Replacer puts a package into the cache as it was, in the place of a wrong one. It
// is gone if no source has it as it was; only else is it worth trying again.
type Replacer func(context.Context, Mending) (gone bool, err error)

// Repair mends what Verify has found. It has packages replaced that a source has,
// moves aside the others and all else that is wrong, under .larder/aside and by
// rename, so that nothing is lost, and records the contents of packages without a
// valid record. A package whose replacement fails for another reason than that no
// source has it stays as it is. It waits until nothing is being installed from the
// cache, but not while packages are replaced.
func (d *Dir) Repair(ctx context.Context, v *Verification, replace Replacer) ([]Mending, error) {
	if d.readOnly != nil {
		return nil, d.unwritable()
	}
	if err := d.opts.Key.Check(); disk.IsUnread(err) {
		return nil, err // what was verified cannot be told from what was not
	}
	mended := v.Mendings()
	for i := range mended {
		d.tryReplacing(ctx, &mended[i], replace)
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
	for i := range mended {
		if ctx.Err() != nil {
			return mended[:i], ctx.Err()
		}
		mended[i].Err = errors.Join(mended[i].Err, m.mend(&mended[i]))
	}
	return mended, nil
}

// tryReplacing replaces the package that a finding is about, if it can be fetched.
func (d *Dir) tryReplacing(ctx context.Context, m *Mending, replace Replacer) {
	if !m.Fetch() || replace == nil {
		return
	}
	m.Stored = d.storedHashes(*m.Package)
	before, _ := os.Lstat(d.entry(*m.Package))
	if m.Err = d.removeState(recordPath(*m.Package)); m.Err != nil { // it may vouch for what is wrong
		m.Do = Nothing
		return
	}
	gone, err := replace(ctx, *m)
	after, _ := os.Lstat(d.entry(*m.Package))
	switch m.Err = err; {
	case gone:
	case err == nil && before != nil && after != nil && os.SameFile(before, after): // nothing took its place
	case err == nil:
		m.Do, m.Aside = Replaced, d.aside.path(m.Package.Path())
	default:
		m.Do = Nothing
	}
}

// storedHashes are those of a package as it was once stored; none if that is not
// known.
func (d *Dir) storedHashes(id sources.PackageID) []sources.Hash {
	for _, path := range []string{recordPath(id), knownPath(id)} {
		if r, ok := d.readRecord(path); ok {
			return r.hashes()
		}
	}
	return nil
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
	path := recordPath(c.ID)
	r, err := d.inherit(c.ID, c.fresh, path)
	if err != nil || r.was != nil {
		return
	}
	d.keepRecord(path, r, nil)
	d.touch(path, c.Used) // being repaired is no use
}

// A mender does what is to be done.
type mender struct {
	*Dir
	v *Verification
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
		f.Aside, err = m.move(m.tree, f.Path, f.Path)
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
		f.Aside, err = m.move(m.tree, at, at)
		return err
	}
	id := idOf(at)
	home, err := m.home(id, false)
	if err != nil {
		return err
	}
	defer home.Close()
	unlock, err := m.holdTofu(home, id)
	if err != nil {
		return err
	}
	defer unlock()
	f.Stored = m.storedHashes(id)
	if f.Aside, err = m.move(m.tree, at, at); err != nil {
		return err
	}
	return m.removeState(recordPath(id))
}

// lower sets aside the evidence for a version that does not vouch for one of its
// packages, and what is recorded of the verdict on that package.
func (m *mender) lower(id sources.PackageID) (string, error) {
	path := recordPath(id)
	if r, ok := m.readRecord(path); ok {
		used := r.used
		r.Verdict, r.Evidence = sources.Unverified, ""
		m.keepRecord(path, r, nil)
		m.touch(path, used) // being repaired is no use
	}
	m.lowerKnown(id)
	at := evidencePath(id.Provider, id.Version)
	return m.move(m.state, at, at)
}

// move moves what is at a path in a directory to the path at in the directory for
// what is aside, and returns where that is. What is missing is nothing to move.
func (m *mender) move(in *disk.Dir, name, at string) (string, error) {
	if _, err := in.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	if dir := path.Dir(name); dir != "." {
		sub, err := in.Sub(dir)
		if err != nil {
			return "", err
		}
		defer sub.Close()
		in = sub
	}
	return m.aside.move(m.Dir, in, path.Base(name), at)
}

// An aside is a directory below .larder/aside, made when it is needed.
type aside struct {
	mu  sync.Mutex
	dir *disk.Dir
}

// move moves what is called name in a directory to the path at, and returns where
// that is.
func (a *aside) move(d *Dir, in *disk.Dir, name, at string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == nil {
		dir, err := d.state.MakeSub("aside/" + d.opts.Now().UTC().Format(asideTime))
		if err != nil {
			return "", err
		}
		a.dir = dir
	}
	to := a.dir
	if dir := path.Dir(at); dir != "." {
		sub, err := a.dir.MakeSub(dir)
		if err != nil {
			return "", err
		}
		defer sub.Close()
		to = sub
	}
	if err := disk.Rename(in, name, to, path.Base(at)); err != nil {
		return "", err
	}
	return a.dir.Path(at), nil
}

// AsideDir is where this run has moved what was wrong; empty if nothing was.
func (d *Dir) AsideDir() string {
	d.aside.mu.Lock()
	defer d.aside.mu.Unlock()
	if d.aside.dir == nil {
		return ""
	}
	return d.aside.dir.Path(".")
}

// path is where what was moved to the path at is; empty if nothing was.
func (a *aside) path(at string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dir == nil || !a.dir.Exists(at) {
		return ""
	}
	return a.dir.Path(at)
}
