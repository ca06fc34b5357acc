package work

import "context"

// ExamineMachine reports known traps in the configuration, the cache and the mirrors of this machine.
func ExamineMachine(ctx context.Context, s *Session) error {
	s.flags.ReadOnly = true
	_, err := s.here(ctx)
	return err
}
