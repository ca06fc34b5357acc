package fsmirror

import (
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

// MaxDocument is the size of the largest document that is read, in bytes.
const MaxDocument = 16 << 20
