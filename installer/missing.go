package installer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A MissingError is a package that only the network has, when it is not to be
// used.
type MissingError struct {
	Requirement sources.Requirement
	Version     sources.Version // zero if sources must be asked to know it
	Platform    sources.Platform
	Err         error // matches fetch.ErrOffline
	Hashed      bool  // what it hashes to is known, but not that its publisher says so
}

func (e *MissingError) Error() string {
	version := e.Version.String()
	switch {
	case version != "":
	case e.Requirement.Constraints.Empty():
		version = "of any version"
	default:
		version = e.Requirement.Constraints.String()
	}
	lacks := "is not on this machine"
	if e.Hashed {
		lacks = "came without its publisher's checksums"
	}
	return fmt.Sprintf("%s %s %s %s, and the network is not to be used", e.Requirement.Provider, version, e.Platform, lacks)
}

func (e *MissingError) Unwrap() error { return e.Err }

// missing puts in place of an error for want of the network one for each package
// that it was wanted for.
func (j *job) missing(ctx context.Context, err error) error {
	if !errors.Is(err, fetch.ErrOffline) {
		return err
	}
	var errs []error
	for _, platform := range j.opts.Platforms {
		if !j.atHand(ctx, j.id(platform)) {
			errs = append(errs, j.requiredBy(&MissingError{Requirement: j.req, Version: j.version, Platform: platform, Err: err}))
		}
	}
	return errors.Join(errs...)
}

// requiredBy adds to an error where the provider is required, which may be deep
// in a module that somebody else wrote.
func (j *job) requiredBy(err error) error {
	places := j.places()
	if len(places) == 0 {
		return err
	}
	return sources.WithHint(err, "the provider is required by %s", strings.Join(places, ", "))
}
