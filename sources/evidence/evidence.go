// Package evidence stores the evidence for a version as files: its signed
// checksums, their signature, the keys, and the URL of the checksums. It also
// defines how records and VERSION.json refer to evidence. It verifies nothing,
// and writes only to the directories that it is given.
//
// # Layout
//
//	SHA256SUMS.sig   the signature, binary
//	keys.json        the keys, as registries list them
//	origin           the URL of the checksums, and on a second line the versions of the plugin protocol, if any is known
//	SHA256SUMS       written last: if it exists, the others do
//
// These files are for other programs: web servers, bundles and people. A cache, which has only Larder, keeps the
// evidence for a version as one JSON file, see [WriteFile].
package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Path returns the path of the directory with a version's evidence in a mirror, with
// forward slashes.
func Path(p sources.Provider, v sources.Version) string {
	return ".larder/evidence/" + p.String() + "/" + v.String()
}

// Names are the names of the files, in the order of writing.
var Names = [...]string{Signature, "keys.json", "origin", Sums}

// The names of the signed checksums and of their signature.
const (
	Sums      = "SHA256SUMS"
	Signature = "SHA256SUMS.sig"
)

// Files are the contents of the files in [Names].
type Files [len(Names)][]byte

// Max is the maximum size of each file, in bytes. Real ones have a few
// kilobytes.
const Max = 4 << 20

// Pack returns the files for s.
func Pack(s *sources.Signed) Files {
	text, _ := json.MarshalIndent(append([]sources.Key{}, s.Keys...), "", "  ") // keys are strings, so there is no error
	origin := Origin(s.Origin) + "\n"
	if all := protocols(s.Protocols); len(all) > 0 {
		origin += strings.Join(all, " ") + "\n"
	}
	return Files{s.Signature, append(text, '\n'), []byte(origin), s.Sums}
}

// Signed returns the evidence in the files. An error is about the keys.
func (f Files) Signed() (*sources.Signed, error) {
	s := &sources.Signed{Signature: f[0], Sums: f[3]}
	origin, second, _ := strings.Cut(string(f[2]), "\n")
	if all := protocols(strings.Fields(second)); strings.Join(all, " ") == strings.TrimSpace(second) {
		s.Origin, s.Protocols = Origin(origin), all
	}
	if err := json.Unmarshal(f[1], &s.Keys); err != nil {
		return nil, err
	}
	return s, nil
}

// maxOrigin is the maximum length of an origin in bytes.
const maxOrigin = 2 << 10

// Origin returns the URL in text, or nothing if text is anything else than one URL
// without secrets. An origin is copied to wherever the evidence is copied, so it must
// not be able to contain another file.
func Origin(text string) string {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || len(text) > maxOrigin || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	if text != (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String() {
		return ""
	}
	return text
}

// protocols returns the texts that are versions of the plugin protocol. Like an origin, they are copied to wherever the
// evidence is copied.
func protocols(texts []string) (all []string) {
	for _, text := range texts {
		if _, err := sources.ParseVersion(text); err == nil && len(text) <= 10 && len(all) < 10 {
			all = append(all, text)
		}
	}
	return all
}

// Of reads the evidence for a version in the mirror in a directory. The errors are
// those of [Read].
func Of(dir string, p sources.Provider, v sources.Version) (*sources.Signed, error) {
	in, err := disk.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evidence in %s: %w", dir, sources.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	defer in.Close()
	return Read(in, Path(p, v))
}

// Read reads the evidence in the directory called name. The error matches
// [sources.ErrNotFound] if there is none; any other error means that the
// evidence is damaged, or a [disk.StrayError] that it is reached through a link.
// Nothing has been verified.
func Read(in *disk.Dir, name string) (*sources.Signed, error) {
	_, s, err := ReadFiles(in, name)
	return s, err
}

// ReadFiles is like [Read], but returns the files too.
func ReadFiles(in *disk.Dir, name string) (files Files, s *sources.Signed, err error) {
	dir, err := in.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil, fmt.Errorf("evidence in %s: %w", in.Path(name), sources.ErrNotFound)
	}
	if err != nil {
		return files, nil, fmt.Errorf("reading evidence: %w", err)
	}
	defer dir.Close()
	for i := len(Names) - 1; i >= 0; i-- { // the checksums first: without them there is no evidence
		data, _, err := dir.ReadFile(Names[i], Max)
		switch {
		case i == len(Names)-1 && errors.Is(err, fs.ErrNotExist):
			return Files{}, nil, fmt.Errorf("evidence in %s: %w", dir.Path("."), sources.ErrNotFound)
		case err != nil:
			return Files{}, nil, fmt.Errorf("reading evidence: %w", err)
		}
		files[i] = data
	}
	if s, err = files.Signed(); err != nil {
		return Files{}, nil, fmt.Errorf("reading evidence: %s: %w", dir.Path(Names[1]), err)
	}
	return files, s, nil
}

