package fsmirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// A Document is one of the two documents of the network mirror protocol: an index.json, which has only Versions, or a
// VERSION.json. A Mirror doesn't use them.
//
// https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol
type Document struct {
	Versions map[string]struct{} `json:"versions,omitzero"`
	Archives map[string]Archive  `json:"archives,omitzero"` // by platform
	Larder   *evidence.Extension `json:"larder,omitempty"`
}

// An Archive is an archive that a VERSION.json names.
type Archive struct {
	Hashes []sources.Hash `json:"hashes,omitempty"`
	URL    string         `json:"url"` // relative to that of the document
}

// Index is the name of a provider's document with its versions.
const Index = "index.json"

// Page is the name of the page for people in a mirror.
const Page = "index.html"

// MaxDocument is the size of the largest document that is read, in bytes.
const MaxDocument = 16 << 20

// VersionOf returns the version whose document has this name.
func VersionOf(name string) (sources.Version, bool) {
	text, ok := strings.CutSuffix(name, ".json")
	v, err := sources.ParseVersion(text)
	return v, ok && err == nil && v.String() == text
}

// ParseDocument parses the document called name.
func ParseDocument(name string, text []byte) (d Document, err error) {
	err = json.Unmarshal(text, &d)
	switch {
	case err != nil:
	case name == Index && d.Versions == nil:
		err = errors.New("has no versions")
	case name != Index && d.Archives == nil:
		err = errors.New("has no archives")
	}
	if err != nil {
		return Document{}, err
	}
	return d, nil
}

// Text returns JSON as engines write it: sorted keys, two spaces, no newline after the last line.
func (d Document) Text() []byte {
	text, _ := sources.JSON(d) // it consists of texts
	return bytes.TrimSuffix(text, []byte("\n"))
}
