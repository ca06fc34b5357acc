package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// EvidencePath is where the evidence for a version lies below a cache or a
// mirror, with forward slashes.
func EvidencePath(p Provider, v Version) string {
	return ".larder/evidence/" + p.String() + "/" + v.String()
}

// The files of evidence. The sums come last: where they are, all is.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = "SHA256SUMS.sig"
	keysFile      = "keys.json"
	originFile    = "origin"
)

// MaxEvidence limits each file of evidence, in bytes. Real ones have some
// kilobytes.
const MaxEvidence = 4 << 20

// evidenceKey is a [Key] in keys.json, named as registries do.
type evidenceKey struct {
	Armor          string `json:"ascii_armor"`
	TrustSignature string `json:"trust_signature"`
}

// ReadEvidence reads the evidence that dir holds. The error matches
// [ErrNotFound] if it holds none; any other means that the evidence is broken.
// Nothing has been verified.
func ReadEvidence(dir string) (*Signed, error) {
	sums, err := readEvidenceFile(dir, sumsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("evidence in %s: %w", dir, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	var files EvidenceFiles
	files[3] = sums
	for i, name := range EvidenceNames[:3] {
		if files[i], err = readEvidenceFile(dir, name); err != nil {
			return nil, err
		}
	}
	s, err := files.Signed()
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %s: %w", filepath.Join(dir, keysFile), err)
	}
	return s, nil
}

// EvidenceNames are the names of the files of evidence, in the order in which they
// are written.
var EvidenceNames = [...]string{signatureFile, keysFile, originFile, sumsFile}

// EvidenceFiles are the contents of the files of [EvidenceNames].
type EvidenceFiles [len(EvidenceNames)][]byte

// Signed is what the files hold. The error is about the keys.
func (f EvidenceFiles) Signed() (*Signed, error) {
	var stored []evidenceKey
	if err := json.Unmarshal(f[1], &stored); err != nil {
		return nil, err
	}
	s := &Signed{Signature: f[0], Origin: strings.TrimSpace(string(f[2])), Sums: f[3]}
	for _, key := range stored {
		s.Keys = append(s.Keys, Key(key))
	}
	return s, nil
}

// Files are the files that hold s.
func (s *Signed) Files() (EvidenceFiles, error) {
	keys := make([]evidenceKey, 0, len(s.Keys))
	for _, key := range s.Keys {
		keys = append(keys, evidenceKey(key))
	}
	text, err := json.MarshalIndent(keys, "", "  ")
	return EvidenceFiles{s.Signature, append(text, '\n'), []byte(s.Origin + "\n"), s.Sums}, err
}

func readEvidenceFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	// To open a pipe would wait for its other end.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading evidence: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxEvidence+1))
	if err != nil {
		return nil, fmt.Errorf("reading evidence: %w", err)
	}
	if len(data) > MaxEvidence {
		return nil, fmt.Errorf("reading evidence: %s has more than %d bytes", path, MaxEvidence)
	}
	return data, nil
}

// WriteEvidence makes s the evidence that dir holds, and makes dir if need be.
// Each file appears whole or not at all, and where the writing is cut short
// there is no evidence rather than a mixture of old and new. Nothing is flushed
// to the medium: evidence that a power cut spoils is no evidence. Callers see to
// it that only one at a time writes to dir.
func WriteEvidence(dir string, s *Signed) error {
	if old, err := ReadEvidence(dir); err == nil && s.equal(old) {
		return nil
	}
	files, err := s.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("writing evidence: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, sumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing evidence: %w", err)
	}
	for i, name := range EvidenceNames {
		if err := writeWhole(filepath.Join(dir, name), files[i]); err != nil {
			return fmt.Errorf("writing evidence: %w", err)
		}
	}
	return nil
}

func (s *Signed) equal(t *Signed) bool {
	return slices.Equal(s.Sums, t.Sums) && slices.Equal(s.Signature, t.Signature) &&
		slices.Equal(s.Keys, t.Keys) && s.Origin == t.Origin
}

// writeWhole makes data the contents of the file at path by renaming a
// temporary file that has them. Its name is always the same, so that what a
// process that was killed has left is replaced by the next.
func writeWhole(path string, data []byte) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}
