package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// In every situation in which larder install succeeds, larder explain has said before which version it locks, and has
// changed nothing. If no version or no package can be chosen, larder explain has said so.
func TestExplainForetellsInstall(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere programs in Go take no authority from SSL_CERT_FILE")
	}
	larder := hire(t)
	for _, seed := range sourcetest.Sample(t, 100, 4) {
		for _, e := range sourcetest.Engines {
			t.Run(fmt.Sprintf("%s/%d", e, seed), func(t *testing.T) {
				t.Parallel()
				(&comparison{scene: newScene(t, withPolicy(generate(uint64(seed), e))), larder: larder}).foretellAll()
			})
		}
	}
}

// foretellAll compares explain with install.
func (c *comparison) foretellAll() {
	if len(c.PluginDirs) > 0 || c.ReadOnly { // explain has no such flags
		return
	}
	if c.Prior != "" {
		c.Prior = "itself"
	}
	c.prepare()
	c.restore(c.larderStart)
	got := c.result(c.ours(c.larderArgs()...))
	c.restore(c.larderStart)
	if got.status != 0 {
		for _, failed := range foreseeable.FindAllStringSubmatch(got.output, -1) {
			out, _ := c.ours(c.explainArgs(failed[1])...)
			sourcetest.Expect(c.t, strings.Contains(out, `"fails`), "explain doesn't say that this fails: %s\n%s\n%s", failed[0], c.situation, out)
		}
		return
	}
	before := c.files()
	for _, block := range lockBlock.FindAllStringSubmatch(got.lock, -1) {
		c.foretell(block[1], block[2], got)
	}
	sourcetest.Equal(c.t, c.files(), before, "files after explain", c.situation.String())
}

// foreseeable matches the errors of install that explain can foretell, with the provider.
var foreseeable = regexp.MustCompile(`(?m)^larder: error: ([^\s:]+/[^\s:]+):? .*(?:no package for this platform|\(supported: 5 and 6\)|no version matches .*|which does not match .*|the policy at .*)$`)

// withPolicy adds a policy to some situations. Its rules are often about the providers and versions in them.
func withPolicy(s *situation) *situation {
	r := rand.New(rand.NewPCG(s.Seed, 28))
	if len(s.Releases) == 0 || r.IntN(3) == 0 {
		return s
	}
	rules := ""
	for range 1 + r.IntN(3) {
		p := s.Releases[r.IntN(len(s.Releases))]
		switch r.IntN(8) {
		case 0:
			rules += fmt.Sprintf("policy {\n deny = [%q]\n}\n", p.Provider)
		case 1:
			rules += fmt.Sprintf("policy {\n allow = [%q, %q]\n}\n", p.Provider, s.Releases[0].Provider)
		case 2, 3:
			rules += fmt.Sprintf("policy {\n versions = { %q = %q }\n}\n", p.Provider, "< "+p.Version)
		default:
			rules += fmt.Sprintf("policy {\n versions = { %q = %q }\n}\n", p.Provider, "!= "+p.Version)
		}
	}
	s.Files["work/.larder.hcl"] = rules
	return s
}

// lockBlock matches the provider and the version of an entry in a lock file.
var lockBlock = regexp.MustCompile(`provider "([^"]+)" \{\n\s+version\s+= "([^"]+)"`)

// explainArgs returns the arguments that explain the choice of a provider.
func (c *comparison) explainArgs(provider string) []string {
	args := []string{"explain", "--json", "--engine", string(c.Engine), provider}
	if c.Chdir {
		args = append(args, "--chdir", "work")
	}
	return args
}

// foretell fails unless larder explain says that install locks a version.
func (c *comparison) foretell(provider, version string, installed outcome) {
	c.t.Helper()
	out, status := c.ours(c.explainArgs(provider)...)
	var explanation struct {
		Type, Chosen string
		Upgrade      string `json:"chosen_by_upgrade"`
		Required     []any
		Unmanaged    string
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, `{"type":"explanation"`) {
			sourcetest.Check(c.t, json.Unmarshal([]byte(line), &explanation))
		}
	}
	chosen := explanation.Chosen
	if c.Upgrade {
		chosen = explanation.Upgrade
	}
	if chosen != version && explanation.Unmanaged == "" && len(explanation.Required) > 0 {
		c.t.Errorf("explain says that %s is chosen for %s, and install locks %s\n%s\nexplain, %d:\n%s\ninstall:\n%s",
			chosen, provider, version, c.situation, status, out, installed.output)
	}
}

// files lists all files of the situation with their sizes.
func (c *comparison) files() string {
	var all []string
	c.must(filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				all = append(all, fmt.Sprint(strings.TrimPrefix(path, c.dir), " ", info.Size(), " ", info.ModTime()))
			}
		}
		return err
	}))
	return strings.Join(all, "\n")
}
