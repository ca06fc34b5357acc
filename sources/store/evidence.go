package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// Evidence is the evidence that a store keeps, one for each version. It is read once in a
// run, and again under the lock of a version before it is merged. It is safe for
// concurrent use.
type Evidence struct {
	Judge sources.Judge
	Warn  func(error)

	// Dir has the evidence at [evidence.Path], with Prefix instead of .larder/. Without it, evidence is only kept for this
	// run. Single keeps it as one file for each version, beside those of other providers of the namespace.
	Dir    *disk.Dir
	Prefix string
	Single bool

	// References returns the references to the evidence for a version in authenticated
	// records.
	References func(sources.Release) []string

	// Loose reports that other programs add evidence, so packages without a reference are compared with it, and that
	// others get the store without its records, so a record without evidence proves no signature. Strict refuses packages
	// that the merged evidence doesn't cover.
	Loose, Strict bool

	// Via returns the directory for temporary files.
	Via func() (*disk.Scratch, error)

	// Lock takes the lock that other processes take for evidence, on behalf of a package. It may be nil.
	Lock func(context.Context, sources.PackageID) (unlock func(), err error)

	// Before is called before evidence is written. It may be nil.
	Before func(sources.Release, *sources.Signed) error

	// Denied returns why other users keep this one from writing, so that the package stays without evidence. It returns
	// nil if that is not the cause of an error. It may be nil.
	Denied func(error) error

	writing   sync.Mutex
	resolving sync.Mutex
	once      sync.Once
	kept      sources.Memo[sources.Release, *kept] // what was read in this run; all evidence, if it can't be written
}

// Path returns the path of the evidence for a version in e.Dir.
func (e *Evidence) Path(r sources.Release) string {
	at := e.Prefix + strings.TrimPrefix(evidence.Path(r.Provider, r.Version), ".larder/")
	if e.Single {
		return path.Dir(at) + versionOf + path.Base(at) + ".json"
	}
	return at
}

// versionOf is between the type of a provider and the version in the name of a single file.
const versionOf = "~"

// kept is evidence that was read.
type kept struct {
	*sources.Signed // nil if there was none
	files           evidence.Files
	resolved        map[string]resolved // by reference
}

// resolved is evidence with the keys marked that a reference lists, see [evidence.Resolve].
type resolved struct {
	*sources.Signed
	same bool
}

// mostRead is the number of versions whose evidence is kept in memory: enough for those that are worked on at the same
// time, and for the releases that a few hundred root modules share.
const mostRead = 64

// Read returns the evidence for a version. The error matches [sources.ErrNotFound] if there
// is none.
func (e *Evidence) Read(r sources.Release) (*sources.Signed, error) {
	k, err := e.look(r)
	if err != nil {
		return nil, err
	}
	return k.Signed, nil
}

// Files is like [Evidence.Read], but returns the files. Single evidence has none.
func (e *Evidence) Files(r sources.Release) (evidence.Files, error) {
	k, err := e.look(r)
	if err != nil {
		return evidence.Files{}, err
	}
	return k.files, nil
}

// look is find that looks again for evidence that was missing.
func (e *Evidence) look(r sources.Release) (*kept, error) {
	k, now, err := e.find(r)
	if !now && errors.Is(err, sources.ErrNotFound) {
		e.Forget(r)
		k, _, err = e.find(r)
	}
	return k, err
}

// find returns what was read, or reads it now.
func (e *Evidence) find(r sources.Release) (_ *kept, now bool, err error) {
	k, err := e.read(r, func() (*kept, error) {
		if now = true; e.Dir == nil {
			return nil, sources.ErrNotFound
		}
		k := &kept{resolved: map[string]resolved{}}
		if e.Single {
			k.Signed, err = evidence.ReadFile(e.Dir, e.Path(r))
		} else {
			k.files, k.Signed, err = evidence.ReadFiles(e.Dir, e.Path(r))
		}
		if err != nil {
			return nil, err
		}
		return k, nil
	})
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		e.Forget(r)
	}
	return k, now, err
}

