//go:build !linux && !darwin

package cachedir

import "errors"

// cloneFile is for systems that let files share their bytes.
func cloneFile(from, to string) error { return errors.ErrUnsupported }
