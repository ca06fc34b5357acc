package registry_test

import (
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
		client := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1})
		return registry.New(client, registry.Options{Engine: sources.Terraform}), w.Registry.Stop
	})
}
