//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A household is a situation for [TestCommandsAgree]: root modules, what was done in them before, sources and rules.
// It is plain data, drawn from a seed, so that it can be printed and made again.
type household struct {
	trial  // the engine and the releases
	Roots  []householdRoot
	Prior  string            // larder install ran before, without or with the lock files below; empty if it didn't
	Dated  map[string]string // how long ago versions were published, if the registry states it
	Method string            // of provider_installation
	Mirror string            // form of the filesystem mirror: packed or unpacked; empty if there is none
	Lacks  string            // packages that the mirrors don't have
	Cut    bool              // an archive in the mirror is half as long
	Cache  string            // what happened to the plugin cache since: see spoil
	Policy string
	Flags  []string

	Recursive bool // commands run above the root modules, with -R
	ReadOnly  bool // the first root module can't be written
}

// A householdRoot is a root module. Its lock file is that of larder install before, if it is kept.
type householdRoot struct {
	Dir      string
	Required []string // "ADDRESS" or "ADDRESS CONSTRAINT"
	LockFile string   // absent, kept, broken or drawn
	Lock     []locked
	Data     string // what happened to .terraform since: see spoil
}

// drawHousehold draws a situation.
func drawHousehold(seed uint64) *household {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 46)), situation: &situation{Seed: seed}}
	a := &household{Dated: map[string]string{}}
	a.Seed, a.Engine = seed, one(g, sources.Terraform, sources.OpenTofu)
	home := string(a.Engine.DefaultHost())
	addresses := []string{
		home + "/hashicorp/alpha", home + "/acme/widget", "example.test/acme/gadget", home + "/acme/gizmo",
	}
	for _, i := range g.Perm(len(addresses))[:1+g.IntN(4)] {
		a.drawProvider(g, addresses[i])
	}
	few := g.in(4)
	for i := range a.Releases {
		if few && g.in(4) {
			a.Releases[i].Platforms = []string{"darwin_arm64"}
		}
	}
	for i := range one(g, 1, 1, 2, 3, 4) {
		a.drawRoot(g, []string{"app", "db", "net", "net/sub"}[i])
	}
	a.Required, a.Lock = nil, nil // those of root modules
	a.Recursive, a.ReadOnly = len(a.Roots) > 1 || g.in(5), g.in(15)
	if a.Prior = one(g, "", "", "without", "with", "with"); a.Prior != "" {
		a.Cache = one(g, "", "", "", "", "overwritten", "replaced", "set aside", "removed")
	}
	a.drawSources(g)
	a.drawPolicy(g, one(g, append(addresses, a.Releases[0].Provider)...))
	if g.in(4) {
		a.Flags = []string{"--offline"}
	}
	return a
}

func (a *household) drawRoot(g *generator, dir string) {
	r := householdRoot{Dir: dir, LockFile: one(g, "absent", "kept", "drawn", "drawn", "drawn", "drawn")}
	if g.in(30) {
		r.LockFile = "broken"
	}
	if g.in(4) {
		r.Data = one(g, "removed", "overwritten", "replaced")
	}
	constraints := map[string]string{}
	for _, required := range a.Required {
		address, constraint, _ := strings.Cut(required, " ")
		if len(r.Required) > 0 && g.in(4) {
			continue
		}
		if g.in(3) {
			constraint = one(g, "", "~> 1.0", "1.1.0", "< 1.2.0", ">= 1.0.0", "!= 1.2.0", "~> 1.0.0", "~> 2.0", "1.0.0")
		}
		r.Required, constraints[address] = append(r.Required, strings.TrimSpace(address+" "+constraint)), constraint
	}
	hashes := one(g, []string{"h1", "all zh"}, []string{"h1", "all zh"}, []string{"all zh"},
		[]string{"other h1", "other zh"}, []string{"wrong h1"}, []string{"wrong zh"}, []string{"h1"}, nil)
	for _, l := range a.Lock {
		constraint, required := constraints[l.Provider]
		if !required && !g.in(3) {
			continue
		}
		if newest := a.newest(l.Provider, constraint); required && newest != "" && !g.in(5) {
			l.Version = newest
		}
		if !g.in(6) {
			l.Hashes = hashes
		}
		if l.Constraints = constraint; g.in(10) {
			l.Constraints = "~> 1.0"
		}
		r.Lock = append(r.Lock, l)
	}
	a.Roots = append(a.Roots, r)
}

// newest returns the newest version that a constraint allows.
func (a *household) newest(address, constraint string) (newest string) {
	for _, r := range a.Releases {
		allowed := constraint == ""
		if c, err := sources.ParseConstraints(constraint); err == nil && !allowed {
			v, err := sources.ParseVersion(r.Version)
			allowed = err == nil && c.Allow(v)
		}
		if r.Provider == address && allowed {
			newest = max(newest, r.Version)
		}
	}
	return newest
}

func (a *household) drawSources(g *generator) {
	const mirror = "filesystem_mirror { path = \"{dir}/mirror\" }"
	const network = "network_mirror { url = \"{mirror}\" }"
	a.Method = one(g, "direct {}", "direct {}", "direct {}", mirror, mirror+"\n  direct {}", network)
	if strings.Contains(a.Method, "filesystem") || g.in(3) {
		a.Mirror = one(g, "packed", "unpacked")
		a.Cut = a.Mirror == "packed" && g.in(4)
	}
	r := one(g, a.Releases...)
	version := r.Provider + "/" + r.Version + "/"
	a.Lacks = one(g, "", "", r.Provider+"/*", "*/"+ownPlatform, version+"*", version+ownPlatform)
	for _, r := range a.Releases {
		if g.in(2) {
			a.Dated[r.Provider+"/"+r.Version] = one(g, "1h", "240h", "2400h")
		}
	}
}

