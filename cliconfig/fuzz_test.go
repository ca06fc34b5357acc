package cliconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// print writes a tree in the syntax in which it was read.
func (n *node) print(b *strings.Builder, assign string) {
	switch n.kind {
	case isObject:
		b.WriteString("{")
		n.printEntries(b, assign)
		b.WriteString("}")
	case isList:
		b.WriteString("[")
		for _, item := range n.items {
			item.print(b, assign)
			b.WriteString(", ")
		}
		b.WriteString("]")
	case isString:
		b.WriteString(quote(n.text))
	default:
		b.WriteString(n.text)
	}
}

func (n *node) printEntries(b *strings.Builder, assign string) {
	for _, e := range n.entries {
		fmt.Fprintf(b, "%s %s ", quote(e.key), assign)
		e.value.print(b, assign)
		b.WriteString(",\n")
	}
}

// quote quotes s for both syntaxes. One of them expands ${.
func quote(s string) string { return strings.ReplaceAll(strconv.Quote(s), "$", `\x24`) }

// shape describes a tree without positions and spelling.
func (n *node) shape() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q (", n.kind, n.text)
	for _, e := range n.entries {
		fmt.Fprintf(&b, "%q: %s, ", e.key, e.value.shape())
	}
	for _, item := range n.items {
		fmt.Fprintf(&b, "%s, ", item.shape())
	}
	return b.String() + ")"
}

var configSeeds = []string{
	"plugin_cache_dir = \"$HOME/c\"\ndisable_checkpoint = true\n# comment\nx = [1, 2.5, \"a\", {b = 1}, [2]]",
	"provider_installation {\n  dev_overrides { \"a/b\" = \"/x\" }\n  filesystem_mirror { path = \"m\" include = [\"a/*\"] }\n  network_mirror { url = \"https://a/b\" }\n  direct {}\n}",
	"host \"a.example\" { services = { \"providers.v1\" = \"/p\" } }\ncredentials \"a.example\" { token = \"t\" }\ncredentials_helper \"x\" { args = [\"a\"] }",
	"x = <<EOT\na\nEOT\ny = <<-EOT\n  a\n  EOT\n",
	`x "y" "z" { a = "\u00e9\x41\101\n${ "b" }" }`,
	`{"provider_installation": {"filesystem_mirror": [{"path": "/a"}], "direct": {}}, "x": [{"a": [1, -2.5e3, null, true]}, {}]}`,
	`{"credentials": {"a.example": {"token": "t\/\ud83d\ude00"}},}`,
	"registry_protocols { retry_count = 1 }\noci_credentials \"a/b\" { username = \"u\" password = \"p\" }\noci_default_credentials {}",
	"provider_installation { oci_mirror { repository_template = \"${type}\" include = [\"a/*\"] } }",
}

