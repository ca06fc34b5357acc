package fsmirror_test

import (
	"os"
	"testing"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestContract(t *testing.T) {
	for name, write := range map[string]func(*sourcetest.World, string, ...string){
		"packed":   (*sourcetest.World).WritePacked,
		"unpacked": (*sourcetest.World).WriteUnpacked,
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
				dir := t.TempDir()
				write(w, dir)
				outage := func() {
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
				return fsmirror.New(dir, fsmirror.Options{}), outage
			})
		})
	}
}
