package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

// A Ledger is what this user's Larder has recorded about the packages of a store: an entry of type E for each package,
// by a key that the store chooses. It has one sealed file for each provider, or one for all, which is read once in a
// run, or again if there are many, and replaced as a whole. Entries last only for this run if they can't be written. A
// Ledger is safe for concurrent use.
type Ledger[E any] struct {
	opts  LedgerOptions
	mu    sync.Mutex
	pages map[sources.Provider]*page[E] // the zero provider has the page of all
	tidy  sync.Once
}

// LedgerOptions configure a Ledger.
type LedgerOptions struct {
	Dir      string   // of the files; it may be missing, or have others; entries last only for this run if it is empty
	Store    string   // the store, by a name that no other one has
	Key      seal.Key // authenticates the files
	ReadOnly bool     // entries last only for this run
	Exposed  bool     // other users may write to Dir: what they obstruct, see [disk.IsObstructed], is missing
	File     string   // one file of this name has the entries of all providers; empty for a file for each
	Plain    bool     // other users read the files, so the key doesn't matter; if Exposed, only this user's count
	Lost     string   // how to make up for what a damaged file had that is removed, if it is Plain; a hint

	Durability disk.Durability // whether entries must survive a power failure; lost ones of a store cost a rehash

	// Open opens Dir, and creates it if make is set, if Dir is in a directory of other users. It may be nil.
	Open func(make bool) (*disk.Dir, error)
}

// A page has the entries of a provider.
type page[E any] struct {
	entries map[string]E
	changed map[string]bool // the keys of entries that the file doesn't have yet
	large   bool            // see largePage
	written time.Time       // by this process; zero if it has not written it
	file    fs.FileInfo     // what was read last; nil if there was no file
	unread  error           // error of the file system; the file is then not replaced
}

// A pageFile is what a file contains.
type pageFile[E any] struct {
	Format   int          `json:"format"`
	Store    string       `json:"store"` // see [Records.Gone]
	Provider string       `json:"provider"`
	Entries  map[string]E `json:"entries"`
}

const (
	maxPage    = 64 << 20 // in bytes, enough for tens of thousands of packages
	largePage  = 64 << 10 // in bytes; it is written at most once in a writePause, which is then most of the work
	writePause = time.Second
	mostKept   = 2048            // entries in memory, if the files have them
	ledgerLock = "ledger.lock"   // the name of the lock file in a ledger
	ledgerWait = 5 * time.Second // for the lock, which is only held while a file is written
)

// NewLedger returns the ledger of a store.
func NewLedger[E any](opts LedgerOptions) *Ledger[E] {
	return &Ledger[E]{opts: opts, pages: map[sources.Provider]*page[E]{}}
}

// Find returns an entry. The error matches [sources.ErrNotFound] if there is none, and is another one if the file can't
// be read.
func (l *Ledger[E]) Find(p sources.Provider, key string) (E, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page, key := l.entry(p, key)
	e, ok := page.entries[key]
	switch {
	case ok:
		return e, nil
	case page.unread != nil:
		return e, page.unread
	}
	return e, fmt.Errorf("%w among the records", sources.ErrNotFound)
}

// All returns the entries of a provider. Those of a ledger with one file are all entries for the zero provider, and
// their keys begin with the address of a provider and a space.
func (l *Ledger[E]) All(p sources.Provider) (map[string]E, error) { return l.under(p, "") }

// OfVersion returns the entries of a version, whose keys begin with it.
func (l *Ledger[E]) OfVersion(r sources.Release) (map[string]E, error) {
	return l.under(r.Provider, r.Version.String()+"/")
}

// under returns the entries whose keys begin with a text.
func (l *Ledger[E]) under(p sources.Provider, begin string) (map[string]E, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page, prefix := l.entry(p, "")
	all := map[string]E{}
	for key, e := range page.entries {
		if key, ok := strings.CutPrefix(key, prefix); ok && strings.HasPrefix(key, begin) {
			all[key] = e
		}
	}
	return all, page.unread
}

// References returns the references to evidence in entries.
func References[E interface{ Reference() string }](entries map[string]E) (all []string) {
	for _, e := range entries {
		all = append(all, e.Reference())
	}
	return all
}

// Set adds or replaces an entry. [Ledger.Write] writes it.
func (l *Ledger[E]) Set(p sources.Provider, key string, e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page, key := l.entry(p, key)
	page.entries[key], page.changed[key] = e, true
}

