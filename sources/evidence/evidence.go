// Package evidence keeps a version's evidence as files: its signed checksums, their
// signature, the keys, and the URL of the checksums. It also has the references by which
// records name evidence, and its names in VERSION.json. It verifies nothing. It writes the
// directory that the caller passes.
//
// # Layout
//
//	SHA256SUMS.sig   the signature, binary
//	keys.json        the keys, as registries list them
//	origin           the URL of the checksums
//	SHA256SUMS       written last: where it exists, the others do
package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Path is where the evidence for a version lies below a cache or a mirror, with
// forward slashes.
func Path(p sources.Provider, v sources.Version) string {
	return ".larder/evidence/" + p.String() + "/" + v.String()
}

// Names are the names of the files, in the order in which they are written.
var Names = [...]string{"SHA256SUMS.sig", "keys.json", "origin", "SHA256SUMS"}

// Files are the contents of the files called [Names].
type Files [len(Names)][]byte

// Max limits each file, in bytes. Real ones have some kilobytes.
const Max = 4 << 20

// key is a [sources.Key] in keys.json, named as registries do. Whether a registry
// listed it isn't kept: everyone who can write the file could claim that.
type key struct {
	Armor          string `json:"ascii_armor"`
	TrustSignature string `json:"trust_signature"`
}

// Pack returns the files that hold s.
func Pack(s *sources.Signed) (Files, error) {
	keys := make([]key, 0, len(s.Keys))
	for _, k := range s.Keys {
		keys = append(keys, key{k.Armor, k.TrustSignature})
	}
	text, err := json.MarshalIndent(keys, "", "  ")
	return Files{s.Signature, append(text, '\n'), []byte(s.Origin + "\n"), s.Sums}, err
}

// Signed is what the files hold. An error is about the keys.
func (f Files) Signed() (*sources.Signed, error) {
	var keys []key
	if err := json.Unmarshal(f[1], &keys); err != nil {
		return nil, err
	}
	s := &sources.Signed{Signature: f[0], Origin: strings.TrimSpace(string(f[2])), Sums: f[3]}
	for _, k := range keys {
		s.Keys = append(s.Keys, sources.Key{Armor: k.Armor, TrustSignature: k.TrustSignature})
	}
	return s, nil
}

// Read reads the evidence in dir, following links. The error matches
// [sources.ErrNotFound] if there is none; any other means that it is broken.
// Nothing has been verified.
func Read(dir string) (*sources.Signed, error) {
	files, err := ReadFiles(dir)
	if err != nil {
		return nil, err
	}
	s, err := files.Signed()
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %s: %w", filepath.Join(dir, Names[1]), err)
	}
	return s, nil
}

// ReadFiles is [Read] for the files as they are.
func ReadFiles(dir string) (Files, error) {
	var files Files
	for i := len(Names) - 1; i >= 0; i-- { // the checksums first: without them there is no evidence
		path := filepath.Join(dir, Names[i])
		data, err := disk.ReadFile(path, Max)
		switch {
		case i == len(Names)-1 && errors.Is(err, fs.ErrNotExist):
			return Files{}, fmt.Errorf("evidence in %s: %w", dir, sources.ErrNotFound)
		case err != nil:
			return Files{}, fmt.Errorf("reading evidence: %w", err)
		}
		files[i] = data
	}
	return files, nil
}

// Write makes s the evidence in the directory called name, which is created if it
// is missing. Each file appears whole or not at all, by way of the directory via,
// and where writing is interrupted there is no evidence rather than a mixture of
// old and new. Nothing is synced: evidence that a power cut spoils is none. The
// caller is the only one who writes to that directory.
func Write(in *disk.Dir, name string, via *disk.Dir, s *sources.Signed) error {
	files, err := Pack(s)
	if err != nil {
		return err
	}
	if old, err := Read(in.Path(name)); err == nil {
		if have, err := Pack(old); err == nil && slices.EqualFunc(files[:], have[:], bytes.Equal) {
			return nil
		}
	}
	dir, err := in.MakeSub(name)
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	defer dir.Close()
	if err := dir.Remove(Names[len(Names)-1]); err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	for i, file := range Names {
		if err := dir.WriteVia(via, file, files[i], disk.Lazily); err != nil {
			return fmt.Errorf("writing evidence: %w", err)
		}
	}
	return nil
}

// WriteTo is [Write] for a directory of its own, created if it is missing.
func WriteTo(dir string, s *sources.Signed) error {
	in, err := disk.Make(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	defer in.Close()
	return Write(in, filepath.Base(dir), in, s)
}

// Remove removes the evidence in the directory called name, and the directories
// above it up to in as far as they are empty. Files of other names stay.
func Remove(in *disk.Dir, name string) error {
	for i := len(Names) - 1; i >= 0; i-- {
		if err := in.Remove(name + "/" + Names[i]); err != nil {
			return err
		}
	}
	return in.RemoveEmpty(name)
}

// Nearest returns the version among names that is next below v, or else next above.
// The names are those in the directory of a provider's evidence; others are skipped.
func Nearest(names []string, v sources.Version) (near sources.Version, ok bool) {
	for _, name := range names {
		other, err := sources.ParseVersion(name)
		if err != nil || other == v || other.String() != name {
			continue
		}
		if !ok || nearer(other, near, v) {
			near, ok = other, true
		}
	}
	return near, ok
}

// nearer reports whether a is to be compared with v rather than b.
func nearer(a, b, v sources.Version) bool {
	below, wasBelow := a.Compare(v) < 0, b.Compare(v) < 0
	switch {
	case below != wasBelow:
		return below
	case below:
		return a.Compare(b) > 0
	}
	return a.Compare(b) < 0
}
