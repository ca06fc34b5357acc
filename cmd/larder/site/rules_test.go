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

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/installer"
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
	patterns, err := s.ReadPatterns([]string{"aws", "acme/wigdet", "nothing"})
	sourcetest.Check(t, err)
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

// A place is a URL with a scheme that Larder knows. Only a bucket has an endpoint, and a mirror's directory is none.
func TestPlaces(t *testing.T) {
	for typed, want := range map[string]string{
		"s3://b/p": site.InBucket, "OCI://h/${namespace}/${type}": site.InOCI, "https://h/": "https", "http://h/": "http",
		"ftp://h/": "", "dir": "", "./s3:/b": "",
	} {
		sourcetest.Equal(t, site.SchemeOf(typed), want, typed)
		sourcetest.Equal(t, site.DirectoryOnly(typed) != nil, want != "", typed)
		sourcetest.Equal(t, site.CheckEndpoint("https://s3.test", "dir", typed) == nil, want == site.InBucket, typed)
		sourcetest.Check(t, site.CheckEndpoint("", typed))
	}
	sourcetest.Expect(t, site.CheckEndpoint("s3.test", "s3://b") != nil, "an endpoint is a URL")
	_, err := site.ParseOCI("oci://h/${namespace}/${type}")
	sourcetest.Check(t, err)
	for typed, quotes := range map[string]bool{"oci://h/": true, "oci://h/a//x": true, "oci://h/a/${x}/": false} {
		_, err := site.ParseOCI(typed)
		sourcetest.Require(t, err != nil, "%s is no template", typed)
		sourcetest.Equal(t, strings.Contains(strings.Join(sources.Hints(err), ""), "single quotes"), quotes, typed)
	}
}

// Paths are read from the working directory, and shown as they work where the user typed the command.
func TestPaths(t *testing.T) {
	s, _ := sitetest.Open(t, "-- dir/file --\n", site.Options{Config: "c.rc"})
	sourcetest.Equal(t, s.Flags.Config, filepath.Join(s.WorkDir, "c.rc"))
	for _, c := range []struct {
		typed string
		kind  site.PathKind
		want  string
	}{
		{"dir", site.Directory, ""}, {"dir", site.FileOrDir, ""}, {"dir", site.File, "dir is a directory, not a file"},
		{"dir/file", site.File, ""}, {"dir/file", site.Directory, "dir/file is not a directory"},
		{"none", site.FileOrDir, "there is no file or directory none"},
	} {
		path, err := site.Existing(s.WorkDir, c.typed, c.kind, "the %s", "hint")
		sourcetest.Equal(t, path, filepath.Join(s.WorkDir, c.typed))
		sourcetest.Equal(t, errorText(err), c.want)
		sourcetest.Equal(t, strings.Join(sources.Hints(err), ""), strings.Repeat("the hint", min(1, len(c.want))))
	}
	outside := filepath.Dir(s.WorkDir)
	sourcetest.Equal(t, s.Shown(filepath.Join(s.WorkDir, "dir")), "dir")
	sourcetest.Equal(t, s.Shown(outside), outside)
	for word, want := range map[string]string{"a/b-1.2@x": "a/b-1.2@x", "a b": "'a b'", "$x": "'$x'"} {
		sourcetest.Equal(t, site.ShellQuoted(word), want)
	}
	for path, want := range map[string]bool{"/a/b": true, "/a": true, "/ab": false, "/": false} {
		sourcetest.Equal(t, site.IsBelow(path, "/a"), want, path)
	}
}

// errorText returns the text of an error, or "".
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
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
		{"a place", "network mirror https://place.test/", func(m *site.Root) { m.Place.Place = "https://place.test/" }},
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
		methods, err := m.Methods(t.Context())
		sourcetest.Check(t, err)
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
-- main.tf --
terraform {
  required_providers {
    widget = { source = "example.test/acme/widget" }
  }
}
`
	const overridden = widget + `
-- terraformrc --
provider_installation {
  dev_overrides { "example.test/acme/widget" = "/dev" }
  direct {}
}
`
	const locked = overridden + `
-- .terraform.lock.hcl --
provider "example.test/acme/widget" {
  version = "1.0.0"
}
`
	const unsure = `
