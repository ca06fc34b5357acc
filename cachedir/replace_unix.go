//go:build unix

package cachedir

import "os"

func rename(from, to string) error { return os.Rename(from, to) }
