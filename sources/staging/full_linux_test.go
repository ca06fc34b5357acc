package staging

import (
	"os"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Writing to a full disk fails with a hint that names the directory.
func TestHintsAboutFullDisks(t *testing.T) {
	full := sourcetest.Must(os.OpenFile("/dev/full", os.O_RDWR, 0))(t)
	defer full.Close()
	_, stageErr := (&Stage{file: full, of: "the test"}).Write([]byte("x"))
	_, spoolErr := spool{File: full, of: "the test"}.WriteAt([]byte("x"), 0)
	for _, err := range []error{stageErr, spoolErr} {
		if hints := sources.Hints(err); len(hints) != 1 || !strings.Contains(hints[0], "free some space for the test") {
			t.Errorf("%v: hints %q", err, hints)
		}
	}
}