-- main.tf --
variable "v" {
  const = true
}
module "m" {
  source = "${var.v}"
}
-- m/main.tf --
-- .terraform/modules/modules.json --
{"Modules":[{"Key":"m","Source":"./m","Dir":"m"}]}
`
	const unread = "-- terraformrc --\ncredentials \"example.test\" {\n  token = 1\n}\n"
	const module = "-- main.tf --\nmodule \"m\" {\n  source = \"example.test/a/b/c\"\n}\n"
	release := func(text string) func(context.Context, string) sources.Version {
		return func(context.Context, string) sources.Version { return sourcetest.Number(t, text) }
	}
	init := &cliconfig.Invocation{Engine: sources.Terraform, Init: true}
	sets := &cliconfig.Invocation{Variables: []string{"-var=v=./m"}}
	got := errors.New("get was called")
	get := func(context.Context, *site.Root, *modules.Tree, bool) error { return got }
	for _, c := range []struct {
		name, files string
		reading     site.Reading
		upgrade     bool
		want        string // requirements, unmanaged ones, error and warnings
	}{
		{"providers", widget, site.Reading{}, false, "1 0"},
		{"nothing", "", site.Reading{}, false, "there is no configuration in ."},
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
		m, err := s.Here(t.Context())
		sourcetest.Check(t, err)
		root, err := m.Needs(t.Context())
		text := errorText(err)
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
		sourcetest.Equal(t, text, c.want, c.name+": "+stderr.String()+errorText(err))
	}
}

// Of the engine's command line, what decides about modules counts.
func TestLoadOptions(t *testing.T) {
	m, _ := sitetest.Root(t, "", site.Options{})
	m.Reading.Line = &cliconfig.Invocation{TestDir: "t", NoBackend: true, Variables: []string{"-var=a=b"}}
	opts := m.LoadOptions(t.Context())
	got := fmt.Sprintln(opts.TestDir, opts.NoBackend, opts.KeepModules, opts.Here, opts.DeclaredOnly, opts.Inputs.Flags)
	sourcetest.Equal(t, got, "t true false true false [-var=a=b]\n")
	m.Reading.Line.KeepModules = true
	sourcetest.Expect(t, m.LoadOptions(t.Context()).KeepModules, "the engine gets no modules")
	m.Reading.Line.Wrapper = true
	sourcetest.Expect(t, !m.LoadOptions(t.Context()).Here, "Terragrunt may run the engine elsewhere")
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
		{"", false, "", "."}, {"a a/../a a/b", false, "", "a a/b"}, {"", true, "", "a a/b"}, {"a/b a", true, "", "a/b a"},
		{"", true, "b", "a"}, {"c", true, "", "there is no root module in c or below"},
		{"", true, "[", `--exclude: "[": syntax error in pattern`},
	} {
		s, _ := sitetest.Open(t, files, site.Options{Recursive: c.recursive, Exclude: strings.Fields(c.exclude)})
		s.Roots = strings.Fields(c.roots)
		dirs, err := s.RootDirs(t.Context())
		for i := range dirs {
			dirs[i] = filepath.ToSlash(s.Shown(dirs[i]))
		}
		sourcetest.Equal(t, strings.Join(dirs, " ")+errorText(err), c.want, c)
	}
}

// The hint about missing modules is one command for all root modules that were searched for.
func TestMissingModules(t *testing.T) {
	const get = "install the modules of this configuration"
	const searched = "install the modules and providers of all root modules"
	for _, c := range []struct {
		opts site.Options
		dir  string
		want string
	}{
		{site.Options{}, ".", `run "terraform get" to ` + get},
		{site.Options{}, "a", `run "terraform -chdir=a get" to ` + get},
		{
			site.Options{Recursive: true, Exclude: []string{"x y"}}, "a",
			`run "larder exec -R --exclude 'x y' -- true" to ` + searched,
		},
	} {
		s, _ := sitetest.Open(t, "-- a/main.tf --\n", c.opts)
		_, err := s.RootDirs(t.Context())
		sourcetest.Check(t, err)
		m, err := s.Root(t.Context(), filepath.Join(s.WorkDir, c.dir), s.Output)
		sourcetest.Check(t, err)
		hints := sources.Hints(m.Missing(sources.Diagnostics{{Text: "module.m is missing"}}))
		sourcetest.Equal(t, strings.ReplaceAll(strings.Join(hints, "; "), "cmd /c rem", "true"), c.want)
		sourcetest.Check(t, m.Missing(nil))
	}
}

// The repository is the checkout, and what it reaches through links is part of it. A home directory is none.
func TestCheckout(t *testing.T) {
	sourcetest.RequireSymlinks(t)
	s, _ := sitetest.Open(t, "-- live/net/main.tf --\n-- mirror/x --\n", site.Options{})
	m, err := s.Root(t.Context(), filepath.Join(s.WorkDir, "live", "net"), s.Output)
	sourcetest.Check(t, err)
	outside := t.TempDir()
	sourcetest.Check(t, os.Symlink(outside, filepath.Join(m.Dir, "link")))
	sourcetest.Equal(t, m.Checkout(), s.WorkDir)
	for path, want := range map[string]bool{
		"x": true, "../../mirror": true, "link": true, "link/x": true, outside: false, s.WorkDir: true,
	} {
		sourcetest.Equal(t, m.CheckedOut(path), want, path)
	}
	for path, want := range map[string]bool{filepath.Join(m.Dir, "link"): true, m.Dir: false, outside: false} {
		sourcetest.Equal(t, m.IsLinked(path), want, path)
	}
	m.Machine.Home = s.WorkDir
	sourcetest.Equal(t, m.Checkout(), m.Dir, "the repository is the home directory")
}

// Errors about versions and providers suggest the nearest.
func TestSuggestions(t *testing.T) {
	m, _ := sitetest.Root(t, "", site.Options{Offline: true})
	m.PluginDirs = []string{m.Dir}
	var offered []sources.Version
	for _, v := range []string{"2.1.0-rc1", "2.0.0", "1.2.0", "1.1.0"} {
		offered = append(offered, sourcetest.Number(t, v))
	}
	for typed, want := range map[string]string{
		"1.1.9": `did you mean "1.1.0"? The newest version is 2.0.0`,
		"0.9.0": `did you mean "1.1.0"? The newest version is 2.0.0`,
		"3.0.0": "the newest version is 2.0.0",
	} {
		r, err := sources.ParseRequirement("example.test/acme/widget@"+typed, sources.Terraform)
		sourcetest.Check(t, err)
		hints := sources.Hints(m.Explain(&installer.NoVersionError{Requirement: r, Offered: offered}))
		sourcetest.Equal(t, strings.Join(hints, "; "), want, typed)
	}
	known := []sources.Provider{sourcetest.Address(t, "example.test/acme/widget")}
	for typed, want := range map[string]string{
		"example.test/acme/wigdet":            "example.test/acme/widget",
		"registry.terrafrom.io/hashicrop/aws": "registry.terraform.io/hashicorp/aws",
		"example.test/acme/other":             "", "example.test/acme/widget": "",
	} {
		got := ""
		if near := site.NearestProvider(sourcetest.Address(t, typed), known); near != nil {
			got = near.String()
		}
		sourcetest.Equal(t, got, want, typed)
	}
}

// Each hint is shown once, and not too many.
func TestAddHints(t *testing.T) {
	all := site.AddHints([]string{"a"}, []string{"a", "b"})
	sourcetest.EqualSlices(t, all, []string{"a", "b"})
	for i := range 20 {
		all = site.AddHints(all, []string{fmt.Sprint(i)})
	}
	sourcetest.Equal(t, len(all), 8)
}

// A key of --trust-key that signed nothing is an error, unless there was nothing to sign.
func TestUnusedKeys(t *testing.T) {
	used, unused := sources.Fingerprint(strings.Repeat("A", 40)), sources.Fingerprint(strings.Repeat("B", 40))
	s, _ := sitetest.Open(t, "", site.Options{TrustKeys: []sources.Fingerprint{used, unused}})
	sourcetest.Check(t, s.UnusedKeys())
	signed := sources.Stored{ID: sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64")}
	signed.Report.By = []sources.SignedBy{{Fingerprint: used}}
	s.Signers.Saw(signed)
	sourcetest.Equal(t, errorText(s.UnusedKeys()), "--trust-key "+string(unused)+": the key did not sign the package")
}
