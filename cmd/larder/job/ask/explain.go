package ask

import (
	"context"
	"fmt"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// An ExplainRequest says what to explain.
type ExplainRequest struct {
	Arguments []string // a provider's address, a root module, or both, as typed
	All       bool     // show everything

	Flags []cliconfig.Input // the variables of flags
}

// Explain explains the choice of a provider's version, or without a provider what is configured.
func Explain(ctx context.Context, s *site.Site, request ExplainRequest) error {
	s.Ask()
	paths, addresses, err := job.Separate(s, request.Arguments)
	if err != nil {
		return err
	}
	if len(addresses) > 1 {
		return report.Usage(fmt.Errorf("larder explain takes one provider, not %s", ui.List("and", addresses)))
	}
	if err := job.TakeRoots(s, paths); err != nil {
		return err
	}
	dir := s.WorkDir
	if len(paths) > 0 {
		dir = site.Absolute(s.WorkDir, paths[0])
	}
	if len(addresses) == 0 {
		return explainMachine(ctx, s, dir, request)
	}
	return explainProvider(ctx, s, dir, addresses[0], request.All)
}
