package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
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

// inJSON returns the hash for JSON.
func (u unknownHash) inJSON() any {
	severity := "warning"
	if u.problem() {
		severity = "error"
	}
	return struct {
		File     string       `json:"file"`
		Line     int          `json:"line"`
		Provider string       `json:"provider"`
		Version  string       `json:"version"`
		Hash     sources.Hash `json:"hash"`
		Severity string       `json:"severity"`
		Text     string       `json:"text"`
		Removed  bool         `json:"removed,omitempty"`
	}{u.file, u.Line, u.Provider.String(), u.Version.String(), u.Hash, severity, u.fault(), u.Dropped}
}

// unknown returns the unknown hashes of the lock file, in its order.
func (m *lockedModule) unknown() []unknownHash {
	if m.result == nil {
		return nil
	}
	var all []unknownHash
	for _, u := range m.result.Unknown {
		all = append(all, unknownHash{u, m.file, m.engine, m.check})
	}
	slices.SortStableFunc(all, func(a, b unknownHash) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// showUnknown prints the unknown hashes as JSON.
func (m *lockedModule) showUnknown() {
	if m.out.JSON {
		for _, u := range m.unknown() {
			m.out.Object("unknown_hash", u.inJSON())
		}
	}
}

// maxPlaces is the largest number of places shown for one unknown hash.
const maxPlaces = 10

// warnUnknown prints one warning for each unknown hash that is not a problem, with all lock
// files that contain it.
func (l *locking) warnUnknown() {
	groups := map[string][]unknownHash{}
	for _, u := range l.unknown {
		if !u.problem() {
			text := u.version() + ": " + u.outcome(l.flags.dryRun)
			groups[text] = append(groups[text], u)
		}
	}
	texts := make([]string, 0, len(groups))
	for text, us := range groups {
		slices.SortFunc(us, func(a, b unknownHash) int {
			return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.Line, b.Line))
		})
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		first, second := groups[a][0], groups[b][0]
		return cmp.Or(cmp.Compare(first.file, second.file), cmp.Compare(first.Line, second.Line), cmp.Compare(a, b))
	})
	var hints unknownHints
	for _, text := range texts {
		us := groups[text]
		hints.add(us[0])
		warning := us[0].place() + ": " + text
		for i, u := range us[1:] {
			if i+1 == maxPlaces && l.out.Level != ui.Verbose {
				warning += fmt.Sprintf("\n  and %d more", len(us)-maxPlaces)
				break
			}
			warning += "\n  " + u.place()
		}
		l.out.Warn("%s", warning)
	}
	for _, hint := range hints.list(l.strict) {
		l.out.Hint("%s", hint)
	}
}

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
func (h *unknownHints) list(strict bool) []string {
	var hints []string
	if h.identify {
		hints = append(hints, "name the other platforms with --platform, or run with --strict, which fetches their packages to identify every hash")
	}
	if h.remove {
		hints = append(hints, removeHint(strict))
	}
	return hints
}

// removeHint describes how to remove the hashes that a run with or without --strict has found.
func removeHint(strict bool) string {
	flags := "--drop-unknown"
	if strict {
		flags = "--strict " + flags
	}
	return "larder lock " + flags + " removes hashes that match nothing; first find out who added them"
}

// hashes returns "1 KIND hash" or "2 KIND hashes".
func hashes(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " hash"
	}
	return fmt.Sprintf("%d %s hashes", n, kind)
}

// problemsFound returns the error of a check that found problems.
func (l *locking) problemsFound() error {
	t := &l.tally
	err := fmt.Errorf("%s in %s, checked for %s", ui.Count(t.Problems, "problem"), ui.Count(t.Modules, "lock file"), ui.List("and", t.Platforms))
	if t.Incomplete > 0 {
		err = sources.WithHint(err, completeHint)
	}
	if t.Unknown > 0 {
		err = sources.WithHint(err, "%s", removeHint(l.strict))
	}
	if t.CheckedOut > 0 {
		err = sources.WithHint(err, "anyone who can change the checkout chooses these packages and their hashes: compare them with the origin registry, or keep the mirror elsewhere")
	}
	return foundError{err}
}
