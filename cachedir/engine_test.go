package cachedir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An engine is what a release did on record in a directory, configured with a mirror and the cache.
type engine struct {
	judge              *sourcetest.Judge
	base, work, config string
}

func newEngine(t *testing.T, p sourcetest.Program, base, cache string, id sources.PackageID, f files) engine {
	t.Helper()
	tf := engine{sourcetest.NewJudge(t, p, "cache", "shared", nil), base, filepath.Join(base, "work"), filepath.Join(base, "terraformrc")}
	check(t, os.MkdirAll(tf.work, 0o755))
	mirror := filepath.Join(base, "mirror")
	archive := filepath.Join(mirror, filepath.FromSlash(id.Provider.String()),
		fmt.Sprintf("terraform-provider-%s_%s_%s.zip", id.Provider.Type, id.Version, id.Platform))
	check(t, os.MkdirAll(filepath.Dir(archive), 0o755))
	check(t, os.WriteFile(archive, f.zip(t), 0o644))
	check(t, os.WriteFile(tf.config, fmt.Appendf(nil,
		"plugin_cache_dir = %q\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", cache, mirror), 0o644))
	check(t, os.WriteFile(filepath.Join(tf.work, "main.tf"), fmt.Appendf(nil,
		"terraform {\n  required_providers {\n    it = {\n      source = %q\n      version = %q\n    }\n  }\n}\n", id.Provider, id.Version), 0o644))
	return tf
}

func (tf engine) init(t *testing.T) string {
	t.Helper()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tf.base, "TF_CLI_CONFIG_FILE=" + tf.config, "CHECKPOINT_DISABLE=1"}
	out, status := tf.judge.Run(sourcetest.EngineRun{Base: tf.base, Dir: tf.work, Env: env, Args: []string{"init", "-no-color", "-input=false"}})
	sourcetest.Require(t, status == 0, "exit status %d\n%s", status, out)
	return out
}

func (tf engine) target(id sources.PackageID) string {
	return filepath.Join(tf.work, ".terraform", "providers", filepath.FromSlash(id.Path()))
}

// Engines use packages that Larder stored, and Larder uses packages that engines
// stored.
func TestSharedWithEngines(t *testing.T) {
	sourcetest.EachProgram(t, sharedWith)
}

func sharedWith(t *testing.T, p sourcetest.Program) {
	id := widget
	id.Platform = sources.CurrentPlatform()
	base := t.TempDir()
	root := filepath.Join(base, "cache")
	check(t, os.Mkdir(root, 0o755))
	tf := newEngine(t, p, base, root, id, widgetFiles)

	// The engine unpacks the package into the cache and links its directory to it.
	tf.init(t)
	d := open(t, root, cachedir.Options{})
	s := get(t, d, id)
	sourcetest.Expect(t, s.H1 == widgetFiles.h1(t) && s.Report.Verdict == sources.Unverified, "got %+v", s)
	known, err := known(context.Background(), d, id, tf.target(id))
	sourcetest.Expect(t, err == nil && known.H1 == s.H1, "known as %+v, %v", known, err)

	// The engine requires nothing besides the package that Larder stored and linked.
	check(t, os.RemoveAll(s.Dir))
	s = put(t, d, id, widgetFiles)
	check(t, os.RemoveAll(filepath.Join(tf.work, ".terraform")))
	out := tf.init(t)
	sourcetest.Expect(t, strings.Contains(out, "the shared cache directory"), "%v", out)
	linked(t, d, s, tf.target(id))
	out = tf.init(t)
	sourcetest.Expect(t, strings.Contains(out, "Using previously-installed"), "%v", out)
	if runtime.GOOS != "windows" {
		if info, err := os.Lstat(tf.target(id)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("what the engine linked was replaced by %v, %v", info, err)
		}
	}
}
