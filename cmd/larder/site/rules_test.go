package site_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pattern selects by the parts that it has, also in capitals. No pattern selects everything.
func TestPatterns(t *testing.T) {
	s, stderr := sitetest.Open(t, "", site.Options{})
	var all []sources.PackageID
	for _, p := range []string{
		"registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws", "example.test/acme/widget",
	} {
		for _, v := range []string{"1.2.0", "2.0.0"} {
			all = append(all, sourcetest.PackageID(t, p, v, "linux_amd64"))
		}
	}
	for typed, want := range map[string]int{
		"": 6, "aws": 4, "hashicorp/*": 4, "*/AWS": 4, "registry.terraform.io/*/*": 2, "*@1.*": 3, "aws@2.0.0": 2,
		"acme/aws": 0, "a/b/c/d": -1, "[": -1, "acme//widget": -1, "aws 1.2.0": -1,
	} {
		patterns, err := s.ReadPatterns(strings.Fields(typed))
		got := -1
		if err == nil {
			got = 0
			for _, id := range all {
				if site.Selected(patterns, id) {
					got++
				}
			}
		}
		sourcetest.Equal(t, got, want, typed)
	}
	patterns := sourcetest.Must(s.ReadPatterns([]string{"aws", "acme/wigdet", "nothing"}))(t)
	site.Unmatched(s.Output, patterns, all)
	sourcetest.Equal(t, strings.Count(stderr.String(), "warning"), 2, stderr)
	sourcetest.Expect(t, strings.Contains(stderr.String(), `did you mean "acme/widget"?`), "%s", stderr)
}

// A hint's command has the flags of the run that choose its root modules, and works where the user typed the first.
func TestAgain(t *testing.T) {
	tofu := []sources.Engine{sources.OpenTofu}
	for _, c := range []struct {
		want    string
		opts    site.Options
		command string
		below   bool // the run changes to a directory
		roots   []string
	}{
		{"larder lock", site.Options{}, "lock", false, nil},
		{"larder lock a 'b c'", site.Options{}, "lock", false, []string{"a", "b c"}},
		{"larder --chdir 'd e' lock", site.Options{}, "lock", true, nil},
		{"larder lock -R --exclude 'x*'", site.Options{Recursive: true, Exclude: []string{"x*"}}, "lock", false, nil},
		{"larder --config c.rc lock", site.Options{Config: "c.rc"}, "lock", false, nil},
		{"larder --cache c lock", site.Options{Cache: "c"}, "lock", false, nil},
		{"larder lock --no-cache", site.Options{NoCache: true}, "lock", false, nil},
		{"larder cache verify", site.Options{NoCache: true}, "cache verify", false, nil},
		{"larder install --plugin-dir m", site.Options{PluginDirs: []string{"m"}}, "install", false, nil},
		{"larder lock", site.Options{PluginDirs: []string{"m"}}, "lock", false, nil},
		{"larder --engine tofu lock", site.Options{Engines: tofu, EnginesBy: "--engine"}, "lock", false, nil},
		{"larder lock", site.Options{Engines: tofu, EnginesBy: "LARDER_ENGINE"}, "lock", false, nil},
		{"larder lock --engine tofu", site.Options{Engines: tofu, EnginesBy: "--engine"}, "lock --engine tofu", false, nil},
	} {
		s, _ := sitetest.Open(t, "", c.opts)
		s.Roots = c.roots
		if c.below {
			s.WorkDir = filepath.Join(s.WorkDir, "d e")
		}
		sourcetest.Equal(t, s.Again(c.command), c.want)
		withPlatform := s.Again(c.command, sources.Platform{OS: "linux", Arch: "arm64"})
		sourcetest.Equal(t, strings.Replace(withPlatform, " --platform linux_arm64", "", 1), c.want)
		sourcetest.Expect(t, withPlatform != c.want, "%s lacks its platform", withPlatform)
	}
}

