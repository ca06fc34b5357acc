package work

import "context"

// A VersionsRequest says which versions to list.
type VersionsRequest struct {
	Address string // as typed
	All     bool   // not only the newest
}

// ListVersions lists the versions of a provider that the installation methods offer.
func ListVersions(ctx context.Context, s *Session, request VersionsRequest) error {
	s.ask()
	_, err := s.here(ctx)
	return err
}
