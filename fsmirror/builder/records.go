package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A ledger is what is remembered of a provider's packages, by VERSION/OS_ARCH,
// packed and unpacked ones apart.
type ledger struct {
	Format   int               `json:"format"`
	Packed   map[string]record `json:"packed"`
	Unpacked map[string]record `json:"unpacked"`

	changed bool
}

// A record is what is remembered of a package.
type record struct {
	Mark     string          `json:"mark"` // of what was hashed
	H1       sources.Hash    `json:"h1"`
	ZipH1    sources.Hash    `json:"zip_h1,omitempty"`
	ZH       sources.Hash    `json:"zh,omitempty"`
	Verdict  sources.Verdict `json:"verdict"`
	Origin   string          `json:"origin,omitempty"`
	Evidence string          `json:"evidence,omitempty"` // hex SHA-256 of the SHA256SUMS that goes with it
	Since    time.Time       `json:"since"`              // when it was first seen
}

const (
	ledgerFormat = 1
	maxLedger    = 64 << 20 // bytes, of tens of thousands of packages
)

// of is the part of the ledger for packages of one layout.
func (l *ledger) of(unpacked bool) map[string]record {
	if unpacked {
		return l.Unpacked
	}
	return l.Packed
}

// A spot is where a package lies.
type spot struct {
	id       sources.PackageID
	unpacked bool
	path     string
}

// place is where a package belongs.
func (b *Builder) place(id sources.PackageID, unpacked bool) spot {
	if unpacked {
		return spot{id, true, filepath.Join(b.dir, filepath.FromSlash(id.Path()))}
	}
	return spot{id, false, filepath.Join(b.home(id.Provider), Filename(id))}
}

// key is by which a ledger has the record of what lies at the spot.
func (s spot) key() string {
	key := s.id.Version.String() + "/" + s.id.Platform.String()
	if name := filepath.Base(s.path); !s.unpacked && name != Filename(s.id) {
		key += "/" + name // engines take archives by other names too
	}
	return key
}

func (b *Builder) ledgerPath(p sources.Provider) string {
	return b.state("known", filepath.FromSlash(p.String())+".json")
}

// ledger is that of a provider. The caller holds b.mu.
func (b *Builder) ledger(p sources.Provider) *ledger {
	l, ok := b.known[p]
	if !ok {
		l = readLedger(b.ledgerPath(p))
		b.known[p] = l
	}
	return l
}

// readLedger reads a ledger. One that makes no sense is empty.
func readLedger(path string) *ledger {
	l := &ledger{}
	if data, err := readLimited(path, maxLedger); err == nil && json.Unmarshal(data, l) != nil {
		l = &ledger{}
	}
	if l.Format != ledgerFormat || l.Packed == nil || l.Unpacked == nil {
		l = &ledger{Format: ledgerFormat, Packed: map[string]record{}, Unpacked: map[string]record{}}
	}
	return l
}

func readLimited(path string, limit int64) ([]byte, error) {
	// To open a pipe would wait for its other end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

func (b *Builder) recall(at spot) (record, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.ledger(at.id.Provider).of(at.unpacked)[at.key()]
	return r, ok
}

// note remembers a package.
func (b *Builder) note(at spot, r record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger(at.id.Provider)
	l.of(at.unpacked)[at.key()] = r
	l.changed = true
}

// forget remembers a package no more.
func (b *Builder) forget(at spot) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.ledger(at.id.Provider)
	delete(l.of(at.unpacked), at.key())
	l.changed = true
}

// keepLedgers writes down what has changed in memory. The caller holds b.mu.
func (b *Builder) keepLedgers() error {
	for _, p := range slices.SortedFunc(maps.Keys(b.known), sources.Provider.Compare) {
		l := b.known[p]
		if !l.changed {
			continue
		}
		data, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if err := b.write(b.ledgerPath(p), data); err != nil {
			return err
		}
		l.changed = false
	}
	return nil
}

// mark is by what a package is known again without reading it: sizes and times
// of change, as coarse as FAT has them. It is empty if there is no package.
func mark(at spot) string {
	path := at.path
	info, err := os.Stat(path)
	switch {
	case err != nil || info.IsDir() != at.unpacked:
		return ""
	case info.Mode().IsRegular():
		return fileMark(info)
	case !info.IsDir():
		return ""
	}
	sum := sha256.New()
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %s\n", strings.TrimPrefix(name, path), fileMark(info))
		return nil
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func fileMark(info fs.FileInfo) string {
	return fmt.Sprintf("%d@%d", info.Size(), info.ModTime().Truncate(2*time.Second).Unix())
}