// Other users can replace what they own or may exchange, and what is created in a directory of all.
func TestExposure(t *testing.T) {
	sourcetest.RequireModes(t)
	base := site.Resolve(t.TempDir())
	dir, file := filepath.Join(base, "dir"), filepath.Join(base, "dir", "file")
	sourcetest.Check(t, os.Mkdir(dir, 0o700))
	sourcetest.Check(t, os.WriteFile(file, nil, 0o600))
	mine := func(fs.FileInfo) bool { return false }
	for _, c := range []struct {
		mode     fs.FileMode
		path, at string
	}{
		{0o755, file, ""}, {0o777, file, dir}, {0o777, dir, dir},
		{0o777 | fs.ModeSticky, file, ""}, {0o777 | fs.ModeSticky, dir, dir},
		{0o777, filepath.Join(dir, "none", "yet"), dir},
	} {
		sourcetest.Check(t, os.Chmod(dir, c.mode))
		e := site.ExposureOf(c.path, mine)
		sourcetest.Equal(t, e.At, c.at, c)
		sourcetest.Equal(t, e.Who != "" && strings.HasSuffix(e.Fix, "chmod o-w "+dir), c.at != "", c)
	}
	sourcetest.Check(t, os.Chmod(dir, 0o755))
	e := site.ExposureOf(file, func(info fs.FileInfo) bool { return info.Name() == "dir" })
	sourcetest.Equal(t, e, site.Exposure{At: dir, Who: disk.Owner(dir) + " owns "})
}

// Sources are those of the configuration in its order, unless a flag names others.
func TestMethods(t *testing.T) {
	const files = `
-- terraformrc --
provider_installation {
  filesystem_mirror { path = "mirror" }
  network_mirror {
    url     = "https://mirror.test/"
    include = ["example.test/*/*"]
  }
  direct { exclude = ["example.test/*/*"] }
}
`
	const others = "network mirror https://mirror.test/, the origin registry"
	const implied = "filesystem mirror DIR/terraform.d/plugins (checkout), " +
		"the origin registry without example.test/acme/widget"
	for _, c := range []struct {
		name, want string
		set        func(*site.Root)
	}{
		{"configured", "filesystem mirror DIR/mirror (checkout), " + others, func(*site.Root) {}},
		{"--plugin-dir", "filesystem mirror DIR/other (checkout)", func(m *site.Root) {
			m.PluginDirs = []string{filepath.Join(m.Dir, "other")}
		}},
		{"a place", "network mirror https://place.test/", func(m *site.Root) { m.Flags.Place.Place = "https://place.test/" }},
		{"repair", others, func(m *site.Root) { m.Repaired = filepath.Join(m.Dir, "mirror") }},
		{"implied", implied, func(m *site.Root) {
			m.Config.Implied = true
			at := filepath.Join(m.Dir, "terraform.d/plugins/example.test/acme/widget/1.0.0/linux_amd64")
			sourcetest.Check(t, os.MkdirAll(at, 0o755))
			sourcetest.Check(t, os.WriteFile(filepath.Join(at, "terraform-provider-widget"), nil, 0o755))
		}},
	} {
		m, _ := sitetest.Root(t, files, site.Options{})
		m.Config.Methods[0].Path = filepath.Join(m.Dir, "mirror")
		c.set(m)
		methods := sourcetest.Must(m.Methods(t.Context()))(t)
		var got []string
		for _, method := range methods {
			text := strings.ReplaceAll(filepath.ToSlash(fmt.Sprint(method.Source)), filepath.ToSlash(m.Dir), "DIR")
			if method.Checkout {
				text += " (checkout)"
			}
			if m.Config.Implied && len(method.Exclude) > 0 {
				p := method.Exclude[0]
				text += fmt.Sprintf(" without %s/%s/%s", p.Host, p.Namespace, p.Type)
			}
			got = append(got, text)
		}
		sourcetest.Equal(t, strings.Join(got, ", "), c.want, c.name)
	}
}

// Platforms are those of flags, else of the policy for commands that are for several, else this one.
func TestPlatforms(t *testing.T) {
	const policy = "-- .larder.hcl --\npolicy {\n  platforms = [\"windows_386\"]\n}\n"
	here := sources.CurrentPlatform().String()
	for _, c := range []struct {
		files, flag string
		declared    bool
		want        string
	}{
		{"", "", true, here}, {"", "linux_arm", true, "linux_arm"},
		{policy, "", true, "windows_386"}, {policy, "", false, here}, {policy, "linux_arm", true, "linux_arm"},
	} {
		m, _ := sitetest.Root(t, c.files, site.Options{})
		m.ForDeclared = c.declared
		if c.flag != "" {
			m.Flags.Platforms = []sources.Platform{{OS: "linux", Arch: "arm"}}
		}
		sourcetest.Equal(t, strings.Join(sources.Texts(m.Platforms()), " "), c.want, c)
	}
}

