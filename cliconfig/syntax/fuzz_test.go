package syntax

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m}.Run()) }

// print writes a tree in the syntax in which it was read.
func (n *Node) print(b *strings.Builder, assign string) {
	switch n.Kind {
	case Object:
		b.WriteString("{")
		n.printEntries(b, assign)
		b.WriteString("}")
	case List:
		b.WriteString("[")
		for _, item := range n.Items {
			item.print(b, assign)
			b.WriteString(", ")
		}
		b.WriteString("]")
	case String:
		b.WriteString(quote(n.Text))
	default:
		b.WriteString(n.Text)
	}
}

func (n *Node) printEntries(b *strings.Builder, assign string) {
	for _, e := range n.Entries {
		fmt.Fprintf(b, "%s %s ", quote(e.Key), assign)
		e.Value.print(b, assign)
		b.WriteString(",\n")
	}
}

// quote quotes s for both syntaxes. One of them expands ${.
func quote(s string) string { return strings.ReplaceAll(strconv.Quote(s), "$", `\x24`) }

// shape describes a tree without positions and spelling.
func (n *Node) shape() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q (", n.Kind, n.Text)
	for _, e := range n.Entries {
		fmt.Fprintf(&b, "%q: %s, ", e.Key, e.Value.shape())
	}
	for _, item := range n.Items {
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
	sourcetest.AddSeeds[[]byte](f, configSeeds...)
	f.Fuzz(func(t *testing.T, src []byte) {
		root, bad := Parse("f", src)
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
		again, bad := Parse("f", []byte(b.String()))
		sourcetest.Require(t, bad == nil, "printed, it is bad: %s\n%s", bad, b.String())
		sourcetest.Equal(t, again.shape(), root.shape())
	})
}