// Remove removes an entry. [Ledger.Write] writes that.
func (l *Ledger[E]) Remove(p sources.Provider, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page, key := l.entry(p, key)
	if _, ok := page.entries[key]; ok || page.unread != nil {
		delete(page.entries, key)
		page.changed[key] = true
	}
}

// Refresh reads the entries of a provider again if another process has changed them.
func (l *Ledger[E]) Refresh(p sources.Provider) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if page, ok := l.pages[l.of(p)]; ok && !l.opts.ReadOnly {
		page.unread = l.in(false, func(dir *disk.Dir) error { return l.merge(page, l.of(p), dir) })
	}
}

// Write writes the changed entries of a provider, beside those that other processes have written. It leaves a large
// file that it has just written for a later call: if the process is killed, up to a second's entries are lost.
func (l *Ledger[E]) Write(ctx context.Context, p sources.Provider) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if page, ok := l.pages[l.of(p)]; ok && page.large && !l.opts.Plain && time.Since(page.written) < writePause {
		return nil
	}
	return errors.Join(l.write(ctx, l.of(p)), l.shed(ctx, l.of(p)))
}

// shed writes the pages of other providers, and forgets them, if they have many entries. The caller holds l.mu.
func (l *Ledger[E]) shed(ctx context.Context, but sources.Provider) (err error) {
	if l.isLarge() {
		for p := range l.pages {
			if p != but {
				err = errors.Join(err, l.write(ctx, p))
			}
		}
		l.forget(but)
	}
	return err
}

// forget forgets the pages of other providers that are as in their files.
func (l *Ledger[E]) forget(but sources.Provider) {
	maps.DeleteFunc(l.pages, func(p sources.Provider, page *page[E]) bool { return p != but && len(page.changed) == 0 })
}

func (l *Ledger[E]) isLarge() bool {
	n := 0
	for _, page := range l.pages {
		n += len(page.entries)
	}
	return n > mostKept
}

// WriteAll is Write for all providers that leaves nothing for later.
func (l *Ledger[E]) WriteAll(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(l.pages), sources.Provider.Compare) {
		errs = append(errs, l.write(ctx, p))
	}
	return errors.Join(errs...)
}

func (l *Ledger[E]) write(ctx context.Context, p sources.Provider) error {
	page, ok := l.pages[p]
	if !ok || len(page.changed) == 0 || l.opts.Dir == "" || l.opts.ReadOnly {
		return nil
	}
	err := l.in(true, func(dir *disk.Dir) error {
		ctx, cancel := disk.WithTimeout(context.WithoutCancel(ctx), ledgerWait)
		defer cancel()
		lock := dir.Lock(ledgerLock)
		lock.Optional = true
		if err := disk.Wait(ctx, lock.Try, nil); err != nil {
			return err
		}
		defer lock.Unlock()
		l.tidy.Do(func() { removeTemporary(dir) })
		if err := l.merge(page, p, dir); err != nil {
			return err
		}
		text, err := l.seal(p, pageFile[E]{Format, l.opts.Store, p.String(), page.entries})
		if err != nil {
			return err
		}
		file := l.fileOf(p)
		if err := dir.WriteFile(file, text, l.opts.Durability); err != nil {
			if info, statErr := dir.Lstat(file); statErr == nil && info.IsDir() {
				err = fmt.Errorf("%s is a directory", dir.Path(file))
				return sources.WithHint(err, "move it away: larder creates a file there")
			}
			return err
		}
		page.changed, page.large, page.written = map[string]bool{}, len(text) > largePage, time.Now()
		page.file, _ = dir.Lstat(file)
		return nil
	})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("writing a record: %w", err)
	if errors.Is(err, fs.ErrPermission) {
		return sources.WithHint(err, "make the directory writable, so that later runs find the record")
	}
	return err
}

// removeTemporary removes the temporary files of killed processes, which [disk.Dir.NewTemp] has named. The caller holds
// the lock.
func removeTemporary(dir *disk.Dir) {
	files, _ := dir.ReadDir()
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") && f.Type().IsRegular() {
			_ = dir.Remove(f.Name())
		}
	}
}

// of returns the provider of the page that has the entries of a provider.
func (l *Ledger[E]) of(p sources.Provider) sources.Provider {
	if l.opts.File != "" {
		return sources.Provider{}
	}
	return p
}

// entry returns the page with the entries of a provider, and the key of one of them in it.
func (l *Ledger[E]) entry(p sources.Provider, key string) (*page[E], string) {
	if l.opts.File != "" && p != (sources.Provider{}) {
		key = p.String() + " " + key
	}
	return l.page(l.of(p)), key
}

