package cliconfig

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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

// one is a file system in which every file has the same contents.
type one []byte

func (o one) ReadFile(context.Context, string, int64) ([]byte, error) { return o, nil }
func (o one) ReadDir(string) ([]fs.DirEntry, error)                   { return nil, fs.ErrNotExist }
func (o one) Stat(string) (fs.FileInfo, error)                        { return nil, fs.ErrNotExist }
func (o one) Lstat(string) (fs.FileInfo, error)                       { return nil, fs.ErrNotExist }

// No file makes Load panic, and every diagnostic has a position.
func FuzzLoad(f *testing.F) {
	sourcetest.AddSeeds[[]byte](f, configSeeds...)
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
	sourcetest.AddSeeds[[]byte](f,
		"host \"a.example:8443\" {\n  ca_file = \"ca.pem\"\n  client_certificate = \"c\"\n  client_key = \"k\"\n}",
		"host \"a.example\" {\n  headers = { \"X-Team\" = \"platform\", Range = 1, x-team = \"b\" }\n  send_token_to_archives = true\n}\nhost \"A.example\" {}",
		`{"host": {"a.example": {"headers": [{"X": "a\nb"}, {"Y": 1.5}]}}, "hosts": []}`,
	)
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

// printNode writes a tree in the syntax in which it was read.
func printNode(b *strings.Builder, n *syntax.Node, assign string) {
	switch n.Kind {
	case syntax.Object:
		b.WriteString("{")
		printEntries(b, n, assign)
		b.WriteString("}")
	case syntax.List:
		b.WriteString("[")
		for _, item := range n.Items {
			printNode(b, item, assign)
			b.WriteString(", ")
		}
		b.WriteString("]")
	case syntax.String:
		b.WriteString(quoted(n.Text))
	default:
		b.WriteString(n.Text)
	}
}

func printEntries(b *strings.Builder, n *syntax.Node, assign string) {
	for _, e := range n.Entries {
		fmt.Fprintf(b, "%s %s ", quoted(e.Key), assign)
		printNode(b, e.Value, assign)
		b.WriteString(",\n")
	}
}

// quoted quotes s for both syntaxes. One of them expands ${.
func quoted(s string) string { return strings.ReplaceAll(strconv.Quote(s), "$", `\x24`) }

// shape describes a tree without positions and spelling.
func shape(n *syntax.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q (", n.Kind, n.Text)
	for _, e := range n.Entries {
		fmt.Fprintf(&b, "%q: %s, ", e.Key, shape(e.Value))
	}
	for _, item := range n.Items {
		fmt.Fprintf(&b, "%s, ", shape(item))
	}
	return b.String() + ")"
}

// A tree that is printed and read again is the same.
func FuzzSyntax(f *testing.F) {
	sourcetest.AddSeeds[[]byte](f, configSeeds...)
	f.Fuzz(func(t *testing.T, src []byte) {
		root, bad := syntax.Parse("f", src)
		if bad != nil {
			sourcetest.Require(t, bad.Text != "" && bad.File == "f", "diagnostic without text or file: %+v", bad)
			return
		}
		var b strings.Builder
		if strings.HasPrefix(strings.TrimSpace(string(src)), "{") {
			printNode(&b, root, ":")
		} else {
			printEntries(&b, root, "=")
		}
		again, bad := syntax.Parse("f", []byte(b.String()))
		sourcetest.Require(t, bad == nil, "printed, it is bad: %s\n%s", bad, b.String())
		sourcetest.Equal(t, shape(again), shape(root))
	})
}