// read returns what was read of a version, or calls a function that reads it.
func (e *Evidence) read(r sources.Release, by func() (*kept, error)) (*kept, error) {
	e.once.Do(func() {
		if e.Dir != nil {
			e.kept.Max = mostRead
		}
	})
	return e.kept.Get(context.Background(), r, by)
}

// Forget is called after the files of a version's evidence were changed, also by another process.
func (e *Evidence) Forget(r sources.Release) {
	if e.Dir != nil {
		e.kept.Forget(r)
	}
}

// ForgetAll is [Evidence.Forget] for all versions.
func (e *Evidence) ForgetAll() {
	if e.Dir != nil {
		e.kept.Clear()
	}
}

// Remove removes the evidence for a version.
func (e *Evidence) Remove(r sources.Release) error {
	defer e.Forget(r)
	return evidence.Remove(e.Dir, e.Path(r))
}

// resolve returns the evidence for a version with the keys marked that a reference lists. If
// what was read is not the evidence of the reference, it is read again: another process may
// have replaced it since. If there was none, it is only looked for again after [Evidence.Forget].
func (e *Evidence) resolve(r sources.Release, reference string) (resolved, error) {
	k, now, err := e.find(r)
	if err != nil {
		return resolved{}, err
	}
	e.resolving.Lock()
	defer e.resolving.Unlock()
	if found, ok := k.resolved[reference]; ok {
		return found, nil
	}
	s, same := evidence.Resolve(k.Signed, reference)
	if !same && !now && e.Dir != nil {
		e.Forget(r)
		if k, _, err = e.find(r); err != nil {
			return resolved{}, err
		}
		s, same = evidence.Resolve(k.Signed, reference)
	}
	k.resolved[reference] = resolved{s, same}
	return k.resolved[reference], nil
}

// Marked returns the evidence for a version with the keys marked that a registry listed
// according to any record. The error is that of [Evidence.Read].
func (e *Evidence) Marked(r sources.Release) (*sources.Signed, error) {
	s, err := e.Read(r)
	if err != nil {
		return nil, err
	}
	s, _ = evidence.Resolve(s, e.References(r)...)
	return s, nil
}

// Describe returns what is known about a package in dir, or about a package that is in no
// directory.
func (e *Evidence) Describe(id sources.PackageID, dir string, f Facts) sources.Stored {
	proof, signed := e.Proof(id, f)
	return sources.Stored{
		ID: id, Dir: dir,
		H1: f.H1, ZipH1: f.ZipH1, ZH: f.ZH, Filename: f.Filename, Origin: f.Origin,
		Signed: signed, Proof: proof, Report: e.Judge.Report(id.Provider, proof),
		Since: f.Since, Sums: f.Sums,
	}
}

// Proof returns what was proved about a package, and the evidence for it, with the keys
// marked that a registry listed. The packages of a version share their evidence, so it may
// have changed since the record was made. What it proves now counts then. If it proves
// nothing, the facts in the record still hold, unless the key was revoked since. Without evidence, they don't hold in a
// loose store.
func (e *Evidence) Proof(id sources.PackageID, f Facts) (sources.Proof, *sources.Signed) {
	if kept, err := e.resolve(id.Release(), f.Evidence); err == nil && kept.same && f.Proof.Signed() {
		return f.Proof, kept.Signed
	}
	proof, signed, err := e.check(context.Background(), id, f) // it takes less than a second
	switch {
	case errors.Is(err, sources.ErrRevoked):
		return sources.Proof{Matched: f.Proof.Matched, Approvals: f.Proof.Approvals}, nil
	case err != nil && signed != nil && len(proof.Revoked) == 0:
		return f.Proof, nil
	}
	return proof, signed
}

