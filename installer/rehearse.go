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
	if dryRun || in.opts.Judge.Require == trust.RequireNothing {
		return nil
	}
	opts := in.opts
	opts.Report = nil
	quiet := *in
	quiet.acquirer = acquire.New(in.from, in.into, nil, opts.acquiring()) // a dry run downloads nothing
	quiet.opts = opts
	var refused []error
	for _, err := range sources.Errors(do(&quiet)) {
		if notSigned(err) {
			in.acquirer.Report(failed(err))
			refused = append(refused, err)
		}
	}
	return errors.Join(append(refused, ctx.Err())...)
}

func notSigned(err error) bool {
	_, ok := errors.AsType[*trust.NotSignedError](err)
	return ok
}

// failed returns the event for the error of a package.
func failed(err error) acquire.Event {
	e := acquire.Event{Step: acquire.Failed, Err: err}
	if pkg, ok := errors.AsType[*sources.PackageError](err); ok {
		e.Package = sources.PackageID{Provider: pkg.ID.Provider}
	}
	return e
}
