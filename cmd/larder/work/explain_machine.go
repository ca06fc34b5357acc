package work

import "context"

// explainMachine shows what is configured for the root module in dir.
func (s *Session) explainMachine(ctx context.Context, dir string, all bool) error {
	_, err := s.root(ctx, dir, s.output)
	return err
}