// Each field of a reading changes how a root module is read.
func TestReading(t *testing.T) {
	const widget = `
-- main.tf.json --
{"terraform": {"required_providers": {"widget": {"source": "example.test/acme/widget"}}}}
`
	const overridden = widget + `
-- terraformrc --
provider_installation { dev_overrides { "example.test/acme/widget" = "/dev" } direct {} }
`
	const locked = overridden + `
-- .terraform.lock.hcl --
provider "example.test/acme/widget" { version = "1.0.0" }
`
	const unsure = `
-- main.tf.json --
{"variable": {"v": {"const": true}}, "module": {"m": {"source": "${var.v}"}}}
-- m/main.tf --
-- .terraform/modules/modules.json --
{"Modules":[{"Key":"m","Source":"./m","Dir":"m"}]}
`
	const unread = "-- terraformrc --\ncredentials \"example.test\" { token = 1 }\n"
	const module = "-- main.tf --\nmodule \"m\" { source = \"example.test/a/b/c\" }\n"
	release := func(text string) func(context.Context, string) sources.Version {
		return func(context.Context, string) sources.Version { return sourcetest.Number(t, text) }
	}
	init := &programs.Invocation{Engine: sources.Terraform, Init: true}
	sets := &programs.Invocation{Variables: []string{"-var=v=./m"}}
	got := errors.New("get was called")
	get := func(context.Context, *site.Root, *modules.Tree, bool) error { return got }
	for _, c := range []struct {
		name, files string
		reading     site.Reading
		upgrade     bool
		want        string // requirements, unmanaged ones, error and warnings
	}{
		{"providers", widget, site.Reading{}, false, "1 0"},
		{"nothing", "", site.Reading{}, false, "nothing to do here: there is no configuration in ."},
		{"Empty", "", site.Reading{Empty: true}, false, "none"},
		{"an override", overridden, site.Reading{}, false, "0 1 warned"},
		{"a warning", widget + unread, site.Reading{}, false, "1 0 warned"},
		{"Mute", widget + unread, site.Reading{Mute: true}, false, "1 0"},
		{"Line: init installs what has a source", locked, site.Reading{Line: init}, false, "1 0"},
		{"Release: unless it is new", locked, site.Reading{Line: init, Release: release("1.15.0")}, false, "0 1"},
		{"Release: an old one", locked, site.Reading{Line: init, Release: release("1.14.9")}, false, "1 0"},
		{"missing modules", module, site.Reading{}, false, "module"},
		{"Get", module, site.Reading{Get: get}, false, got.Error()},
		{"Get has nothing to do", widget, site.Reading{Get: get}, true, "1 0"},
		{"unsure", unsure, site.Reading{}, false, "0 0 warned"},
		{"Certain", unsure, site.Reading{Certain: true}, false, "module"},
		{"Line: variables", unsure, site.Reading{Line: sets}, false, "0 0"},
	} {
		s, stderr := sitetest.Open(t, c.files, site.Options{Upgrade: c.upgrade, Offline: true})
		s.Reading = c.reading
		m := sourcetest.Must(s.Here(t.Context()))(t)
		root, err := m.Needs(t.Context())
		text, _, _ := strings.Cut(sitetest.Text(err), ";")
		switch {
		case err != nil && strings.Contains(text, "module"):
			text = "module"
		case err == nil && root == nil:
			text = "none"
		case err == nil:
			text = fmt.Sprint(len(root.Requirements), len(root.Unmanaged))
			if strings.Contains(stderr.String(), "warning") {
				text += " warned"
			}
		}
		sourcetest.Equal(t, text, c.want, c.name+": "+stderr.String()+sitetest.Text(err))
	}
}

// Root modules are those that arguments name, each once, or with -R those in them and below.
func TestRootDirs(t *testing.T) {
	const files = "-- a/main.tf --\n-- a/b/main.tf --\n-- c/x --\n"
	for _, c := range []struct {
		roots     string
		recursive bool
		exclude   string
		want      string
	}{
		{"", false, "", "."}, {"a a/../a a/b", false, "", "a a/b"}, {"", true, "", "a a/b"}, {"a/b a", true, "", "a/b a"}, {"", true, "b", "a"},
		{"c", true, "", "nothing to do here: there is no root module in c or below; name a directory that contains root modules"},
		{"", true, "[", `--exclude: "[": syntax error in pattern`},
	} {
		s, _ := sitetest.Open(t, files, site.Options{Recursive: c.recursive, Exclude: strings.Fields(c.exclude)})
		s.Roots = strings.Fields(c.roots)
		dirs, err := s.RootDirs(t.Context())
		for i := range dirs {
			dirs[i] = filepath.ToSlash(s.Shown(dirs[i]))
		}
		sourcetest.Equal(t, strings.Join(dirs, " ")+sitetest.Text(err), c.want, c)
	}
}
