package installer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A MissingError is a package that has to be downloaded, under --offline.
type MissingError struct {
	Requirement sources.Requirement
	Version     sources.Version // zero if sources must be asked to know it
	Platform    sources.Platform
	Err         error // matches fetch.ErrOffline
	Hashed      bool  // its hashes are recorded, but not its publisher's checksums
	Damaged     bool  // it is in the cache, with other contents than were verified
}

func (e *MissingError) Error() string {
	version := e.Version.String()
	if version == "" {
		wanted := "a version"
		if !e.Requirement.Constraints.Empty() {
			wanted = fmt.Sprintf("a version that matches %q", e.Requirement.Constraints)
		}
		return fmt.Sprintf("%s %s: no version is locked, and choosing %s needs the network (--offline)", e.Requirement.Provider, e.Platform, wanted)
	}
	lacks := "is not on this machine"
	switch {
	case e.Damaged:
		lacks = "is damaged in the plugin cache"
	case e.Hashed:
		lacks = "came without its publisher's checksums"
	}
	return fmt.Sprintf("%s %s %s %s, and the network is not to be used", e.Requirement.Provider, version, e.Platform, lacks)
}

func (e *MissingError) Unwrap() error { return e.Err }

// missing replaces an error that says that the network is needed by one for each package
// that it is needed for.
func (j *job) missing(err error) error {
	if !errors.Is(err, fetch.ErrOffline) {
		return err
	}
	var errs []error
	for _, platform := range j.opts.Platforms {
		l := j.looked[platform]
		if l.suffices() {
			continue
		}
		errs = append(errs, j.requiredBy(&MissingError{
			Requirement: j.req, Version: j.version, Platform: platform, Err: err, Damaged: l.held.Differs != "",
		}))
	}
	if len(errs) == 0 {
		return err
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
