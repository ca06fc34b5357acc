package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// requiringFlags are arguments of init that change what it requires, or where it looks for that.
var requiringFlags = [][]string{
	nil, {"-upgrade"}, {"-backend=false"}, {"-get=false"}, {"-reconfigure"}, {"-test-directory=others"},
	{"-lockfile=readonly"}, {"-backend-config=path=other.tfstate"},
	{"-backend-config=path=other.tfstate", "-migrate-state", "-force-copy"},
	{"-var=mod=other"}, {"-var-file=other.tfvars"}, {"-plugin-dir=../mirror"}, {"-json"},
}

// unhashed is what larder exec refuses with a lock file that must not change, and engines accept.
const unhashed = "the lock file has no hash of the installed package"

// TestConfinedInitSucceeds runs init with and without larder exec in situations of the generator, to which modules,
// tests and states with other providers are added. Where it succeeds alone, it succeeds below larder exec.
func TestConfinedInitSucceeds(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, e sources.Engine) {
		program := sourcetest.OnPath(t, string(e))
		succeeded, computes := 0, e == sources.OpenTofu
		for _, p := range releasesOnPath() {
			var minor int
			_, err := fmt.Sscanf(p.Version, "1.%d", &minor)
			sourcetest.Check(t, err)
			computes = computes || p.Engine == e && minor >= 15
		}
		for _, trial := range sourcetest.Sample(t, 400*len(requiringFlags), 2*len(requiringFlags)) {
			flags := requiringFlags[trial%len(requiringFlags)]
			c := &comparison{scene: newScene(t, alsoRequires(generate(uint64(trial/len(requiringFlags)), e), computes))}
			c.keep("pristine")
			c.publishAll(true)
			init := append([]string{program}, append(c.engineArgs(false), flags...)...)
			want := c.confined(init)
			if want.status != 0 {
				continue
			}
			succeeded++
			got := c.confined(append([]string{"larder", "exec", "--"}, init...))
			excuse := excused(t, excusesFor(c.situation, want, got))
			sourcetest.Expect(t, got.status == 0 || excuse != "" || strings.Contains(got.output, unhashed),
				"trial %d, %q: init fails below larder exec:\n%s\nalone:\n%s\n%s",
				trial, flags, got.output, want.output, c.situation)
		}
		t.Logf("%d trials in which init succeeds alone", succeeded)
	})
}

// alsoRequires adds what the arguments in requiringFlags lead to: each requires a provider of the situation that may
// not be required otherwise.
func alsoRequires(s *situation, computes bool) *situation {
	s.Prior, s.Forgot = "", nil
	if len(s.Releases) == 0 {
		return s
	}
	provider := s.Releases[len(s.Releases)-1].Provider
	module := "terraform {\n  required_providers {\n    other = {\n      source = \"" + provider + "\"\n    }\n  }\n}\n"
	state, _ := json.Marshal(map[string]any{
		"version": 4, "terraform_version": "1.0.0", "serial": 1, "lineage": "other", "resources": []any{map[string]any{
			"mode": "managed", "type": "other_thing", "name": "a", "provider": `provider["` + provider + `"]`,
			"instances": []any{},
		}},
	})
	for name, text := range map[string]string{
		"mods/default/main.tf": "", "mods/other/main.tf": module, "other.tfvars": "mod = \"other\"\n",
		"other.tfstate": string(state), "others/setup/main.tf": module,
		"others/a.tftest.hcl": "run \"a\" {\n  module {\n    source = \"./others/setup\"\n  }\n}\n",
	} {
		s.Files["work/"+name] = text
	}
	if s.Files["work/backend.tf"] == "" {
		s.Files["work/backend.tf"] = "terraform {\n  backend \"local\" {}\n}\n"
	}
	if s.Seed%2 == 0 && computes {
		s.Files["work/computed.tf"] = "variable \"mod\" {\n  const = true\n  default = \"default\"\n}\n" +
			"module \"computed\" {\n  source = \"./mods/${var.mod}\"\n}\n"
	}
	return s
}

// confined returns the result of a program in the initial state.
func (c *comparison) confined(line []string) outcome {
	c.restore("pristine")
	c.spoil()
	dir, env := c.surroundings()
	cmd := exec.CommandContext(c.t.Context(), line[0], line[1:]...)
	cmd.Dir, cmd.Env = dir, append(env, "XDG_STATE_HOME="+filepath.Join(c.dir, "state"))
	out, _ := cmd.CombinedOutput()
	return c.result(string(out), cmd.ProcessState.ExitCode())
}
