// Package lockfile reads and writes the dependency lock file of a root module. It
// implements the format of the file and the rules for changing it. The caller decides
// which versions and hashes belong in it.
//
// On disk it leaves .terraform.lock.hcl, replaced as a whole by rename.
//
// # Format
//
//	# This file is maintained automatically by "terraform init".
//	# Manual edits may be lost in future updates.
//
//	provider "registry.terraform.io/acme/widget" {
//	  version     = "2.5.1"
//	  constraints = "~> 2.0"
//	  hashes = [
//	    "h1:AAA=",
//	    "zh:111",
//	  ]
//	}
//
// The file is UTF-8 with LF line ends. The first line of the header names the engine. One blank
// line precedes each block. Blocks are sorted by [sources.Provider.Compare]. Hashes
// are sorted in byte order, without duplicates. Constraints and hashes are left out
// if there are none.
//
// Addresses, versions and constraints must be in canonical form. The engines would
// evaluate an expression such as "1.${0}"; this package accepts plain strings and
// lists only, because the engines write nothing else.
//
// # Comments
//
// Engines drop comments when they rewrite the file. This package keeps them: a
// comment before or beside a block, argument or hash moves with it, and is removed
// with it. Comments above the header stay above it. Paragraphs between the header and
// the first block stay below it, and comments after the last block stay at the end.
package lockfile

import (
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Name is the file's name in a root module.
const Name = sources.LockFile

// An Entry is the locked data of one provider.
type Entry struct {
	Provider    sources.Provider
	Version     sources.Version
	Constraints sources.Constraints // in effect when it was installed; may be out of date
	Hashes      []sources.Hash      // of all known platforms
}

// A File is the contents of a lock file.
type File struct {
	Exists bool // false if there is no file, which locks nothing

	engine  sources.Engine
	entries map[sources.Provider]Entry
	assumed map[sources.Provider]Entry // see Migrate

	text   []byte // from which comments are taken when it is written again
	places map[place]span
}

// Entry returns the locked data of p, with the hashes in the order of the file. It
// returns false if there is none.
func (f *File) Entry(p sources.Provider) (Entry, bool) {
	e, ok := f.entries[p]
	if !ok {
		e, ok = f.assumed[p]
	}
	e.Hashes = slices.Clone(e.Hashes)
	return e, ok
}

// Line returns the line number, starting at 1, of the hash h in the block for p. It
// is the first such line if there are several, and 0 if there is none.
func (f *File) Line(p sources.Provider, h sources.Hash) int {
	return f.places[place{p, string(h)}].start.Line
}

// Block returns the number of the line on which the block for p begins, the first being 1, and
// 0 if there is none.
func (f *File) Block(p sources.Provider) int { return f.places[place{p, "{"}].start.Line }

// Entries returns all entries, sorted by provider.
func (f *File) Entries() []Entry {
	var entries []Entry
	for p := range f.entries {
		e, _ := f.Entry(p)
		entries = append(entries, e)
	}
	return sorted(entries)
}

// Engine returns the engine that the header names, and false if it names none.
func (f *File) Engine() (sources.Engine, bool) { return f.engine, f.engine != "" }

// sorted returns a copy of entries in the order of the file.
func sorted(entries []Entry) []Entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b Entry) int {
		return a.Provider.Compare(b.Provider)
	})
}
