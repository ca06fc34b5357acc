package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An Extension is the member "larder" of a network mirror's VERSION.json. Engines
// ignore it.
type Extension struct {
	Evidence *Location `json:"evidence,omitempty"` // nil if the mirror has none
}

// A Location refers to the evidence for a version, for clients without access
// to the mirror's directory.
type Location struct {
	URL    string            `json:"url"`    // of the directory, relative to VERSION.json
	SHA256 map[string]string `json:"sha256"` // SHA-256 of each file in hexadecimal, by the names in [Names]
}

// toRoot is the path from HOST/NAMESPACE/TYPE/VERSION.json to the directory
// that contains HOST.
const toRoot = "../../../"

// Locate returns the location of files at [Path] in the mirror of VERSION.json.
func Locate(p sources.Provider, v sources.Version, files Files) *Location {
	r := &Location{
		URL:    (&url.URL{Path: toRoot + Path(p, v) + "/"}).String(),
		SHA256: map[string]string{},
	}
	for i, name := range Names {
		r.SHA256[name] = sum(files[i])
	}
	return r
}

func sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Resolve returns the URLs of the files. Doc is the URL of VERSION.json. It refuses a
// URL outside the mirror.
func (r *Location) Resolve(doc *url.URL) (urls [len(Names)]*url.URL, err error) {
	const long = 4 << 10 // in bytes
	if len(r.URL) > long {
		return urls, fmt.Errorf("its URL is too long (%d bytes)", len(r.URL))
	}
	ref, err := url.Parse(r.URL)
	if err != nil {
		return urls, errors.New("its URL is invalid")
	}
	if *ref != (url.URL{Path: ref.Path, RawPath: ref.RawPath}) {
		return urls, fmt.Errorf("its URL is not a relative path: %.200q", r.URL)
	}
	root, dir := doc.ResolveReference(&url.URL{Path: toRoot}), doc.ResolveReference(ref)
	if !strings.HasPrefix(dir.Path, root.Path) || path.Clean(dir.Path)+"/" != dir.Path {
		return urls, fmt.Errorf("its URL is not a directory in the mirror: %.200q", r.URL)
	}
	for i, name := range Names {
		urls[i] = dir.ResolveReference(&url.URL{Path: name})
	}
	return urls, nil
}

// Check returns an error if the SHA-256 of data differs from that of the file.
func (r *Location) Check(name string, data []byte) error {
	want, ok := r.SHA256[name]
	if !ok {
		return fmt.Errorf("the mirror states no SHA-256 of %s", name)
	}
	if got := sum(data); got != want {
		return fmt.Errorf("%s has the SHA-256 %s, but the mirror states %.80q", name, got, want)
	}
	return nil
}
