package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
)

// A Ledger is what this user's Larder has recorded about the packages of a store: an entry of type E for each package,
// by a key that the store chooses. It is one sealed file, which is read once in a run and replaced as a whole. Entries
// last only for this run if they can't be written. A Ledger is safe for concurrent use.
type Ledger[E any] struct {
	opts   LedgerOptions
	mu     sync.Mutex
	tidy   sync.Once
	begun  bool                          // the file was read, or tried to be
	lines  map[string][]byte             // what the file has: the entries of each provider by its address, encoded
	pages  map[sources.Provider]*page[E] // those that were used or changed
	file   fs.FileInfo                   // what was read or written last; nil if there was no file
	rest   time.Time                     // until then, a large file isn't written again
	later  *time.Timer                   // writes what was left until then; nil if nothing was left
	then   []func()                      // see Then
	unread error                         // error of the file system; the file is then not replaced
}

// LedgerOptions configure a Ledger.
type LedgerOptions struct {
	Dir      string   // of the file; it may be missing, or have others; entries last only for this run if it is empty
	File     string   // name of the file; all.json if it is empty
	Store    string   // the store, by a name that no other one has, see [Records.Gone]
	Key      seal.Key // authenticates the file
	ReadOnly bool     // entries last only for this run
	Exposed  bool     // other users may write to Dir: what they obstruct, see [disk.IsObstructed], is missing
	Plain    bool     // other users read the file, so the key doesn't matter; if Exposed, only this user's counts
	Lost     string   // how to make up for what a damaged file had that is removed, if it is Plain; a hint

	Durability disk.Durability // whether entries must survive a power failure; lost ones of a store cost a rehash

	// Open opens Dir, and creates it if make is set, if Dir is in a directory of other users. It may be nil.
	Open func(make bool) (*disk.Dir, error)
}

// A page has the entries of a provider.
type page[E any] struct {
	entries map[string]E
	changed map[string]bool // the keys of entries that the file doesn't have yet, and whether others replace them
}

const (
	ledgerFile = "all.json"
	ledgerLock = "ledger.lock"
	ledgerWait = 5 * time.Second // for the lock, which is only held while the file is written

	maxLedger   = 256 << 20 // in bytes, enough for a hundred thousand packages
	largeLedger = 256 << 10 // in bytes; writing it for each package would be much of the work
	mostKept    = 2048      // decoded entries in memory, if the file has them
	mostWaiting = 256       // functions for Then, which may hold open files
)

// NewLedger returns the ledger of a store.
func NewLedger[E any](opts LedgerOptions) *Ledger[E] {
	opts.File = cmp.Or(opts.File, ledgerFile)
	return &Ledger[E]{opts: opts, pages: map[sources.Provider]*page[E]{}}
}

// Find returns an entry. The error matches [sources.ErrNotFound] if there is none, and is another one if the file can't
// be read.
func (l *Ledger[E]) Find(p sources.Provider, key string) (E, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.page(p).entries[key]
	switch {
	case ok:
		return e, nil
	case l.unread != nil:
		return e, l.unread
	}
	return e, fmt.Errorf("%w among the records", sources.ErrNotFound)
}

// All returns the entries of a provider.
func (l *Ledger[E]) All(p sources.Provider) (map[string]E, error) { return l.under(p, "") }

// OfVersion returns the entries of a version, whose keys begin with it.
func (l *Ledger[E]) OfVersion(r sources.Release) (map[string]E, error) {
	return l.under(r.Provider, r.Version.String()+"/")
}

// under returns the entries whose keys begin with a text.
func (l *Ledger[E]) under(p sources.Provider, begin string) (map[string]E, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(l.page(p).entries)
	maps.DeleteFunc(all, func(key string, _ E) bool { return !strings.HasPrefix(key, begin) })
	return all, l.unread
}

// Sizes returns the number of entries of each provider in the file, by its address.
func (l *Ledger[E]) Sizes() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read()
	sizes := map[string]int{}
	for address, line := range l.lines {
		entries, _ := decode[E](line)
		sizes[address] = len(entries)
	}
	return sizes
}

// References returns the references to evidence in entries.
func References[E interface{ Reference() string }](entries map[string]E) (all []string) {
	for _, e := range entries {
		all = append(all, e.Reference())
	}
	return all
}

// Set adds or replaces an entry. [Ledger.Write] writes it.
func (l *Ledger[E]) Set(p sources.Provider, key string, e E) { l.set(p, key, e, false) }

