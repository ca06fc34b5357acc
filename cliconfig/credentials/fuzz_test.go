package credentials

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

// No Docker-style file makes the choice of credentials panic, and no error quotes it.
func FuzzDockerConfig(f *testing.F) {
	sourcetest.AddSeeds[[]byte](f,
		`{"auths": {"a.example": {"auth": "b25lOnA="}, "a.example/b": {"auth": "dHdv"}, "https://index.docker.io/v1/": {}, "x": null}, "credsStore": "s"}`,
		`{"credHelpers": {"a.example": "x/y", "": "z"}, "auths": {"": {"auth": "Og=="}, "a.example/b/c": {"auth": ":"}}}`,
	)
	f.Fuzz(func(t *testing.T, src []byte) {
		o := Registries{
			Defaults: Defaults{Ambient: true, Explicit: true, Files: []string{"/f"}},
			ReadFile: func(context.Context, string, int64) ([]byte, error) { return src, nil },
			Programs: NewPrograms(nil, "/w", &sources.Secrets{}),
		}
		chosen, err := o.Choose(context.Background(), oci.Repository{Registry: "a.example", Name: "b/c"})
		if err != nil {
			text := err.Error()
			sourcetest.Require(t, chosen.rank == 0 && strings.HasPrefix(text, ": docker_style_config_files: /f: "), "%+v, %s", chosen, text)
			return
		}
		sourcetest.Require(t, (chosen.rank > 0) == (chosen.Helper+chosen.credentials.From != ""), "%+v", chosen)
		sourcetest.Require(t, chosen.rank <= ofRegistry+2 && strings.Contains(string(src), chosen.Helper) || !json.Valid(src), "%+v", chosen)
	})
}

func printNetrc(logins Netrc) string {
	word := func(s string) string {
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`).Replace(s) + `"`
	}
	var b strings.Builder
	for _, l := range logins {
		if l.Default {
			b.WriteString("default")
		} else {
			b.WriteString("machine " + word(l.Machine))
		}
		fmt.Fprintf(&b, " login %s password %s\n", word(l.User), word(l.Password))
	}
	return b.String()
}

func FuzzNetrc(f *testing.F) {
	f.Add("machine a.example login me password \"s\\\"e\\n\"\n# comment\ndefault login d password p")
	f.Add("machine a\nmacdef init\nx\n\nmachine b account c password \"")
	f.Fuzz(func(t *testing.T, src string) {
		logins := ParseNetrc(src)
		again := ParseNetrc(printNetrc(logins))
		for i := range logins {
			sourcetest.Require(t, logins[i].Line > 0, "%+v", logins[i])
			logins[i].Line = i + 1
		}
		sourcetest.Require(t, slices.Equal(logins, again), "got  %+v\nwant %+v", again, logins)
	})
}
