package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// hostileConfig has every block of a CLI configuration. The network mirror does not exist.
const hostileConfig = `
plugin_cache_dir   = "%[1]s"
disable_checkpoint = true
credentials "example.test" {
  token = "secret"
}
host "unused.test" {
  services = { "modules.v1" = "https://unused.test/" }
}
provider_installation {
  dev_overrides {
    "example.test/acme/developed" = "%[1]s"
  }
  filesystem_mirror {
    path    = "%[1]s-mirror"
    include = ["example.test/acme/mirrored"]
  }
  network_mirror {
    url     = "https://unused.test/"
    include = ["unused.test/*/*"]
  }
  direct {
    exclude = ["unused.test/*/*"]
  }
}
`

// Init, plan and apply work without a network in many root modules, with each engine, whatever
// the user's environment and configuration have.
func TestExecWithoutANetwork(t *testing.T) {
	if exec.Command("unshare", "-rn", "true").Run() != nil {
		t.Skip("no network namespaces can be made here")
	}
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		n := len(sourcetest.Sample(t, 100, 3))
		w := newWorkplace(t, engine, "direct {}")
		text, err := os.ReadFile(w.path("root/main.tf"))
		w.must(err)
		for i := range n {
			w.write(fmt.Sprintf("root/live/%d/main.tf", i), string(text))
		}
		w.must(os.Remove(w.path("root/main.tf")))
		cache := w.path("it's a \"cache\" with $HOME")
		w.must(os.MkdirAll(cache, 0o755))
		w.must(os.MkdirAll(cache+"-mirror", 0o755))
		w.write("hostile.tfrc", fmt.Sprintf(hostileConfig, strings.ReplaceAll(cache, `"`, `\"`)))
		w.write("home", "a file instead of a directory")
		w.env = append(w.env,
			"TF_CLI_CONFIG_FILE="+w.path("hostile.tfrc"), "TF_PLUGIN_CACHE_DIR="+cache, "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=true",
			"XDG_STATE_HOME="+w.path("state; of 'mine'"), "TF_DATA_DIR=.odd data", "TF_INPUT=0", "TF_IN_AUTOMATION=1", "TF_WORKSPACE=default",
			"TF_CLI_ARGS=-no-color", "TF_CLI_ARGS_init=-backend=true -get=true", "TF_REGISTRY_CLIENT_TIMEOUT=soon", "TF_APPEND_USER_AGENT=x", "TF_LOG=off")
		_, err = w.run(nil, "larder", "--engine", string(engine), "exec", "-R", "--", "true")
		w.must(err)

		// All root modules at once.
		script := `for d in live/*; do (cd "$d" && "$0" init >out 2>&1 || echo "$d: $(cat out)") & done; wait`
		out, err := w.run(nil, "unshare", "-rn", "larder", "--engine", string(engine), "exec", "-R", "--", "sh", "-c", script, string(engine))
		w.must(err)
		sourcetest.Expect(t, !strings.Contains(out, "live/"), "init fails in\n%s", out)

		// One by one, from views of their own.
		for i := range min(n, 20) {
			for _, args := range [][]string{{"init"}, {"plan", "-out=plan"}, {"apply", "plan"}} {
				line := append([]string{"-rn", "larder", "exec", "--", w.terraform, fmt.Sprintf("-chdir=live/%d", i)}, args...)
				out, err := w.run(nil, "unshare", line...)
				w.must(err)
				if args[0] == "apply" {
					sourcetest.Expect(t, strings.Contains(out, "1 added"), "apply says\n%s", out)
				}
			}
		}
		dangling, err := exec.Command("find", w.base, "-xtype", "l").Output()
		w.must(err)
		sourcetest.Equal(t, string(dangling), "", "links that lead nowhere")
	})
}

// Larder changes nothing before a command line that the engine refuses because of its words or flags, or answers itself.
func TestExecOfRefusedCommandLines(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		w := newWorkplace(t, engine, "direct {}")
		lines := []string{
			"init -version", "init -help", "-version init", "-help init", "-no-color init", "-chdir init", "-chdir=. -chdir=. init",
			"init net", "init -upgrade -- x", "init -upgrade -nosuch", "init -plugin-dir=",
		}
		for _, line := range append(lines, "") {
			w.env = append(w.env, "TF_CLI_ARGS_init=-upgrade")
			if line == "" {
				line, w.env = "init", append(w.env, "TF_CLI_ARGS_init=-upgrade net")
			}
			out, err := w.run(nil, "larder", append([]string{"exec", "--", w.terraform}, strings.Fields(line)...)...)
			answered := strings.Contains(line, "-version") || strings.Contains(line, "-help")
			sourcetest.Expect(t, (err == nil) == answered, "%s: %v", line, err)
			sourcetest.Expect(t, !strings.Contains(out, "larder: "), "%s: larder prints\n%s", line, out)
			for _, name := range []string{"root/.terraform", "root/.terraform.lock.hcl", "home/.cache/larder"} {
				_, err := os.Lstat(w.path(name))
				sourcetest.Expect(t, os.IsNotExist(err), "%s: there is %s", line, name)
			}
		}
		sourcetest.Equal(t, len(w.world.Registry.Requests()), 0, "requests")
	})
}

// Processes that change the same view at the same time leave one that is complete.
func TestExecConcurrently(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		w := newWorkplace(t, engine, "direct {}")
		w.env = append(w.env, "XDG_STATE_HOME="+w.path("state"))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if out, err := w.run(nil, "larder", "exec", "--", "sh", "-c", string(engine)+" init"); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		all.Wait()
		links, err := filepath.Glob(w.path("state/larder/exec/*/providers/*/*/*/*/*"))
		w.must(err)
		sourcetest.Equal(t, len(links), 1, "links in the view")
	})
}
