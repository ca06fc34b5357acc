package installer

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// rehearse returns the errors of packages that are not signed as required, before the
// real run changes anything. Do is the work of a dry run. Its other errors are those of
// the real run too.
func (in *Installer) rehearse(ctx context.Context, dryRun bool, do func(*Installer) error) error {
	if dryRun || in.opts.Judge.Require == trust.RequireNothing && !in.policy().AboutSignatures() {
		return nil
	}
	opts := in.opts
	opts.Report = nil
	quiet := *in
	quiet.acquirer = acquire.New(in.from, in.into, nil, opts.Options) // a dry run downloads nothing
	quiet.opts = opts
	var refused []error
	for _, err := range sources.Errors(do(&quiet)) {
		if notSigned(err) {
			var of sources.PackageID
			if pkg, ok := errors.AsType[*sources.PackageError](err); ok {
				of = pkg.ID
			}
			refused = append(refused, in.failed(of, err))
		}
	}
	return errors.Join(append(refused, ctx.Err())...)
}

func notSigned(err error) bool {
	_, ok := errors.AsType[*trust.NotSignedError](err)
	return ok
}

// failed reports the error about a package or provider in root modules, if there is one, and returns it.
func (in *Installer) failed(id sources.PackageID, err error, modules ...string) error {
	if err != nil {
		in.acquirer.Report(acquire.Event{Step: acquire.Failed, Package: id, Err: err, Modules: modules})
	}
	return err
}
