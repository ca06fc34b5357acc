package work

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// An unknownHash is a hash in a lock file that no package and no signed checksums cover.
type unknownHash struct {
	installer.UnknownHash
	file   string // full path
	engine sources.Engine
	check  bool // whether the lock file is only checked
}

// problem reports whether a check fails because of the hash.
func (u unknownHash) problem() bool { return u.check && !u.Maybe }

// version names the provider and its version, without the engine's default host.
func (u unknownHash) version() string {
	address := strings.TrimPrefix(u.Provider.String(), string(u.engine.DefaultHost())+"/")
	return address + " " + u.Version.String()
}

// place returns the file and line of the hash in the format of compilers, so that editors can
// open it.
func (u unknownHash) place() string { return fmt.Sprintf("%s:%d", u.file, u.Line) }

// fault describes what is wrong with the hash, to complete a sentence about it.
func (u unknownHash) fault() string {
	if u.Maybe {
		return "belongs to none of the platforms checked"
	}
	return "matches no signed checksum and no package known on this machine"
}

// text names the hash and describes what is wrong with it.
func (u unknownHash) text() string { return fmt.Sprintf("%q %s", u.Hash, u.fault()) }

// value returns the hash for programs.
func (u unknownHash) value() report.UnknownHash {
	severity := "warning"
	if u.problem() {
		severity = "error"
	}
	return report.UnknownHash{
		File: u.file, Line: u.Line, Provider: u.Provider.String(), Version: u.Version.String(), Hash: u.Hash,
		Severity: severity, Why: u.fault(), Removed: u.Dropped,
	}
}

// maxPlaces is the largest number of places shown for one unknown hash.
const maxPlaces = 10

// outcome describes what is wrong with the hash, and what larder does about it.
func (u unknownHash) outcome(dryRun bool) string {
	switch {
	case u.Maybe || u.check:
		return u.text()
	case u.Dropped && dryRun:
		return u.text() + "; it would be removed"
	case u.Dropped:
		return u.text() + "; removed"
	default:
		return u.text() + "; kept"
	}
}

// unknownHints collects hints about unknown hashes.
type unknownHints struct{ identify, remove bool }

// add records the hints that help with a hash.
func (h *unknownHints) add(u unknownHash) {
	if u.Refused { // its error has its own hints
		return
	}
	h.identify = h.identify || u.Maybe
	h.remove = h.remove || !u.Maybe && !u.Dropped
}

// list returns the hints without duplicates.
func (h *unknownHints) list(removal string) []string {
	var hints []string
	if h.identify {
		hints = append(hints, "name the other platforms with --platform, or run with --strict, which fetches their packages to identify every hash")
	}
	if h.remove {
		hints = append(hints, removal)
	}
	return hints
}

// removeHint describes how to remove the hashes that a run with or without --strict has found.
func (l *locking) removeHint() string {
	command := "lock --drop-unknown"
	if l.Strict {
		command = "lock --strict --drop-unknown"
	}
	words := append([]string{l.again(command, l.flags.Platforms...)}, l.only...)
	return strings.Join(words, " ") + " removes hashes that match nothing; first find out who added them"
}
