package site

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/rogpeppe/go-internal/txtar"
)

// A choosing is a machine with a root module, repo/live/net, for which an engine is chosen.
type choosing struct {
	*Site
	t    *testing.T
	base string
}

func newChoosing(t *testing.T) *choosing {
	t.Helper()
	c := &choosing{t: t, base: t.TempDir(), Site: &Site{Output: report.New(io.Discard, io.Discard), Machine: cliconfig.This()}}
	c.Machine.Environ = []string{"PATH=" + c.path("bin")}
	c.Machine.ConfigDirs = []string{c.path("user"), c.path("site")}
	c.write("repo/.git/HEAD", "")
	c.write("repo/live/net/main.tf", "")
	return c
}

func (c *choosing) path(name string) string { return filepath.Join(c.base, filepath.FromSlash(name)) }

// write writes a file, and adds to what it had.
func (c *choosing) write(name, text string) {
	c.t.Helper()
	sourcetest.Check(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o755))
	f := sourcetest.Must(os.OpenFile(c.path(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o755))(c.t)
	sourcetest.Must(f.WriteString(text))(c.t)
	sourcetest.Check(c.t, f.Close())
}

// choose returns the choice for the root module, with paths relative to base.
func (c *choosing) choose() (Choice, error) {
	lock := c.path("repo/live/net/" + lockfile.Name)
	read, ds := lockfile.Read(lock)
	sourcetest.Check(c.t, ds.Err())
	chosen, err := c.chooseEngine(context.Background(), filepath.Dir(lock), lock, read)
	if relative, err := filepath.Rel(c.base, chosen.File); err == nil {
		chosen.File = filepath.ToSlash(relative)
	}
	return chosen, err
}

// The criteria, the strongest first. Each chooses an engine, which not every one can.
var engineCriteria = []struct {
	name   string
	reason string
	set    func(*choosing, sources.Engine)
	only   sources.Engine // that it can choose; empty if both
}{
	{"request", "LARDER_ENGINE", func(c *choosing, e sources.Engine) { c.Requested = Choice{Engine: e, Reason: "LARDER_ENGINE"} }, ""},
	{"command", "the command runs it", func(c *choosing, e sources.Engine) { c.Runs(e) }, ""},
	{"header", "the header of repo/live/net/.terraform.lock.hcl", func(c *choosing, e sources.Engine) {
		name, had := "repo/live/net/"+lockfile.Name, ""
		if text, err := os.ReadFile(c.path(name)); err == nil {
			had = string(text)
			sourcetest.Check(c.t, os.Remove(c.path(name)))
		}
		c.write(name, "# This file is maintained automatically by \""+string(e)+" init\".\n"+had)
	}, ""},
	{"hosts", "the registry in repo/live/net/.terraform.lock.hcl", func(c *choosing, e sources.Engine) {
		c.write("repo/live/net/"+lockfile.Name, "provider \""+string(e.DefaultHost())+"/acme/widget\" {\n  version = \"1.0.0\"\n}\n")
	}, ""},
	{"checkout's setting", "the setting in repo/.larder.hcl", func(c *choosing, e sources.Engine) { c.write("repo/.larder.hcl", "engine = \""+string(e)+"\"\n") }, ""},
	{"own setting", "the setting in site/larder/config.hcl", func(c *choosing, e sources.Engine) {
		c.write("site/larder/config.hcl", "keep_archives_mb = 5\nengine = \""+string(e)+"\"\n")
	}, ""},
	{"version file", "the version in", func(c *choosing, e sources.Engine) {
		file := map[sources.Engine]string{sources.Terraform: ".terraform-version", sources.OpenTofu: ".opentofu-version"}[e]
		c.write("repo/live/"+file, "1.2.3\n")
	}, ""},
	{"PATH", "is on PATH", func(c *choosing, e sources.Engine) { c.write("bin/"+c.Machine.ProgramFile(string(e)), "#!/bin/sh\n") }, ""},
	{"files", "only OpenTofu reads some of the files", func(c *choosing, _ sources.Engine) { c.write("repo/live/net/other.tofu", "") }, sources.OpenTofu},
}

// Each criterion chooses an engine, and any stronger criterion the other one.
func TestEngineCriteria(t *testing.T) {
	for i, weak := range engineCriteria {
		for _, e := range BothEngines {
			if weak.only != "" && weak.only != e {
				continue
			}
			t.Run(weak.name+" "+string(e), func(t *testing.T) {
				c := newChoosing(t)
				weak.set(c, e)
				got := sourcetest.Must(c.choose())(t)
				reason := got.Because()
				sourcetest.Expect(t, got.Engine == e && !got.Assumed && strings.Contains(reason, weak.reason), "got %s: %s", got.Engine, reason)
			})
			for _, strong := range engineCriteria[:i] {
				other := sources.Terraform
				if e == other {
					other = sources.OpenTofu
				}
				t.Run(strong.name+" before "+weak.name+" "+string(e), func(t *testing.T) {
					c := newChoosing(t)
					strong.set(c, other)
					weak.set(c, e)
					got := sourcetest.Must(c.choose())(t)
					sourcetest.Expect(t, got.Engine == other && strings.Contains(got.Because(), strong.reason), "got %s: %s", got.Engine, got.Because())
				})
			}
		}
	}
}

