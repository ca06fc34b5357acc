package cachedir_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

func TestStore(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return openStore(t, dir, cachedir.Options{})
	})
}

// The packages of a working directory, with records in a directory of the user.
func TestWorkdirStore(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return openStore(t, filepath.Join(dir, "providers"), cachedir.Options{Workdir: true, Records: store.Records{Dir: filepath.Join(dir, "state")}})
	})
}

func openStore(t testing.TB, dir string, opts cachedir.Options) *cachedir.Dir {
	opts.Records.Key, opts.Judge, opts.Warn = testKey, sourcetest.Verdicts{}, func(err error) { t.Log(err) }
	d, err := cachedir.Open(dir, opts)
	check(t, err)
	return d
}

// A cache that cannot be written, with a working directory's packages behind it.
type layeredStore struct{ cachedir.Layered }

func (s layeredStore) Close() error { return errors.Join(s.Dir.Close(), s.Own.Close()) }

func TestLayeredStore(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return layeredStore{cachedir.Layered{
			Dir: openStore(t, filepath.Join(dir, "cache"), cachedir.Options{ReadOnly: true}),
			Own: openStore(t, filepath.Join(dir, "providers"), cachedir.Options{Workdir: true, Records: store.Records{Dir: filepath.Join(dir, "state")}}),
		}}
	})
}
