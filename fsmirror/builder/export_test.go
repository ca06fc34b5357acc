package builder

import (
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Alter does what storing a package does, until done is called.
func Alter(t *testing.T, b *Builder) (done func()) {
	t.Helper()
	sourcetest.Check(t, b.busy.Acquire(t.Context(), 1))
	return func() { b.busy.Release(1) }
}
