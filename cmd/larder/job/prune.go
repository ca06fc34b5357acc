package job

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var errNoTerminal = errors.New("cannot ask for confirmation without a terminal: add --yes or --dry-run")

// Asks reports whether a prune asks for confirmation, and fails if that is impossible.
func Asks(s *site.Site) (bool, error) {
	asks := !s.Flags.Yes && !s.Flags.DryRun
	if asks && !s.Output.CanAsk() {
		return true, report.Usage(errNoTerminal)
	}
	return asks, nil
}

// Confirmed asks for confirmation, if the user wants that.
func Confirmed(ctx context.Context, out *report.Output, asks bool, planned string) (bool, error) {
	if !asks {
		return true, nil
	}
	defer out.OnInterrupt(out.OnInterrupt("nothing was removed"))
	return out.Ask(ctx, planned+". Remove?")
}