// IsOlder reports whether the evidence that facts refer to was last written before they were recorded, as far as its
// time tells. It proves what they say then, or they refer to none.
func (e *Evidence) IsOlder(r sources.Release, f Facts, recorded time.Time) bool {
	if f.Evidence == "" {
		return !e.Loose && !f.Proof.Signed()
	}
	if e.Dir == nil {
		return false
	}
	at := e.Path(r)
	if !e.Single {
		at += "/" + evidence.Sums // which is written last
	}
	info, err := os.Lstat(e.Dir.Path(at))
	return err == nil && info.Mode().IsRegular() && info.ModTime().Before(recorded)
}

// Check returns what is proved about a package, or the reason why the evidence does not
// prove what the record says that it proved. That does not depend on the settings of the
// run.
func (e *Evidence) Check(ctx context.Context, id sources.PackageID, f Facts) (sources.Proof, error) {
	proof, _, err := e.check(ctx, id, f)
	return proof, err
}

// check is Check that also returns the evidence, nil if it proves nothing.
func (e *Evidence) check(ctx context.Context, id sources.PackageID, f Facts) (sources.Proof, *sources.Signed, error) {
	if f.Evidence == "" && !e.Loose {
		return f.Proof, nil, nil
	}
	kept, err := e.resolve(id.Release(), f.Evidence)
	missing := errors.Is(err, sources.ErrNotFound)
	if missing && e.Loose {
		f.Proof = sources.Proof{Matched: f.Proof.Matched, Approvals: f.Proof.Approvals}
	}
	switch {
	case missing && f.Evidence != "":
		return f.Proof, nil, ErrMissing
	case missing:
		return f.Proof, nil, nil
	case err != nil, f.ZH == "":
		return f.Proof, nil, err
	}
	proof, err := e.Judge.Prove(ctx, id.Provider, kept.Signed, f.ZH)
	if err == nil {
		err = f.Proof.Lost(proof)
	}
	return f.Proof.And(proof), kept.Signed, err
}

// ErrMissing is the error for a record that refers to evidence which is not there.
var ErrMissing = errors.New("its signed checksums are missing")

// A ReplacedError reports a package that is refused because the store has better
// evidence for its version. That evidence does not verify this package, so clients
// could not install it.
type ReplacedError struct{ Err, Downgrade error }

func (e *ReplacedError) Error() string {
	text := fmt.Sprintf("the mirror's signed checksums do not cover this package: %v", e.Err)
	if e.Downgrade != nil {
		text += "; " + e.Downgrade.Error()
	}
	return text
}

func (e *ReplacedError) Unwrap() []error { return []error{e.Err, e.Downgrade} }

