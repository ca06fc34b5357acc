package installer

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/trust"
)

// rehearse returns an error if a package is not signed as required, before the real run
// changes anything. The error is that of do, the work of a dry run, so it includes what else
// the real run would fail with.
func (in *Installer) rehearse(ctx context.Context, dryRun bool, do func(*Installer) error) error {
	if dryRun || in.opts.Judge.Require == trust.RequireNothing && !in.policy().AboutSignatures() {
		return nil
	}
	opts := in.opts
	opts.Report = nil
	quiet := *in
	quiet.acquirer = acquire.New(in.from, in.into, nil, opts.Options) // a dry run downloads nothing
	quiet.opts = opts
	err := do(&quiet)
	if !refuses(err) {
		return ctx.Err()
	}
	for _, err := range sources.Errors(err) {
		_ = in.failed(sources.About(err), err)
	}
	return err
}

// refuses reports whether any of the errors is that of a package that is not signed or approved as required.
func refuses(err error) bool {
	return slices.ContainsFunc(sources.Errors(err), func(err error) bool {
		_, unsigned := errors.AsType[*trust.NotSignedError](err)
		v, excluded := errors.AsType[*policy.Violation](err)
		return unsigned || excluded && v.Rule.Setting == policy.ApprovedBy
	})
}

// failed reports the error about a package or provider in root modules, if there is one, and returns it.
func (in *Installer) failed(id sources.PackageID, err error, modules ...string) error {
	if err != nil {
		in.acquirer.Report(acquire.Event{Step: acquire.Failed, Package: id, Err: err, Modules: modules})
	}
	return err
}
