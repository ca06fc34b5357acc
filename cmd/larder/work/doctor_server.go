package work

import "context"

// ExamineServer tries each step of the protocol of a mirror or a registry.
func ExamineServer(ctx context.Context, s *Session, server string) error {
	s.flags.ReadOnly = true
	_, err := s.here(ctx)
	return err
}
