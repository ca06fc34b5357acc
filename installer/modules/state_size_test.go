package modules_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

const aws = `"provider":"provider[\"registry.terraform.io/hashicorp/aws\"]"`

// largeStates are states with a text that is repeated until they are large.
var largeStates = []struct{ name, begin, repeat, end, want string }{
	{"attribute", `{"version":4,"resources":[{` + aws + `,"instances":[{"attributes":{"a":"`, `0123456789abcdef\n\"\u00e9`, `"}}]}]}`, ""},
	{"attribute before the provider", `{"version":4,"resources":[{"a":"`, `0123456789abcdef`, `",` + aws + `}]}`, ""},
	{"instances", `{"version":4,"resources":[{` + aws + `,"instances":[{}`, `,{"a":1}`, `]}]}`, ""},
	{"members", `{"version":4,"resources":[{` + aws, `,"%08d":{"a":null}`, `}]}`, ""},
	{"resources", `{"version":4,"resources":[{` + aws + `}`, `,{` + aws + `,"instances":[]}`, `]}`, ""},
	{"outputs", `{"version":4,"outputs":{"a":1`, `,"%08d":{"value":"a","type":["list","string"]}`, `},"resources":[{` + aws + `}]}`, ""},
	{"nesting", `{"version":4,"a":[0`, `,` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000), `],"resources":[{` + aws + `}]}`, ""},
	{"space", `{"version":4,`, "        \n", `"resources":[{` + aws + `}]}`, ""},
	{"digits", `{"version":4,"a":1`, `00000000`, `,"resources":[]}`, "number"},
	{"digits of the version", `{"version":4`, `00000000`, `,"resources":[]}`, "number"},
	{"name", `{"version":4,"`, `00000000`, `":1,"resources":[{` + aws + `}]}`, ""},
	{"version", `{"version":"`, `00000000`, `"}`, "invalid character"},
	{"provider", `{"version":4,"resources":[{"provider":"provider`, `.module.a`, `"}]}`, "provider address"},
	{"providers", `{"version":4,"resources":[{` + aws + `}`, `,{"provider":"provider[\"example.com/a/b%08d\"]"}`, `]}`, "more than"},
	{"invalid providers", `{"version":4,"resources":[{` + aws + `}`, `,{"provider":"%08d"}`, `]}`, "more than"},
	{"resources of version 3", `{"version":3,"modules":[{"resources":{"a":{}`, `,"%08d":{}`, `}}]}`, "no namespace"},
	{"modules of version 3", `{"version":3,"modules":[{}`, `,{"resources":{}}`, `]}`, ""},
}

// Reading a state takes the same memory for any size.
func TestLargeStatesTakeLittleMemory(t *testing.T) {
	const size = 20 << 20
	for _, s := range largeStates {
		t.Run(s.name, func(t *testing.T) {
			sourcetest.OneIn(t, 2)
			dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "main.tf"}}})
			file, err := os.Create(filepath.Join(dir, "terraform.tfstate"))
			check(t, err)
			w := bufio.NewWriter(file)
			w.WriteString(s.begin)
			for i := 0; i < size; i += len(s.repeat) {
				if strings.Contains(s.repeat, "%") {
					fmt.Fprintf(w, s.repeat, i)
				} else {
					w.WriteString(s.repeat)
				}
			}
			w.WriteString(s.end)
			check(t, w.Flush())
			file.Close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, ds := modules.Load(t.Context(), dir, modules.Options{})
			runtime.ReadMemStats(&after)
			if grown := after.Sys - before.Sys; grown > 64<<20 { // Sys never shrinks
				t.Errorf("reading took %d MiB", grown>>20)
			}
			if s.want == "" != (ds.Err() == nil) || s.want != "" && !strings.Contains(ds.Err().Error(), s.want) {
				t.Errorf("got %.500v, want %q", ds.Err(), s.want)
			}
		})
	}
}
