package main

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A cache that cannot be written, with a working directory's packages behind it.
type layeredStore struct{ layered }

func (s layeredStore) Close() error { return errors.Join(s.Dir.Close(), s.own.Close()) }

func TestLayeredStore(t *testing.T) {
	key, err := seal.ParseKey("the secret of this test, which is long")
	sourcetest.Check(t, err)
	sourcetest.RunStore(t, func(t testing.TB, dir string, judge sources.Judge) sourcetest.WholeStore {
		cache, err := cachedir.Open(filepath.Join(dir, "cache"), cachedir.Options{ReadOnly: true, Key: key})
		sourcetest.Check(t, err)
		own, err := cachedir.Open(filepath.Join(dir, "providers"), cachedir.Options{
			Workdir: true, State: filepath.Join(dir, "state"), Key: key, Judge: judge, Warn: func(err error) { t.Log(err) },
		})
		sourcetest.Check(t, err)
		return layeredStore{layered{cache, own}}
	})
}
