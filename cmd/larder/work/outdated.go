package work

import "context"

// An OutdatedRequest says which root modules to look at.
type OutdatedRequest struct {
	Roots []string // directories as typed; none means the one in which larder works
	Check bool     // a newer version is a finding
}

// Outdated lists locked providers that have newer versions.
func Outdated(ctx context.Context, s *Session, request OutdatedRequest) error {
	s.ask()
	return s.takeRoots(request.Roots)
}
