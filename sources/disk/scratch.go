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

// A Scratch is a temporary directory of one run. Close removes it. If the run
// is killed, [Dir.Sweep] of the next run removes it.
type Scratch struct {
	*Dir
	in   *Dir
	name string
	lock *Lock
	keep atomic.Bool // a file in it must not be removed
}

// alive is the lock file in a scratch directory, locked by its run. Its name is
// the last in sorted order, so it is removed last: if a process is killed while
// removing a directory, the lock file still distinguishes the directory from
// one that another process is creating.
const alive = "~lock"

// Scratch creates a scratch directory in d with a name that begins with prefix. D may be closed before it.
func (d *Dir) Scratch(prefix string) (*Scratch, error) {
	for {
		name := prefix + rand.Text()[:nameLength]
		if err := d.mkdir(name); err != nil {
			return nil, d.named(err)
		}
		s, err := d.occupy(name)
		if s != nil || err != nil {
			return s, err
		}
	}
}

const nameLength = 12 // characters of [rand.Text] after the prefix

// isRandom reports whether [rand.Text] could have generated the letters.
func isRandom(letters string) bool {
	return strings.Trim(letters, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Temporary creates a scratch directory in the system's temporary directory.
// Other users cannot read it. It removes those of the same prefix that this
// user's earlier runs have left there.
func Temporary(prefix string) (*Scratch, error) {
	in, err := Open(os.TempDir())
	if err != nil {
		return nil, err
	}
	defer in.Close()
	s, err := in.Scratch(prefix)
	if err != nil {
		return nil, err
	}
	if err := in.root.Chmod(s.name, 0o700); err != nil {
		return nil, errors.Join(in.named(err), s.Close())
	}
	if mine, err := s.root.Stat("."); err == nil {
		in.sweepAll(prefix, mine, time.Now(), func(error) {}) // another run sweeps again
	}
	return s, nil
}

// TemporaryForNext is like Temporary, for the program that replaces this
// process or runs below it. The directory stays until that program and those
// that it has started have ended, and is removed by a later run.
func TemporaryForNext(prefix string) (*Scratch, error) {
	s, err := Temporary(prefix)
	if err != nil {
		return nil, err
	}
	if err := s.lock.bequeath(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// occupy locks a new scratch directory. It returns nil if a sweep of another
// process has already removed the directory.
func (d *Dir) occupy(name string) (*Scratch, error) {
	sub, err := d.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sub.admit()
	s := &Scratch{Dir: sub, name: name, lock: sub.Lock(alive)}
	ok, err := s.lock.Try()
	if ok && sub.Exists(alive) {
		if err = sub.checkMade(); err == nil {
			if s.in, _, err = d.openSub("."); err == nil {
				return s, nil
			}
		}
	}
	s.lock.Unlock()
	sub.Close()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, d.RemoveTree(name))
	}
	return nil, nil
}

// checkMade returns an error if another user has put the directory instead of the one
// that this process created. It compares owners with those of a new file, because some
// file systems don't keep them.
func (d *Dir) checkMade() error {
	f, name, err := d.CreateTemp("probe-")
	if err != nil {
		return err
	}
	file, err := f.Stat()
	dir, dirErr := d.root.Stat(".")
	if err := errors.Join(d.named(err), d.named(dirErr), f.Close(), d.Remove(name)); err != nil {
		return err
	}
	if !sameOwner(dir, file) {
		return stray(d.path, "another user's directory")
	}
	return nil
}

// Name returns a unique name for a file or directory in s.
func (s *Scratch) Name() string { return rand.Text()[:nameLength] }

// Close removes the directory and everything in it.
func (s *Scratch) Close() error {
	defer s.lock.Unlock()
	defer s.in.Close()
	if s.keep.Load() {
		s.lock.Unlock()
		return errors.Join(s.Dir.Remove(alive), s.Dir.Close()) // a sweep skips a scratch directory without its lock file
	}
	return s.in.unlessMissing(s.in.dismantle(s.name, s.Dir, s.lock))
}

// dismantle empties and closes sub, the scratch directory called name whose lock is held, and removes it.
func (d *Dir) dismantle(name string, sub *Dir, lock *Lock) error {
	unlock := lock.Unlock // a concurrent sweep may remove the directory too, which does no harm
	if removesOpenFiles {
		unlock = func() {} // else a run that has just created the file would lock it before it is gone
	}
	err := sub.empty(unlock)
	sub.Close()
	lock.Unlock() // an open file may stay in its directory
	if err != nil {
		return err
	}
	return d.unlinkEmptied(name)
}

// Abandoned is the age at which a temporary file, or an unlocked scratch directory, counts as left by
// a run that has ended.
const Abandoned = 24 * time.Hour

// Sweep removes scratch directories in d of runs that have ended. It calls warn
// for each directory that it cannot remove.
func (d *Dir) Sweep(prefix string, now time.Time, warn func(error)) {
	d.sweepAll(prefix, nil, now, warn)
}

// sweepAll is Sweep for the directories of the user who owns the file mine, to which no
// other user can write; nil means all users.
func (d *Dir) sweepAll(prefix string, mine fs.FileInfo, now time.Time, warn func(error)) {
	entries, err := d.ReadDir()
	if err != nil {
		warn(err)
		return
	}
	for _, e := range entries {
		letters, ok := strings.CutPrefix(e.Name(), prefix)
		if !e.IsDir() || !ok || len(letters) != nameLength || !isRandom(letters) {
			continue
		}
		if err := d.unlessMissing(d.sweep(e.Name(), mine, now)); err != nil {
			warn(err)
		}
	}
}

// Alive reports whether the run that created the scratch directory called name
// may still be running.
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

// sweep removes a scratch directory if its run has ended. Other users can create
// directories with such names in the system's temporary directory, and rename those of
// this user if that has no sticky bit. So sweep examines the directory after it is open,
// and removes what is in it through the open directory.
func (d *Dir) sweep(name string, mine fs.FileInfo, now time.Time) error {
	sub, err := d.Sub(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	info, err := sub.root.Stat(".")
	if err != nil || mine != nil && (!sameOwner(info, mine) || !Own(info)) {
		return err
	}
	lock := sub.Lock(alive)
	lock.Existing = true
	ok, err := lock.Try()
	defer lock.Unlock()
	switch {
	case errors.Is(err, fs.ErrNotExist): // still being created, killed while being created, or no scratch directory
		sub.Close()
		_ = d.unlink(name) // succeeds only if it is empty
		return nil
	case err != nil:
		return err
	case !ok, lock.Lockless != nil && now.Sub(info.ModTime()) < Abandoned:
		return nil
	}
	return d.dismantle(name, sub, lock)
}
