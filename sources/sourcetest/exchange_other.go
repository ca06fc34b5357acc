//go:build !linux

package sourcetest

import "runtime"

// canExchange is for Linux, whose file systems differ. Of the other systems, only macOS exchanges names.
func canExchange(string) bool { return runtime.GOOS == "darwin" }
