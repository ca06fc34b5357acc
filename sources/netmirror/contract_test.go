package netmirror_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
		client := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1})
		m, err := netmirror.New(client, w.Mirror.MirrorURL(), netmirror.Options{})
		check(t, err)
		return m, w.Mirror.Stop
	})
}
