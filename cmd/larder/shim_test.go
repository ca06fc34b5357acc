package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A shimmed is a workplace with shims in front of an engine on PATH.
type shimmed struct {
	*workplace
	larder string // path
}

func newShimmed(t *testing.T, engine sources.Engine) *shimmed {
	t.Helper()
	s := &shimmed{workplace: newWorkplace(t, engine, "direct {}")}
	s.larder = sourcetest.Larder(t)
	out, err := s.run(nil, s.larder, "shim", s.path("shims"))
	s.must(err)
	sourcetest.Expect(t, strings.Contains(out, "export PATH="+s.path("shims")+":"), "the first run says\n%s", out)
	s.onPath("shims", filepath.Dir(s.terraform), "/usr/bin", "/bin")
	return s
}

// onPath sets PATH to directories.
func (s *shimmed) onPath(dirs ...string) {
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dirs[i] = s.path(dir)
		}
	}
	s.env = append(s.env, "PATH="+strings.Join(dirs, ":"))
}

// onPathRuns runs the engine that PATH has first.
func (s *shimmed) onPathRuns(args ...string) (string, error) {
	return s.run(nil, "/usr/bin/env", append([]string{string(s.engine)}, args...)...)
}

// Programs that run the engine by its name or the path of the shim run larder first.
func TestShim(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		s := newShimmed(t, engine)
		out, err := s.run([]string{"LARDER_SHIM_OUTPUT=normal"}, "/usr/bin/env", string(engine), "init", "-no-color")
		s.must(err)
		sourcetest.Expect(t, strings.Contains(out, "Installed 1 provider") && strings.Contains(out, "Using previously-installed example.test/acme/widget"), "init says\n%s", out)

		s.world.Registry.Forget()
		out, err = s.run(nil, s.path("shims/"+string(engine)), "init")
		s.must(err)
		sourcetest.Expect(t, strings.Contains(out, "successfully initialized"), "init says\n%s", out)
		sourcetest.Equal(t, len(s.world.Registry.Requests()), 0, "requests")

		out, err = s.onPathRuns("version")
		s.must(err)
		sourcetest.Expect(t, strings.Contains(strings.ToLower(out), string(engine)[:4]), "version says\n%s", out)

		s.write("documents/"+string(engine), "not executable")
		s.onPath("shims", "documents", filepath.Dir(s.terraform), "/usr/bin", "/bin")
		_, err = s.onPathRuns("version")
		s.must(err)

		// Terragrunt sets the token of its cache for engines, whether its flag or its variable is set.
		for _, env := range []string{"TG_PROVIDER_CACHE=true", "TF_TOKEN_example_test=x-api-key:52e3f6e5-8c6e-4b0e-9d0a-1f2d6f0c7a11"} {
			_, err = s.run([]string{env}, s.path("shims/"+string(engine)), "init")
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "terragrunt's provider cache") && strings.Contains(err.Error(), "hint: turn the provider cache off"), "with %s: %v", env, err)
		}
	})
}

// A shim prints warnings and errors only, to standard error, unless the environment says otherwise.
func TestShimOutput(t *testing.T) {
	s := newShimmed(t, sourcetest.Engines[0])
	s.env = append(s.env, "TF_REGISTRY_CLIENT_TIMEOUT=soon", "LARDER_CHDIR=elsewhere", "LARDER_JSON=1")
	const warning, summary, step = "larder: warning: TF_REGISTRY_CLIENT_TIMEOUT", "Installed 1 provider", "widget 1.2.0: chosen"
	for _, tt := range []struct {
		env  string
		want []string
	}{
		{"", []string{warning}},
		{"LARDER_SHIM_OUTPUT=", []string{warning}},
		{"LARDER_SHIM_OUTPUT=warnings", []string{warning}},
		{"LARDER_SHIM_OUTPUT=normal", []string{warning, summary}},
		{"LARDER_SHIM_OUTPUT=verbose", []string{warning, summary, step}},
		{"LARDER_VERBOSE=1", []string{warning, summary, step}},
		{"LARDER_QUIET=1", nil},
	} {
		s.must(os.RemoveAll(filepath.Join(s.dir, ".terraform")))
		out, err := s.run([]string{tt.env}, "/bin/sh", "-c", "terraform init -no-color 2>&1 >engine")
		s.must(err)
		for _, text := range []string{warning, summary, step} {
			sourcetest.Equal(t, strings.Contains(out, text), slices.Contains(tt.want, text), tt.env+": prints "+text+":\n"+out)
		}
		sourcetest.Expect(t, len(tt.want) > 1 || strings.Count(out, "\n") == len(tt.want), "%s: prints\n%s", tt.env, out)
		engine := string(sourcetest.ReadFile(t, filepath.Join(s.dir, "engine")))
		sourcetest.Expect(t, strings.HasPrefix(engine, "Initializing"), "%s: standard output is\n%s", tt.env, engine)
	}
	_, err := s.run([]string{"LARDER_SHIM_OUTPUT=loud"}, s.path("shims/terraform"), "init")
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), `LARDER_SHIM_OUTPUT is warnings, normal or verbose, not "loud"`), "an unknown value: %v", err)
}

// Shims never run each other without end: not by links, copies, or scripts.
func TestShimsDoNotLoop(t *testing.T) {
	s := newShimmed(t, sourcetest.Engines[0])
	name := string(s.engine)
	s.must(os.MkdirAll(s.path("links"), 0o755))
	s.must(os.Symlink(s.path("shims/"+name), s.path("links/"+name)))
	s.must(os.MkdirAll(s.path("copies"), 0o755))
	s.must(os.Rename(sourcetest.Larder(t), s.path("copies/"+name)))
	behind := []string{filepath.Dir(s.terraform), "/usr/bin", "/bin"}
	for _, dirs := range [][]string{
		{"shims", "shims"}, {"links", "shims"}, {"shims", "links"}, {"copies", "shims"}, {"shims", "copies"}, {"copies", "links", "shims", "copies"},
	} {
		s.onPath(append(dirs, behind...)...)
		out, err := s.onPathRuns("version")
		s.must(err)
		sourcetest.Expect(t, strings.HasPrefix(out, "Terraform v"), "%v: version says\n%s", dirs, out)
	}
	for _, dirs := range [][]string{{"shims"}, {"copies", "shims"}, {"links", "copies"}} {
		s.onPath(append(dirs, "/bin")...)
		out, err := s.onPathRuns("version")
		sourcetest.Expect(t, err != nil && strings.Contains(out, "PATH has no "+name+" besides larder's link"), "%v: version says\n%s", dirs, out)
	}

	// A script that runs the engine of the PATH has itself in front of it.
	s.write("scripts/"+name, "#!/bin/sh\n"+name+" \"$@\"\n")
	s.must(os.Chmod(s.path("scripts/"+name), 0o755))
	s.onPath(append([]string{"shims", "scripts"}, behind...)...)
	_, err := s.onPathRuns("version")
	sourcetest.Expect(t, err != nil, "a script that runs the shim that runs the script ended well")
}