// Offer is [Ledger.Set], unless another process writes an entry before this one is written.
func (l *Ledger[E]) Offer(p sources.Provider, key string, e E) { l.set(p, key, e, true) }

func (l *Ledger[E]) set(p sources.Provider, key string, e E, yields bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := l.page(p)
	was, changed := page.changed[key]
	page.entries[key], page.changed[key] = e, yields && (was || !changed)
}

// Remove removes an entry. [Ledger.Write] writes that.
func (l *Ledger[E]) Remove(p sources.Provider, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	page := l.page(p)
	if _, ok := page.entries[key]; ok || l.unread != nil {
		delete(page.entries, key)
		page.changed[key] = false
	}
}

// Refresh reads the file again if another process has changed it.
func (l *Ledger[E]) Refresh() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun && !l.opts.ReadOnly {
		l.unread = l.in(false, l.merge)
	}
}

// Write writes the changed entries, beside those that other processes have written. It writes a large file that it has
// just written up to a second later, so that writing takes a twentieth of the time at most: if the process is killed,
// these entries are lost.
func (l *Ledger[E]) Write(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rest := time.Until(l.rest); rest > 0 && !l.opts.Plain && len(l.then) < mostWaiting {
		if l.later == nil {
			l.later = time.AfterFunc(rest, func() { _ = l.WriteAll(context.WithoutCancel(ctx)) })
		}
		return nil
	}
	return l.write(ctx)
}

// Then calls do when what [Ledger.Write] has left for later is written, or can't be: other processes that wait for the
// caller need it. It calls do at once if nothing was left.
func (l *Ledger[E]) Then(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.later == nil {
		do()
	} else {
		l.then = append(l.then, do)
	}
}

// WriteAll is Write that leaves nothing for later.
func (l *Ledger[E]) WriteAll(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(ctx)
}

