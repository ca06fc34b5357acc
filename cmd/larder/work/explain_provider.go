package work

import "context"

// explainProvider shows how the version of a provider is chosen for the root module in dir.
func (s *Session) explainProvider(ctx context.Context, dir, address string, all bool) error {
	_, err := s.root(ctx, dir, s.output)
	return err
}