// Files that decide the engine, or don't, beside repo/.git and repo/live/net/main.tf.
func TestEngineFiles(t *testing.T) {
	const tofu = "engine = \"tofu\"\n"
	locked := func(host string) string { return "provider \"" + host + "/a/b\" {\n  version = \"1.0.0\"\n}\n" }
	for _, tt := range []struct {
		name  string
		files string // in the txtar format
		want  string // engine and file, or an error; empty if nothing decides
	}{
		{"nothing", "", ""},

		{"setting here", "-- repo/live/net/.larder.hcl --\n" + tofu, "tofu repo/live/net/.larder.hcl"},
		{"nearest setting", "-- repo/.larder.hcl --\n" + tofu + "-- repo/live/.larder.hcl --\nengine = \"terraform\"\n", "terraform repo/live/.larder.hcl"},
		{"empty setting file", "-- repo/.larder.hcl --\n" + tofu + "-- repo/live/.larder.hcl --\n", "tofu repo/.larder.hcl"},
		{"setting above the repository", "-- .larder.hcl --\n" + tofu, ""},
		{"setting of a repository above", "-- .git/HEAD --\n-- .larder.hcl --\n" + tofu, ""},
		{"invalid setting file", "-- repo/.larder.hcl --\nx = 1\n", `repo/.larder.hcl:1:1: unknown setting "x"`},
		{"invalid setting file beside a lock file", "-- repo/.larder.hcl --\nx = 1\n-- repo/live/net/.terraform.lock.hcl --\n" + locked("registry.terraform.io"), `repo/.larder.hcl:1:1: unknown setting "x"`},
		{"invalid setting file above the nearest", "-- repo/.larder.hcl --\nx = 1\n-- repo/live/.larder.hcl --\n" + tofu, `repo/.larder.hcl:1:1: unknown setting "x"`},

		{"version", "-- repo/.opentofu-version --\n", "tofu repo/.opentofu-version"},
		{"nearest version", "-- repo/.opentofu-version --\n-- repo/live/.terraform-version --\n", "terraform repo/live/.terraform-version"},
		{"versions of both", "-- repo/.opentofu-version --\n-- repo/.terraform-version --\n", ""},
		{"nearest versions of both", "-- repo/.opentofu-version --\n-- repo/live/.terraform-version --\n-- repo/live/.opentofu-version --\n", ""},
		{"asdf", "-- repo/.tool-versions --\nnodejs 1\nopentofu 1.2.3\n", "tofu repo/.tool-versions"},
		{"asdf for terraform", "-- repo/.tool-versions --\n#opentofu 1\n\tterraform 1.2.3 system # both\n", "terraform repo/.tool-versions"},
		{"asdf for both", "-- repo/.tool-versions --\nopentofu 1\nterraform 1\n", ""},
		{"asdf for others", "-- repo/.tool-versions --\nopentofu 1\n-- repo/live/.tool-versions --\nnodejs 1\nterraform\nterraform-ls 1\n", "tofu repo/.tool-versions"},
		{"asdf and another", "-- repo/.tool-versions --\nopentofu 1\n-- repo/.terraform-version --\n", ""},
		{"large file of asdf", "-- repo/.tool-versions --\nopentofu 1\n" + strings.Repeat("#", maxToolVersions), ""},
		{"version above the repository", "-- .opentofu-version --\n", ""},

		{"twins", "-- repo/live/net/main.tofu --\n", ""},
		{"files below", "-- repo/live/net/sub/a.tofu --\n", ""},
		{"hosts of both", "-- repo/live/net/.terraform.lock.hcl --\n" + locked("registry.terraform.io") + locked("registry.opentofu.org"), ""},
		{"other hosts", "-- repo/live/net/.terraform.lock.hcl --\n" + locked("example.test"), ""},
		{"both engines on PATH", "-- bin/terraform --\n-- bin/tofu --\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newChoosing(t)
			for _, f := range txtar.Parse([]byte(tt.files)).Files {
				c.write(f.Name, string(f.Data))
			}
			switch got, err := c.choose(); {
			case err != nil:
				sourcetest.Equal(t, strings.TrimPrefix(filepath.ToSlash(err.Error()), filepath.ToSlash(c.base)+"/"), tt.want)
			case tt.want == "":
				sourcetest.Expect(t, got.Assumed && got.Engine == sources.Terraform, "got %+v", got)
			default:
				sourcetest.Equal(t, string(got.Engine)+" "+got.File, tt.want)
			}
		})
	}
}

// Without a repository, only the directory of the root module says something.
func TestEngineOutsideRepositories(t *testing.T) {
	c := newChoosing(t)
	sourcetest.Check(t, os.RemoveAll(c.path("repo/.git")))
	c.write("repo/live/.larder.hcl", "x = 1\n")
	c.write("repo/live/.opentofu-version", "1\n")
	got, err := c.choose()
	sourcetest.Expect(t, err == nil && got.Assumed, "got %+v, %v", got, err)
	c = newChoosing(t)
	sourcetest.Check(t, os.RemoveAll(c.path("repo/.git")))
	c.write("repo/live/net/.opentofu-version", "1\n")
	got, err = c.choose()
	sourcetest.Expect(t, err == nil && got.Engine == sources.OpenTofu, "got %+v, %v", got, err)
}

// Links to larder, and files that can't be run, are no engines.
func TestEnginesOnPath(t *testing.T) {
	sourcetest.SkipOnWindows(t, "programs have other names")
	own := sourcetest.Must(os.Executable())(t)
	c := newChoosing(t)
	c.write("bin/tofu", "#!/bin/sh\n")
	c.Machine.Environ = []string{"PATH=" + strings.Join([]string{c.path("links"), c.path("data"), c.path("bin")}, ":")}
	c.write("data/terraform", "")
	sourcetest.Check(t, os.Chmod(c.path("data/terraform"), 0o644))
	sourcetest.Check(t, os.Mkdir(c.path("links"), 0o755))
	for _, e := range BothEngines {
		sourcetest.Check(t, sourcetest.Symlink(t, own, c.path("links/"+string(e))))
	}
	sourcetest.EqualSlices(t, c.EnginesOnPath(), []sources.Engine{sources.OpenTofu})
}