// Write writes s to the directory called name, which is created if it is
// missing. Each file is written atomically, with its temporary file in the
// directory via. If writing is interrupted, there is no evidence, and never a
// mixture of old and new. Nothing is synced: evidence damaged by a power
// failure counts as missing. The caller must ensure that nothing else writes to
// the directory.
func Write(in *disk.Dir, name string, via *disk.Dir, s *sources.Signed) error {
	files := Pack(s)
	if old, _, err := ReadFiles(in, name); err == nil && slices.EqualFunc(files[:], old[:], bytes.Equal) {
		return nil
	}
	dir, err := in.MakeSub(name)
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	defer dir.Close()
	if dir.Exists(Sums) {
		if err := dir.Remove(Sums); err != nil {
			return fmt.Errorf("writing evidence: %w", err)
		}
	}
	for i, file := range Names {
		if err := dir.WriteVia(via, file, files[i], disk.Lazily); err != nil {
			return fmt.Errorf("writing evidence: %w", err)
		}
	}
	return nil
}

// ReadFile is like [Read] for a file of [WriteFile].
func ReadFile(in *disk.Dir, name string) (*sources.Signed, error) {
	text, _, err := in.ReadFile(name, int64(len(Names))*Max)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evidence in %s: %w", in.Path(name), sources.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	s := new(sources.Signed)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("reading evidence: %s: %w", in.Path(name), err)
	}
	s.Origin, s.Protocols = Origin(s.Origin), protocols(s.Protocols)
	return s, nil
}

// WriteFile writes s to the file called name, atomically, with its temporary file in the directory via. Nothing is
// synced. The caller must ensure that nothing else writes the file.
func WriteFile(in *disk.Dir, name string, via *disk.Dir, s *sources.Signed) error {
	with := *s
	with.Origin, with.Protocols = Origin(s.Origin), protocols(s.Protocols)
	text, _ := json.Marshal(with) // it has only texts, so there is no error
	dir, err := in.MakeSub(path.Dir(name))
	if err == nil {
		defer dir.Close()
		err = dir.WriteVia(via, path.Base(name), append(text, '\n'), disk.Lazily)
		if info, statErr := dir.Lstat(path.Base(name)); err != nil && statErr == nil && info.IsDir() {
			err = dir.CheckFiles(path.Base(name)) // another user may have put it there, see [disk.IsObstructed]
		}
	}
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	return nil
}

// WriteTo is like [Write], with the directory's path.
func WriteTo(dir string, s *sources.Signed) error {
	in, err := disk.Make(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	defer in.Close()
	return Write(in, filepath.Base(dir), in, s)
}

// Remove removes the evidence in the directory called name, and the directories
// above it up to in that are empty. It does not remove files with other names.
func Remove(in *disk.Dir, name string) error {
	for i := len(Names) - 1; i >= 0; i-- {
		if err := in.Remove(name + "/" + Names[i]); err != nil {
			return err
		}
	}
	return in.RemoveEmpty(name)
}

// Nearest returns the version among names that is next below v, or otherwise
// next above. The names are those in the directory of a provider's evidence; it
// skips names that are not versions.
func Nearest(names []string, v sources.Version) (near sources.Version, ok bool) {
	var others []sources.Version
	for _, name := range names {
		if other, err := sources.ParseVersion(name); err == nil && other.String() == name && other != v {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return v, false
	}
	slices.SortFunc(others, sources.Version.Compare)
	above, _ := slices.BinarySearchFunc(others, v, sources.Version.Compare)
	return others[max(above-1, 0)], true
}