func (a *household) drawPolicy(g *generator, address string) {
	rule := ""
	switch g.IntN(18) {
	case 0, 1:
		rule = fmt.Sprintf("deny = [%q]", address)
	case 2, 3:
		rule = fmt.Sprintf("allow = [%q, \"hashicorp/*\"]", address)
	case 4:
		rule = "require_signed = true"
	case 5, 6:
		rule = "min_age = \"7d\""
	case 7:
		rule = "engines = { terraform = \">= 1.0\" }"
	case 8:
		rule = "platforms = [\"linux_amd64\", \"darwin_arm64\"]"
	case 9:
		rule = "denny = []"
	case 10:
		rule = fmt.Sprintf("versions = { %q = \"!= 1.2.0\" }\n  reason = \"it is bad\"", address)
	default:
		return
	}
	a.Policy = "policy {\n  " + rule + "\n}\n"
}

// cachePath is the plugin cache.
const cachePath = "home/.cache/larder/plugins"

// arrange makes the situation.
func (h *hearing) arrange() {
	for _, r := range h.Releases {
		r.Stated = r.Packages
		h.publish(r.Provider, r.Platforms, r.published)
	}
	for id, ago := range h.Dated {
		d, err := time.ParseDuration(ago)
		h.must(err)
		h.world.Registry.Publish(id, time.Now().Add(-d))
	}
	h.write("work/.git/HEAD", "ref: refs/heads/main\n") // the mirror isn't in the checkout
	h.write("config.tfrc", h.world.CLIConfig("direct {}"))
	for _, r := range h.Roots {
		h.write("work/"+r.Dir+"/main.tf", requiringAddresses(r.Required...))
		if h.Prior == "with" {
			h.writeLock(r)
		}
	}
	if h.Prior != "" {
		h.run("install", "-R", "--chdir", h.path("work"))
	}
	h.spoil(cachePath, h.Cache)
	for _, r := range h.Roots {
		if r.LockFile != "kept" {
			h.remove("work/" + r.Dir + "/.terraform.lock.hcl")
			h.writeLock(r)
		}
		h.spoil("work/"+r.Dir+"/.terraform/providers", r.Data)
	}
	h.fillMirrors()
	h.write("config.tfrc", h.world.CLIConfig(strings.NewReplacer("{dir}", h.base, "{mirror}", h.world.Mirror.MirrorURL()).
		Replace(h.Method)))
	if h.Policy != "" {
		h.write("work/.larder.hcl", h.Policy)
	}
	if h.ReadOnly {
		h.lockOut()
	}
	h.found, h.log = nil, nil
}

// writeLock writes a lock file that was drawn.
func (h *hearing) writeLock(r householdRoot) {
	name := "work/" + r.Dir + "/.terraform.lock.hcl"
	switch r.LockFile {
	case "broken":
		h.write(name, lockHeader(h.Engine)+"provider {\n")
	case "drawn":
		c := &court{trial: h.trial, ground: h.ground}
		c.Lock = r.Lock
		h.write(name, c.lockText())
	}
}

// spoil changes the first package in a store, or removes the store.
func (h *hearing) spoil(dir, how string) {
	if how == "removed" {
		h.remove(dir)
	}
	found, err := filepath.Glob(h.path(dir, "*/*/*/*/*/terraform-provider-*"))
	if h.must(err); how == "" || len(found) == 0 {
		return
	}
	if how == "overwritten" { // also what it is linked to
		h.chmod(found[0], 0o755)
	} else {
		h.remove(found[0])
	}
	h.must(os.WriteFile(found[0], []byte("changed\n"), 0o755))
	if how == "set aside" {
		h.run("cache", "repair", "--offline")
	}
}

// fillMirrors makes the filesystem mirror, and hides packages of the network mirror.
func (h *hearing) fillMirrors() {
	var only []string
	for _, r := range h.Releases {
		for _, platform := range r.Platforms {
			if id := r.Provider + "/" + r.Version + "/" + platform; h.Lacks == "" || !matches(h.Lacks, id) {
				only = append(only, id)
			} else {
				h.world.Mirror.Hide(id)
			}
		}
	}
	if h.Mirror != "" {
		h.mkdir("mirror")
	}
	switch {
	case len(only) == 0: // which would be all
	case h.Mirror == "packed":
		h.world.WritePacked(h.path("mirror"), only...)
	case h.Mirror == "unpacked":
		h.world.WriteUnpacked(h.path("mirror"), only...)
	}
	found, err := filepath.Glob(h.path("mirror/*/*/*/*" + ownPlatform + ".zip"))
	if h.must(err); h.Cut && len(found) > 0 {
		text := sourcetest.ReadFile(h.t, found[0])
		h.must(os.WriteFile(found[0], text[:len(text)/2], 0o644))
	}
}

// lockOut makes the first root module one that can only be read. Root runs the commands as another user then.
func (h *hearing) lockOut() {
	if os.Geteuid() == 0 {
		h.user = fmt.Sprint(unprivilegedUID)
		openWayTo(h.t, h.path("work"), h.world.CAFile)
		h.must(filepath.WalkDir(h.base, func(path string, _ fs.DirEntry, err error) error {
			h.must(err)
			return os.Lchown(path, unprivilegedUID, unprivilegedUID)
		}))
	}
	root := h.path("work", h.Roots[0].Dir)
	var dirs []string
	h.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	}))
	for _, dir := range slices.Backward(dirs) {
		h.chmod(dir, 0o555)
	}
	h.t.Cleanup(func() {
		for _, dir := range dirs {
			h.chmod(dir, 0o755)
		}
	})
}
