package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// SetPath is the path of the manifest of a mirror's set. The other files of the set are beside it.
const SetPath = ".larder/manifest.json"

// SetFiles are what the names of the files of a set add to that of its manifest, in the order of writing: the public
// key, the signature, and the manifest itself.
var SetFiles = [...]string{".key", ".sig", ""}

// MaxSet is the maximum size of each file of a set, in bytes.
const MaxSet = 32 << 20

// PackSet returns the files for a set, which is evidence whose checksums are a manifest.
func PackSet(s *sources.Signed) (files [len(SetFiles)][]byte) {
	for _, k := range s.Keys {
		files[0] = append(files[0], k.Armor...)
	}
	files[1], files[2] = s.Signature, s.Sums
	return files
}

// ReadSet reads the files of a set with a function. The error matches [sources.ErrNotFound] if neither the manifest nor
// the signature exists. Nothing has been verified.
func ReadSet(name string, read func(name string) ([]byte, error)) (*sources.Signed, error) {
	var files [len(SetFiles)][]byte
	var missing [len(SetFiles)]error
	for i, suffix := range SetFiles {
		data, err := read(name + suffix)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, sources.ErrNotFound) {
			missing[i], err = fmt.Errorf("the file %s of the signed set is missing", path.Base(name)+suffix), nil
		}
		if err != nil {
			return nil, err
		}
		files[i] = data
	}
	if missing[1] != nil && missing[2] != nil {
		return nil, sources.ErrNotFound
	}
	s := &sources.Signed{Keys: []sources.Key{{Armor: string(files[0])}}, Signature: files[1], Sums: files[2]}
	return s, errors.Join(missing[:]...)
}

// WriteSet writes the files of a set, each by rename, with its temporary file in the directory via. Unchanged files
// stay. The manifest is last: if writing is interrupted, the signature doesn't match it.
func WriteSet(in *disk.Dir, via *disk.Dir, s *sources.Signed) error {
	for i, data := range PackSet(s) {
		name := path.Base(SetPath) + SetFiles[i]
		if old, _, err := in.ReadFile(name, MaxSet); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := in.WriteVia(via, name, data, disk.Synced); err != nil {
			return fmt.Errorf("writing the signed set: %w", err)
		}
	}
	return nil
}
