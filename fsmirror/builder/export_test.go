package builder

import (
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Alter does what storing a package does, until done is called.
func Alter(t *testing.T, b *Builder) (done func()) {
	t.Helper()
	return sourcetest.Must(b.exclude(t.Context()))(t)
}