// A tree that is printed and read again is the same.
func FuzzParse(f *testing.F) {
	for _, s := range configSeeds {
		f.Add([]byte(s))
		for mutant := range sourcetest.Mutants([]byte(s)) {
			f.Add(mutant)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		root, bad := parse("f", src)
		if bad != nil {
			sourcetest.Require(t, bad.Text != "" && bad.File == "f", "diagnostic without text or file: %+v", bad)
			return
		}
		var b strings.Builder
		if strings.HasPrefix(strings.TrimSpace(string(src)), "{") {
			root.print(&b, ":")
		} else {
			root.printEntries(&b, "=")
		}
		again, bad := parse("f", []byte(b.String()))
		sourcetest.Require(t, bad == nil, "printed, it is bad: %s\n%s", bad, b.String())
		if got, want := again.shape(), root.shape(); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// one is a file system in which every file has the same contents.
type one []byte

func (o one) ReadFile(context.Context, string, int64) ([]byte, error) { return o, nil }
func (o one) ReadDir(string) ([]fs.DirEntry, error)                   { return nil, fs.ErrNotExist }
func (o one) Stat(string) (fs.FileInfo, error)                        { return nil, fs.ErrNotExist }
func (o one) Lstat(string) (fs.FileInfo, error)                       { return nil, fs.ErrNotExist }

// No file makes Load panic, and every diagnostic has a position.
func FuzzLoad(f *testing.F) {
	for _, s := range configSeeds {
		f.Add([]byte(s))
		for mutant := range sourcetest.Mutants([]byte(s)) {
			f.Add(mutant)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, e := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
			m := Machine{GOOS: "linux", GOARCH: "amd64", WorkDir: "/w", Home: "/h", Files: one(src)}
			c, diags := Load(context.Background(), m, e, Options{ConfigFile: "f"})
			sourcetest.Require(t, len(FilesRead(c)) == 1, "files: %v", c.files)
			for _, d := range diags {
				sourcetest.Require(t, d.File == "/w/f" && d.Text != "", "%s: %+v", e, d)
			}
			for _, m := range c.Methods {
				if m.Line == 0 || m.Kind == FilesystemMirror && m.Path == "" || m.Kind == NetworkMirror && !strings.HasPrefix(strings.ToLower(m.URL), "https:") {
					t.Fatalf("%s: %+v", e, m)
				}
			}
		}
	})
}

// No content of Larder's own file makes Load panic. The settings are valid in
// requests, and every diagnostic has a position.
func FuzzLarderFile(f *testing.F) {
	for _, s := range []string{
		"host \"a.example:8443\" {\n  ca_file = \"ca.pem\"\n  client_certificate = \"c\"\n  client_key = \"k\"\n}",
		"host \"a.example\" {\n  headers = { \"X-Team\" = \"platform\", Range = 1, x-team = \"b\" }\n  send_token_to_archives = true\n}\nhost \"A.example\" {}",
		`{"host": {"a.example": {"headers": [{"X": "a\nb"}, {"Y": 1.5}]}}, "hosts": []}`,
	} {
		f.Add([]byte(s))
		for mutant := range sourcetest.Mutants([]byte(s)) {
			f.Add(mutant)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m := Machine{GOOS: "linux", GOARCH: "amd64", WorkDir: "/w", Environ: []string{"LARDER_CONFIG=f"}, Files: one(src)}
		c, diags := Load(context.Background(), m, sources.Terraform, Options{})
		for _, d := range diags {
			sourcetest.Require(t, d.File == "/w/f" && d.Text != "", "%+v", d)
		}
		for host, o := range c.HostOptions {
			again, err := sources.ParseHost(string(host))
			sourcetest.Require(t, err == nil && again == host, "host %q: %q, %v", host, again, err)
			for name, value := range o.Headers {
				if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || ourHeader(name) != "" {
					t.Fatalf("header %q: %q", name, value)
				}
			}
		}
	})
}

// No Docker-style file makes the choice of credentials panic, and no error quotes it.
func FuzzDockerConfig(f *testing.F) {
	for _, s := range []string{
		`{"auths": {"a.example": {"auth": "b25lOnA="}, "a.example/b": {"auth": "dHdv"}, "https://index.docker.io/v1/": {}, "x": null}, "credsStore": "s"}`,
		`{"credHelpers": {"a.example": "x/y", "": "z"}, "auths": {"": {"auth": "Og=="}, "a.example/b/c": {"auth": ":"}}}`,
	} {
		f.Add([]byte(s))
		for mutant := range sourcetest.Mutants([]byte(s)) {
			f.Add(mutant)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		m := Machine{GOOS: "linux", GOARCH: "amd64", WorkDir: "/w", Home: "/h", Files: one(src)}
		o := newOCIConfig(m, &sources.Secrets{})
		o.defaults.files, o.defaults.explicit = []string{"/f"}, true
		chosen, err := o.choose(context.Background(), oci.Repository{Registry: "a.example", Name: "b/c"})
		if err != nil {
			text := err.Error()
			sourcetest.Require(t, chosen.rank == 0 && strings.HasPrefix(text, ": docker_style_config_files: /f: "), "%+v, %s", chosen, text)
			return
		}
		sourcetest.Require(t, (chosen.rank > 0) == (chosen.helper+chosen.credentials.From != ""), "%+v", chosen)
		sourcetest.Require(t, chosen.rank <= ofRegistry+2 && strings.Contains(string(src), chosen.helper) || !json.Valid(src), "%+v", chosen)
	})
}

func printNetrc(logins []login) string {
	word := func(s string) string {
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`).Replace(s) + `"`
	}
	var b strings.Builder
	for _, l := range logins {
		if l.fallback {
			b.WriteString("default")
		} else {
			b.WriteString("machine " + word(l.machine))
		}
		fmt.Fprintf(&b, " login %s password %s\n", word(l.user), word(l.password))
	}
	return b.String()
}

func FuzzNetrc(f *testing.F) {
	f.Add("machine a.example login me password \"s\\\"e\\n\"\n# comment\ndefault login d password p")
	f.Add("machine a\nmacdef init\nx\n\nmachine b account c password \"")
	f.Fuzz(func(t *testing.T, src string) {
		logins, warnings := readNetrc(src)
		for _, w := range warnings {
			sourcetest.Require(t, w.Line != 0 && w.Warning, "%+v", w)
		}
		again, warnings := readNetrc(printNetrc(logins))
		sourcetest.Require(t, len(warnings) == 0 && slices.Equal(logins, again), "%v\ngot  %+v\nwant %+v", warnings, again, logins)
	})
}

func readNetrc(src string) ([]login, sources.Diagnostics) {
	l := &loader{config: &Config{}}
	l.readNetrc("f", src)
	return l.config.logins, l.diags
}
