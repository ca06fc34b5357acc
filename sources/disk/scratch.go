package disk

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// A Scratch is a directory for what one run is making. It is removed when it is
// closed, or by the next run's [Dir.Sweep] if this run was killed.
type Scratch struct {
	*Dir
	in   *Dir
	name string
	lock *Lock
	keep atomic.Bool // it has something that must not be removed
	owns bool        // in is to be closed with it
}

// alive is the file in a scratch directory that its run has locked. It is the last
// in order of names, and so the last to be removed: what is left if a process is
// killed while removing can be told from what another process is just making.
const alive = "~lock"

// Scratch creates a scratch directory in d, whose name begins with prefix.
func (d *Dir) Scratch(prefix string) (*Scratch, error) {
	for {
		name := prefix + rand.Text()[:nameLength]
		if err := d.root.Mkdir(name, 0o755); err != nil {
			return nil, d.named(err)
		}
		s, err := d.occupy(name)
		if s != nil || err != nil {
			return s, err
		}
	}
}

const nameLength = 12 // letters behind the prefix, of [rand.Text]

// isScratch reports whether a name is one that [Dir.Scratch] gives.
func isScratch(name, prefix string) bool {
	letters, ok := strings.CutPrefix(name, prefix)
	return ok && len(letters) == nameLength && strings.Trim(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// ScratchIn is Scratch for the directory called name, which is created if it is
// missing.
func (d *Dir) ScratchIn(name, prefix string) (*Scratch, error) {
	in, err := d.MakeSub(name)
	if err != nil {
		return nil, err
	}
	return in.ownScratch(prefix)
}

// ownScratch is Scratch for a d that is closed with the scratch directory.
func (d *Dir) ownScratch(prefix string) (*Scratch, error) {
	s, err := d.Scratch(prefix)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s.owns = true
	return s, nil
}

// Temporary makes a scratch directory in the system's directory for temporary files.
// Other users cannot look into it.
func Temporary(prefix string) (*Scratch, error) {
	in, err := Open(os.TempDir())
	if err != nil {
		return nil, err
	}
	s, err := in.ownScratch(prefix)
	if err != nil {
		return nil, err
	}
	if err := in.root.Chmod(s.name, 0o700); err != nil {
		return nil, errors.Join(in.named(err), s.Close())
	}
	return s, nil
}

// occupy locks a new scratch directory. It returns nil if a sweep came first and
// took it for a dead run's.
func (d *Dir) occupy(name string) (*Scratch, error) {
	sub, err := d.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &Scratch{Dir: sub, in: d, name: name, lock: sub.Lock(alive)}
	ok, err := s.lock.Try()
	switch {
	case ok && sub.Exists(alive):
		return s, nil
	}
	s.lock.Unlock()
	sub.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, d.RemoveTree(name))
	}
	return nil, nil
}

// Name is a name for one of many things that the run is making in s.
func (s *Scratch) Name() string { return rand.Text()[:nameLength] }

// Close removes the directory and all that is left in it.
func (s *Scratch) Close() error {
	s.Dir.Close()
	if s.owns {
		defer s.in.Close()
	}
	if removesOpenFiles {
		defer s.lock.Unlock()
	} else {
		s.lock.Unlock() // a sweep may come first, and help
	}
	if s.keep.Load() {
		return s.in.Remove(s.name + "/" + alive) // without which no sweep takes it for a dead run's
	}
	return s.in.RemoveTree(s.name)
}

// Abandoned is how old something unlocked has to be to count as a dead run's.
const Abandoned = 24 * time.Hour

// Sweep removes the scratch directories in d of runs that are dead. Warn is told
// of those that it could not remove.
func (d *Dir) Sweep(prefix string, now time.Time, warn func(error)) {
	entries, err := d.ReadDir()
	if err != nil {
		warn(err)
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !isScratch(e.Name(), prefix) {
			continue
		}
		if err := d.sweep(e, now); err != nil {
			warn(err)
		}
	}
}

// Alive reports whether the run that made the scratch directory called name may
// still be running.
func (d *Dir) Alive(name string, now time.Time) bool {
	lock := d.Lock(name + "/" + alive)
	lock.Existing = true
	ok, err := lock.Try()
	defer lock.Unlock()
	if lock.Lockless != nil {
		info, err := d.Lstat(name)
		return err == nil && now.Sub(info.ModTime()) < Abandoned
	}
	return err == nil && !ok
}

func (d *Dir) sweep(e fs.DirEntry, now time.Time) error {
	info, err := e.Info()
	if err != nil {
		return d.unlessMissing(err)
	}
	lock := d.Lock(e.Name() + "/" + alive)
	lock.Existing = true
	ok, err := lock.Try()
	defer lock.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist): // just made, killed while being made, or no scratch directory
		_ = d.root.Remove(e.Name()) // if it is empty
		return nil
	case err != nil:
		return err
	case !ok, lock.Lockless != nil && now.Sub(info.ModTime()) < Abandoned:
		return nil
	}
	if d.RemoveTree(e.Name()) == nil {
		return nil
	}
	lock.Unlock() // Windows removes no open file
	return d.RemoveTree(e.Name())
}
