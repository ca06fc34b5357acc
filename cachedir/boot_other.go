//go:build !linux && !darwin

package cachedir

func bootID() string { return "" }
