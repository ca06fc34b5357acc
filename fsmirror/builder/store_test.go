package builder_test

import (
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestStore(t *testing.T)         { runStore(t, false) }
func TestUnpackedStore(t *testing.T) { runStore(t, true) }

func runStore(t *testing.T, unpacked bool) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return open(t, dir, builder.Options{Unpacked: unpacked, Judge: sourcetest.Verdicts{}, Warn: func(err error) { t.Log(err) }})
	})
}
