//go:build !linux

package cachedir

type running struct{}

// findRunning says that it finds nothing.
func findRunning() (running, string) {
	return running{}, "which packages running programs use cannot be told on this system"
}

func (running) has(Entry) bool { return false }
