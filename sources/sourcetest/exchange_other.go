//go:build !linux

package sourcetest

// canExchange is for Linux, whose file systems differ.
func canExchange(string) bool { return true }
