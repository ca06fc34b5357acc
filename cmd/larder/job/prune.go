package job

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// A PruneRequest says how to prune.
type PruneRequest struct {
	Roots   []string // directories to search for root modules that use the cache
	MaxSize string   // as typed
	Yes     bool     // remove without showing the plan and asking for confirmation
	Leaves  string   // what remains after an interruption

	Asks bool // for confirmation
}

var errNoTerminal = errors.New("cannot ask for confirmation without a terminal: add --yes or --dry-run")

// Check determines whether to ask for confirmation, and fails if that is impossible.
func (r *PruneRequest) Check(s *site.Site) error {
	r.Asks = !r.Yes && !s.Flags.DryRun
	if r.Asks && !s.Output.CanAsk() {
		return report.Usage(errNoTerminal)
	}
	return nil
}

// Confirmed asks for confirmation, if the request wants that.
func (r PruneRequest) Confirmed(ctx context.Context, out *report.Output, planned string) (bool, error) {
	if !r.Asks {
		return true, nil
	}
	out.OnInterrupt("nothing was removed")
	defer out.OnInterrupt(r.Leaves)
	return out.Ask(ctx, planned+". Remove?")
}
