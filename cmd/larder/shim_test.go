package main

import (
	"os"
	"path/filepath"
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

// Shims never run each other without end: not by links, copies, or scripts.
func TestShimsDoNotLoop(t *testing.T) {
	s := newShimmed(t, sourcetest.Engines[0])
	name := string(s.engine)
	s.mkdir("links")
	s.must(os.Symlink(s.path("shims/"+name), s.path("links/"+name)))
	s.mkdir("copies")
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
	s.chmod("scripts/"+name, 0o755)
	s.onPath(append([]string{"shims", "scripts"}, behind...)...)
	_, err := s.onPathRuns("version")
	sourcetest.Expect(t, err != nil, "a script that runs the shim that runs the script ended well")
}
