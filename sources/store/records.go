package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

// Records are where a user's records of all stores are.
type Records struct {
	Dir      string   // has a directory for each store; without it, records last only for this run
	Key      seal.Key // authenticates the records
	ReadOnly bool     // new records last only for this run

	Reals *disk.Reals // of the paths of stores, for a run with many of them; may be nil
}

// Of returns the directory for the store at a path. It is empty if Dir is.
func (r Records) Of(store string) string { return r.of(disk.Real(store)) }

// of is [Records.Of] for a path without links.
func (r Records) of(store string) string {
	if r.Dir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(store))
	return filepath.Join(r.Dir, hex.EncodeToString(sum[:])[:keySize])
}

const keySize = 32 // of the name of a directory, in bytes

// Ledger returns the options of the ledger of the store at a path.
func (r Records) Ledger(store string) LedgerOptions {
	store = r.Reals.Of(store)
	return LedgerOptions{Dir: r.underKey(r.of(store)), Store: store, Key: r.Key, ReadOnly: r.ReadOnly}
}

// underKey returns the directory in another one for records under the key. Those under a shared key don't replace those
// under the user's own.
func (r Records) underKey(dir string) string {
	if dir == "" || !r.Key.Shared() {
		return dir
	}
	return filepath.Join(dir, "shared")
}

// Ages returns the options of the ledger of the ages of versions.
func (r Records) Ages() LedgerOptions {
	opts := r.named("ages")
	opts.Durability = disk.Synced
	return opts
}

// Known returns the options of the ledger of the hashes of all packages that were ever verified.
func (r Records) Known() LedgerOptions { return r.named("known") }

// named returns the options of a ledger of no store.
func (r Records) named(name string) LedgerOptions {
	opts := LedgerOptions{Store: name, Key: r.Key, ReadOnly: r.ReadOnly}
	if r.Dir != "" {
		opts.Dir = r.underKey(filepath.Join(r.Dir, name))
	}
	return opts
}

// Beside returns the options of a ledger at a path in the directory of the store itself, which is nil if there is none.
// All users of a shared directory may replace its files.
func (r Records) Beside(in *disk.Dir, at string) LedgerOptions {
	opts := LedgerOptions{Store: at, Key: r.Key, ReadOnly: r.ReadOnly}
	if in != nil {
		opts.Dir = in.Path(at)
		opts.Open = func(make bool) (*disk.Dir, error) {
			if !make {
				return in.Sub(at)
			}
			parent, err := in.MakeSub(path.Dir(at))
			if err != nil {
				return nil, err
			}
			defer parent.Close()
			parent.Unstick()
			return parent.MakeSub(path.Base(at))
		}
	}
	return opts
}

// Gone returns the names of the directories in r.Dir of stores that no longer exist, and that this user last used
// before a time: a store may be on a drive that isn't mounted now. If no ledger has the path of a store, its directory
// only has downloads, and only its age counts.
func (r Records) Gone(before time.Time) (names []string, err error) {
	dir, err := disk.Open(r.Dir)
	if r.Dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir()
	for _, e := range entries {
		at := dir.Path(e.Name())
		if info, err := e.Info(); err != nil || !e.IsDir() || len(e.Name()) != keySize || info.ModTime().After(before) {
			continue
		}
		if isUnused(at, before) && !isStore(at) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// isUnused reports whether nothing in a directory has changed since a time.
func isUnused(dir string, since time.Time) bool {
	return filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(since) {
			err = fs.ErrExist
		}
		return err
	}) == nil
}

// isStore reports whether the store that a directory of records is for exists, as far as a ledger has its path.
func isStore(records string) bool {
	for _, pattern := range []string{"*.json", "shared/*.json"} {
		files, _ := filepath.Glob(filepath.Join(records, pattern)) // the pattern is valid
		for _, file := range files {
			var sealed struct{ Record struct{ Store string } }
			text, err := disk.ReadFile(file, maxLedger)
			if err != nil || json.Unmarshal(text, &sealed) != nil || sealed.Record.Store == "" {
				continue
			}
			if _, err := os.Lstat(sealed.Record.Store); !errors.Is(err, fs.ErrNotExist) {
				return true
			}
		}
	}
	return false
}

// Remove removes a directory that [Records.Gone] returned.
func (r Records) Remove(name string) error {
	dir, err := disk.Open(r.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.RemoveTree(name)
}
