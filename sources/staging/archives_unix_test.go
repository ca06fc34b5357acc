//go:build unix

package staging_test

import (
	"os"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/staging"
)

// Archives that another user owns are not used, because that user can change them after
// they were hashed, and reset the time.
func TestArchivesOfOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	p := newPlace(t)
	a := staging.ArchivesIn(p.kept, 100)
	p.keep(a, "one", staging.ByLink)
	sourcetest.Equal(t, p.found(a, "one"), "one")
	check(t, os.Chown(p.kept.Path(nameOf("one")), 54321, 54321))
	sourcetest.Equal(t, p.found(a, "one"), "")
}
