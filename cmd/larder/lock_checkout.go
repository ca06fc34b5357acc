package main

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A served provider is locked, and a mirror of the checkout has the locked version.
type served struct {
	sources.Release
	line   int    // of the provider's block in the lock file; 0 if there is none
	mirror string // full path
	text   string // what is wrong
}

// judgeCheckout finds the providers that the checkout serves, for a strict check. They are
// problems, because anyone who can change the checkout chooses both the packages and their hashes.
func (l *locking) judgeCheckout(ctx context.Context, m *rootModule, methods []sources.Method, root *installer.Root, locked *lockedModule) {
	if !l.check || !l.strict {
		return
	}
	entries := root.Lock.Entries()
	if locked.result != nil && locked.result.Lock.Entries != nil {
		entries = locked.result.Lock.Entries
	}
	var required []sources.Release
	for _, e := range entries {
		if slices.ContainsFunc(root.Requirements, func(r sources.Requirement) bool { return r.Provider == e.Provider }) {
			required = append(required, sources.Release{Provider: e.Provider, Version: e.Version})
		}
	}
	for _, r := range required {
		if mirror := fromCheckout(ctx, methods, r.Provider, r.Version); mirror != nil {
			text := "served by this checkout, from " + m.shown(mirror.Dir())
			locked.checkedOut = append(locked.checkedOut, served{r, root.Lock.Block(r.Provider), absolute(m.dir, mirror.Dir()), text})
		}
	}
}

// showServed prints the providers that are a problem as JSON.
func (m *lockedModule) showServed() {
	if !m.out.JSON {
		return
	}
	for _, s := range m.checkedOut {
		m.out.Object("checkout_provider", struct {
			File     string `json:"file"`
			Line     int    `json:"line"`
			Provider string `json:"provider"`
			Version  string `json:"version"`
			Mirror   string `json:"mirror"`
			Text     string `json:"text"`
		}{m.file, s.line, s.Provider.String(), s.Version.String(), s.mirror, s.text})
	}
}
