package run

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

var (
	escapes = sources.Regexp("\x1b\\[[0-9;]*m|│")

	// refusals are what engines report about a provider that a mirror lacks, or lacks in the required versions.
	refusals = sources.Regexp(`provider (\S+/\S+/\S+) was not found in any of the search locations|` +
		`provider (\S+/\S+): no available releases match the given constraints`)
)

// unforeseen is the answer to a confined init that has failed. If init requires a provider that Larder hasn't
// installed, it returns an error, or reports that the whole command can succeed in a second run: init has installed
// modules and recorded its backend, so Larder knows more now. It returns neither if the end of init's output names no
// provider.
func (e *execution) unforeseen(ctx context.Context, output string, limited bool) (again bool, err error) {
	text := strings.Join(strings.Fields(escapes().ReplaceAllString(output, "")), " ")
	seen, known := map[sources.Provider]bool{}, 0
	var errs []error
	for _, match := range refusals().FindAllStringSubmatch(text, -1) {
		p, err := sources.ParseProvider(match[1]+match[2], e.command.Engine)
		if err != nil || seen[p] {
			continue
		}
		seen[p] = true
		why, now := e.whyUnforeseen(ctx, p)
		if now {
			known++
		}
		err = fmt.Errorf("init requires %s in a version that larder exec did not install: %s", p, why)
		switch {
		case limited:
			err = sources.WithHint(err, "add it to required_providers: larder then checks and installs it")
		case e.request.AsShim:
			const hint = "run larder exec --unconfined -- %s init, with the same arguments, " +
				"or run %s, which is the engine without larder"
			err = sources.WithHint(err, hint, e.command.Engine, e.program)
		default:
			const hint = "add --unconfined: larder exec --unconfined -- %s init, with the same arguments; " +
				"or run it without larder"
			err = sources.WithHint(err, hint, e.command.Engine)
		}
		errs = append(errs, err)
	}
	if again = known > 0 && known == len(errs) && !programs.Repeated(e.Machine); again {
		for _, err := range errs {
			e.Output.Warn("%v; running init again", err)
		}
		return true, nil
	}
	return false, errors.Join(errs...)
}

// whyUnforeseen returns why Larder hasn't installed a provider that init requires, and whether it would do so now.
func (e *execution) whyUnforeseen(ctx context.Context, p sources.Provider) (why string, now bool) {
	e.Reading.Get, e.Modules = nil, modules.Cache{}
	m, err := e.Here(ctx)
	if err != nil {
		return err.Error(), false
	}
	tree, _, err := m.Load(ctx)
	if err != nil {
		return err.Error(), false
	}
	for _, r := range tree.Requirements {
		if r.Provider == p && len(r.From) > 0 {
			return r.From[len(r.From)-1].File + " requires it since init has installed modules or chosen a state", true
		}
	}
	if tree.StateUnread {
		return "neither the configuration nor the lock file contains it, and larder cannot read the state", false
	}
	return "neither the configuration, the lock file nor the state contains it", false
}
