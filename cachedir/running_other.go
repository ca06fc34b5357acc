//go:build !linux

package cachedir

type running struct{}

// findRunning finds nothing on this system.
func findRunning() (running, string) {
	return running{}, "which packages running programs use cannot be told on this system"
}

func (running) has(Entry) bool { return false }
