package fsmirror_test

import (
	"os"
	"testing"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

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
					check(t, os.RemoveAll(dir))
				}
				return fsmirror.New(dir, fsmirror.Options{}), outage
			})
		})
	}
}