func (l *Ledger[E]) write(ctx context.Context) error {
	defer func() {
		if l.later != nil {
			l.later.Stop()
		}
		for _, do := range l.then {
			do()
		}
		l.later, l.then = nil, nil
	}()
	changed := false
	for _, page := range l.pages {
		changed = changed || len(page.changed) > 0
	}
	if !changed || l.opts.Dir == "" || l.opts.ReadOnly {
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
		return l.replace(dir)
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

// replace writes the file. The caller holds its lock.
func (l *Ledger[E]) replace(dir *disk.Dir) error {
	begun := time.Now()
	if err := l.merge(dir); err != nil {
		return err
	}
	for p, page := range l.pages {
		if len(page.changed) == 0 {
			continue
		}
		line, err := json.Marshal(page.entries)
		if err != nil {
			return err
		}
		if l.lines[p.String()] = line; len(page.entries) == 0 {
			delete(l.lines, p.String())
		}
	}
	text := l.text()
	if err := dir.WriteFile(l.opts.File, text, l.opts.Durability); err != nil {
		if info, statErr := dir.Lstat(l.opts.File); statErr == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", dir.Path(l.opts.File))
			return sources.WithHint(err, "move it away: larder creates a file there")
		}
		return err
	}
	for _, page := range l.pages {
		clear(page.changed)
	}
	if l.file, _ = dir.Lstat(l.opts.File); len(text) > largeLedger {
		l.rest = time.Now().Add(min(20*time.Since(begun), time.Second))
	}
	return nil
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

// page returns the entries of a provider.
func (l *Ledger[E]) page(p sources.Provider) *page[E] {
	l.read()
	if known, ok := l.pages[p]; ok {
		return known
	}
	n := 0
	for _, page := range l.pages {
		n += len(page.entries)
	}
	if n > mostKept {
		maps.DeleteFunc(l.pages, func(_ sources.Provider, page *page[E]) bool { return len(page.changed) == 0 })
	}
	entries, _ := decode[E](l.lines[p.String()])
	l.pages[p] = &page[E]{entries, map[string]bool{}}
	return l.pages[p]
}

// read reads the file at the first call.
func (l *Ledger[E]) read() {
	if l.begun {
		return
	}
	l.begun, l.lines = true, map[string][]byte{}
	if l.opts.Open == nil && l.opts.Dir != "" { // most root modules have no records, and no directory for them
		if _, err := os.Lstat(filepath.Join(l.opts.Dir, l.opts.File)); errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	l.unread = l.in(false, l.merge)
}

// merge reads the file if it is another one than was read last, and keeps the changes of this process.
func (l *Ledger[E]) merge(dir *disk.Dir) error {
	if l.isCurrent(dir) {
		return nil
	}
	data, info, err := dir.ReadFile(l.opts.File, maxLedger)
	l.file = info
	if l.isUnread(err) {
		return err
	}
	lines := map[string][]byte{}
	if err == nil && !(l.opts.Plain && l.opts.Exposed && !disk.Own(info)) {
		if lines = l.open(data); lines == nil && l.opts.Plain { // nothing else has what it had
			l.file = nil
			err := fmt.Errorf("%s is damaged", dir.Path(l.opts.File))
			return sources.WithHint(err, "restore it, or remove it; %s", l.opts.Lost)
		}
	}
	before := l.lines
	if l.lines, l.unread = lines, nil; lines == nil {
		l.lines = map[string][]byte{}
	}
	for p, old := range l.pages {
		if len(old.changed) == 0 {
			delete(l.pages, p)
			continue
		}
		was, _ := decode[E](before[p.String()])
		entries, _ := decode[E](l.lines[p.String()])
		for key, yields := range old.changed {
			e, ok := old.entries[key]
			switch {
			case yields && !reflect.DeepEqual(was[key], entries[key]):
				delete(old.changed, key)
			case ok:
				entries[key] = e
			default:
				delete(entries, key)
			}
		}
		old.entries = entries
	}
	return nil
}

// isCurrent reports whether the file is the one that was read or written last.
func (l *Ledger[E]) isCurrent(dir *disk.Dir) bool {
	if l.file == nil {
		return false
	}
	now, err := dir.Lstat(l.opts.File)
	return err == nil && os.SameFile(now, l.file) && now.ModTime().Equal(l.file.ModTime()) && now.Size() == l.file.Size()
}

// A file is a JSON object with a line for the entries of each provider. It has no other form, so that finding the lines
// of a large file takes no parser.
const lastLine = "\n}}"

// head is the first line of the file.
func (l *Ledger[E]) head() []byte {
	store, _ := json.Marshal(l.opts.Store) // a string has no error
	return fmt.Appendf(nil, `{"format":%d,"store":%s,"entries":{`, Format, store)
}

// text returns the contents of the file.
func (l *Ledger[E]) text() []byte {
	size, between := 1<<10, "\n"
	for address, line := range l.lines {
		size += len(address) + len(line) + len("\"\":,\n")
	}
	text := append(make([]byte, 0, size), l.head()...)
	for _, address := range slices.Sorted(maps.Keys(l.lines)) {
		text = append(text, between+`"`+address+`":`...)
		text = append(text, l.lines[address]...)
		between = ",\n"
	}
	text = append(text, lastLine...)
	if l.opts.Plain {
		return text
	}
	return l.opts.Key.SealText(l.subject(), text)
}

// open returns the lines of a file, or nil if it isn't authentic or damaged.
func (l *Ledger[E]) open(text []byte) map[string][]byte {
	if !l.opts.Plain {
		var err error
		if text, err = l.opts.Key.Open(l.subject(), text); err != nil {
			return nil
		}
	}
	text, begins := bytes.CutPrefix(text, l.head())
	text, ends := bytes.CutSuffix(text, []byte(lastLine))
	if !begins || !ends {
		return nil
	}
	lines := map[string][]byte{}
	for line := range bytes.SplitSeq(bytes.TrimPrefix(text, []byte("\n")), []byte(",\n")) {
		address, entries, ok := bytes.Cut(bytes.TrimPrefix(line, []byte(`"`)), []byte(`":`))
		if !ok && len(line) > 0 {
			return nil
		}
		if l.opts.Plain { // any program may have written it
			if _, err := decode[E](entries); err != nil {
				return nil
			}
		}
		if ok {
			lines[string(address)] = entries
		}
	}
	return lines
}

// decode returns the entries in a line.
func decode[E any](line []byte) (map[string]E, error) {
	entries := map[string]E{}
	if len(line) == 0 {
		return entries, nil
	}
	err := json.Unmarshal(line, &entries)
	if err != nil || entries == nil {
		return map[string]E{}, cmp.Or(err, errors.New("no entries"))
	}
	return entries, nil
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

// subject is what the file is about, for its authentication.
func (l *Ledger[E]) subject() string { return "ledger\n" + l.opts.Store }
