//go:build !linux && !darwin

package disk

// Boot returns an empty string: this system has no ID for each boot.
func Boot() string { return "" }
