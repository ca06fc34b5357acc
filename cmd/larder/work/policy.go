package work

import (
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/sources/policy"
)

// policyFor returns the rules for the root module in dir: those of the site, of the user, and of the repository,
// from its top down to dir. It is nil if there are none.
func (s *Session) policyFor(dir string, config *cliconfig.Config) (*policy.Policy, error) {
	files, err := s.filesFor(dir)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(config.Policy)
	for _, f := range slices.Backward(files) {
		rules = append(rules, f.checkout.Policy...)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	return &policy.Policy{Rules: rules}, nil
}