// page returns the entries of a provider, which are read at the first call.
func (l *Ledger[E]) page(p sources.Provider) *page[E] {
	if known, ok := l.pages[p]; ok {
		return known
	}
	if l.isLarge() {
		l.forget(p)
	}
	read := &page[E]{entries: map[string]E{}, changed: map[string]bool{}}
	l.pages[p] = read
	if l.opts.Open == nil && l.opts.Dir != "" { // most root modules have no records, and no directory for them
		if _, err := os.Lstat(filepath.Join(l.opts.Dir, l.fileOf(p))); errors.Is(err, fs.ErrNotExist) {
			return read
		}
	}
	read.unread = l.in(false, func(dir *disk.Dir) error { return l.merge(read, p, dir) })
	return read
}

// merge reads the file of a page if it is another one than was read last, and keeps the changes of this process.
func (l *Ledger[E]) merge(page *page[E], p sources.Provider, dir *disk.Dir) error {
	if page.isCurrent(dir, l.fileOf(p)) {
		return nil
	}
	data, info, err := dir.ReadFile(l.fileOf(p), maxPage)
	page.file = info
	if l.isUnread(err) {
		return err
	}
	var read map[string]E
	if err == nil && !(l.opts.Plain && l.opts.Exposed && !disk.Own(info)) {
		if read = l.open(p, data); read == nil && l.opts.Plain { // nothing else has what it had
			page.file = nil
			err := fmt.Errorf("%s is damaged", dir.Path(l.fileOf(p)))
			return sources.WithHint(err, "restore it, or remove it; %s", l.opts.Lost)
		}
	}
	if read == nil {
		read = map[string]E{}
	}
	for key := range page.changed {
		if e, ok := page.entries[key]; ok {
			read[key] = e
		} else {
			delete(read, key)
		}
	}
	page.entries, page.unread = read, nil
	return nil
}

// isCurrent reports whether the file is the one that was read last.
func (p *page[E]) isCurrent(dir *disk.Dir, file string) bool {
	if p.file == nil {
		return false
	}
	now, err := dir.Lstat(file)
	return err == nil && os.SameFile(now, p.file) && now.ModTime().Equal(p.file.ModTime()) && now.Size() == p.file.Size()
}

// open returns the entries in a file, or nil if it isn't authentic or damaged.
func (l *Ledger[E]) open(p sources.Provider, data []byte) map[string]E {
	text, err := data, error(nil)
	if !l.opts.Plain {
		text, err = l.opts.Key.Open(l.subject(p), data)
	}
	var f pageFile[E]
	if err != nil || json.Unmarshal(text, &f) != nil || f.Format != Format || f.Entries == nil {
		return nil
	}
	return f.Entries
}

// seal returns the contents of a file.
func (l *Ledger[E]) seal(p sources.Provider, f pageFile[E]) ([]byte, error) {
	if l.opts.Plain {
		return json.Marshal(f)
	}
	return l.opts.Key.Seal(l.subject(p), f)
}

// in calls do with the directory of the files. It does nothing without a key, and without make if the directory is
// missing.
func (l *Ledger[E]) in(make bool, do func(*disk.Dir) error) error {
	if l.opts.Dir == "" || !l.opts.Plain && l.opts.Key.Check() != nil {
		return nil
	}
	open := l.opts.Open
	if open == nil {
		open = l.openDir
	}
	dir, err := open(make)
	if err == nil {
		defer dir.Close()
		return do(dir)
	}
	if make || l.isUnread(err) {
		return err
	}
	return nil
}

// openDir opens the directory of the files, in a directory of this user.
func (l *Ledger[E]) openDir(make bool) (*disk.Dir, error) {
	if make {
		return disk.Make(l.opts.Dir)
	}
	return disk.Open(l.opts.Dir)
}

// isUnread reports whether what a file or the directory contains is unknown.
func (l *Ledger[E]) isUnread(err error) bool {
	return disk.IsUnread(err) && !(l.opts.Exposed && disk.IsObstructed(err))
}

// subject is what the file of a provider is about, for its authentication.
func (l *Ledger[E]) subject(p sources.Provider) string {
	return "ledger\n" + l.opts.Store + "\n" + p.String()
}

var inFileNames = strings.NewReplacer("/", "~", ":", "~~")

// fileOf returns the name of the file of a provider. Not every file system allows colons and long names.
func (l *Ledger[E]) fileOf(p sources.Provider) string {
	if l.opts.File != "" {
		return l.opts.File
	}
	name := inFileNames.Replace(p.String())
	if len(name) > 200 {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:16])
	}
	return name + ".json"
}
