package work

import (
	"context"
	"fmt"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// An ExplainRequest says what to explain.
type ExplainRequest struct {
	Arguments []string // a provider's address, a root module, or both, as typed
	All       bool     // show everything

	Flags []cliconfig.Input // the variables of flags
}

// Explain explains the choice of a provider's version, or without a provider what is configured.
func Explain(ctx context.Context, s *Session, request ExplainRequest) error {
	s.ask()
	paths, addresses, err := s.separate(request.Arguments)
	if err != nil {
		return err
	}
	if len(addresses) > 1 {
		return report.Usage(fmt.Errorf("larder explain takes one provider, not %s", ui.List("and", addresses)))
	}
	if err := s.takeRoots(paths); err != nil {
		return err
	}
	dir := s.workDir
	if len(paths) > 0 {
		dir = Absolute(s.workDir, paths[0])
	}
	if len(addresses) == 0 {
		return s.explainMachine(ctx, dir, request)
	}
	return s.explainProvider(ctx, dir, addresses[0], request.All)
}
