//go:build !linux && !darwin

package cachedir

import "errors"

// exchange is for systems that can swap two names in one step.
func exchange(a, b string) error { return errors.ErrUnsupported }
