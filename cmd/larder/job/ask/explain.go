package ask

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
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
	address, dir, err := asked(s, "explain", request.Arguments, s.Flags.Recursive)
	switch {
	case err != nil:
		return err
	case s.Flags.Recursive:
		return explainAll(ctx, s, address)
	case address == "":
		return explainMachine(ctx, s, dir, request)
	}
	return explainProvider(ctx, s, dir, address, request.All)
}

// asked returns the provider in the arguments of a question, as typed, and the directory of the root module. Unless the
// provider is needed, it may be empty.
func asked(s *site.Site, command string, args []string, needed bool) (address, dir string, err error) {
	paths, addresses, err := job.Separate(s, args)
	switch {
	case err != nil:
		return "", "", err
	case len(addresses) == 0 && needed && s.Flags.Recursive:
		err := fmt.Errorf("larder %s --recursive needs a provider", command)
		err = sources.WithHint(err, "write its address, such as hashicorp/random; larder list -R lists all providers")
		return "", "", report.Usage(err)
	case len(addresses) == 0 && needed:
		err := fmt.Errorf("larder %s takes a provider, not the path %s", command, ui.List("and", paths))
		err = sources.WithHint(err, "write [HOST/]NAMESPACE/TYPE, such as hashicorp/random, before the root module")
		return "", "", report.Usage(err)
	case len(addresses) > 1:
		return "", "", report.Usage(fmt.Errorf("larder %s takes one provider, not %s", command, ui.List("and", addresses)))
	case len(paths) > 1:
		return "", "", report.Usage(fmt.Errorf("larder %s takes one root module, not %s", command, ui.List("and", paths)))
	}
	if err := job.TakeRoots(s, paths); err != nil {
		return "", "", err
	}
	return strings.Join(addresses, ""), site.Absolute(s.WorkDir, strings.Join(paths, "")), nil
}