// Keep stores s as evidence for the version of id, merged with the evidence that is there,
// and makes f refer to the result if that proves anything about the package. It is called
// before the package appears.
func (e *Evidence) Keep(ctx context.Context, id sources.PackageID, f *Facts, s *sources.Signed) error {
	if s == nil {
		return nil
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	if e.Lock != nil {
		unlock, err := e.Lock(ctx, id)
		if err != nil {
			return err
		}
		defer unlock()
	}
	err := e.merge(ctx, id, f, s)
	if err == nil || e.Denied == nil || e.Denied(err) == nil {
		return err
	}
	f.Evidence = ""
	e.Warn(fmt.Errorf("%s: %w", id, e.Denied(err)))
	return nil
}

func (e *Evidence) merge(ctx context.Context, id sources.PackageID, f *Facts, s *sources.Signed) error {
	f.Evidence = evidence.Reference(s)
	e.Forget(id.Release()) // another process may have written it
	old, err := e.Read(id.Release())
	isNew := err != nil
	differs := !isNew && !replaces(s, old)
	if differs {
		old, _ = evidence.Resolve(old, e.References(id.Release())...)
	}
	if differs && (evidence.Reference(old) != f.Evidence || !slices.Equal(s.Protocols, old.Protocols)) {
		var downgrade error
		s, downgrade = e.Judge.Merge(ctx, id.Provider, old, s)
		err := e.refer(ctx, id, f, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && e.Strict:
			return sources.WithHint(&ReplacedError{err, downgrade},
				"find out which evidence is right; to accept the new evidence, remove this version from the mirror first")
		case err != nil:
			f.Evidence = "" // it is not kept
		}
		e.warnOf(id, downgrade)
	}
	if !isNew && e.Dir != nil && same(s, old) && s.Origin == old.Origin {
		return nil // another user may have written it
	}
	if err := e.write(id.Release(), s); err != nil {
		return err
	}
	if isNew {
		e.compareKeys(ctx, id, s)
	}
	return nil
}

// same reports whether s is the same evidence as old, with the same protocols.
func same(s, old *sources.Signed) bool {
	return evidence.Digest(s) == evidence.Digest(old) && slices.Equal(s.Protocols, old.Protocols)
}

// replaces reports whether s is the same evidence as old, and a registry listed all its keys.
func replaces(s, old *sources.Signed) bool {
	unlisted := func(k sources.Key) bool { return !k.Listed() }
	return same(s, old) && !slices.ContainsFunc(s.Keys, unlisted)
}

// refer makes f refer to evidence, unless that proves nothing about the package.
func (e *Evidence) refer(ctx context.Context, id sources.PackageID, f *Facts, s *sources.Signed) error {
	if f.ZH != "" {
		proof, err := e.Judge.Prove(ctx, id.Provider, s, f.ZH)
		if err != nil {
			return err
		}
		f.Proof = f.Proof.And(proof)
	}
	f.Evidence = evidence.Reference(s)
	return nil
}

func (e *Evidence) write(r sources.Release, s *sources.Signed) error {
	if e.Before != nil {
		if err := e.Before(r, s); err != nil {
			return err
		}
	}
	if e.Dir == nil {
		e.kept.Forget(r)
		_, err := e.read(r, func() (*kept, error) { return &kept{Signed: s, resolved: map[string]resolved{}}, nil })
		return err
	}
	via, err := e.Via()
	if err != nil {
		return err
	}
	defer e.Forget(r) // the keys are marked in s, but not in the files
	if e.Single {
		return evidence.WriteFile(e.Dir, e.Path(r), via.Dir, s)
	}
	return evidence.Write(e.Dir, e.Path(r), via.Dir, s)
}

// compareKeys warns if the version of id is signed with other keys than the nearest
// version with evidence. It is called after writing, so that if two processes store a
// version each, at least one of them compares both.
func (e *Evidence) compareKeys(ctx context.Context, id sources.PackageID, now *sources.Signed) {
	if e.Dir == nil {
		return
	}
	at := e.Path(id.Release())
	names, err := Names(e.Dir, path.Dir(at))
	if err != nil {
		e.Warn(err)
	}
	if e.Single {
		begin, _, _ := strings.Cut(path.Base(at), versionOf)
		for i, name := range names {
			name, _ = strings.CutPrefix(name, begin+versionOf)
			names[i] = strings.TrimSuffix(name, ".json")
		}
	}
	near, ok := evidence.Nearest(names, id.Version)
	if !ok {
		return
	}
	if was, err := e.Marked(sources.Release{Provider: id.Provider, Version: near}); err == nil {
		e.warnOf(id, e.Judge.CompareKeys(ctx, id.Provider, near, was, now))
	}
}

// Names lists a directory. It returns no names for a missing directory.
func Names(in *disk.Dir, name string) (names []string, err error) {
	err = Within(in, name, func(dir *disk.Dir) error {
		entries, err := dir.ReadDir()
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return err
	})
	return names, err
}

// Within calls do for a directory in another one, or for that itself if the name is ".". It does nothing if the
// directory is missing.
func Within(in *disk.Dir, name string, do func(*disk.Dir) error) error {
	if name == "." {
		return do(in)
	}
	dir, err := in.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir)
}

// warnOf warns of a problem with the version of id.
func (e *Evidence) warnOf(id sources.PackageID, err error) {
	if err != nil {
		e.Warn(fmt.Errorf("%s: %w", id.Release(), err))
	}
}
