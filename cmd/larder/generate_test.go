package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A generator generates a situation from a seed. Most of it is ordinary, so that the unusual parts
// have an effect.
type generator struct {
	*rand.Rand
	*situation
	home      string            // the host of addresses without one
	providers []string          // that the situation is about
	meant     map[string]string // the version of each that most of it agrees on
	wild      bool              // nothing agrees with anything
}

func generate(seed uint64, e sources.Engine) *situation {
	g := &generator{
		Rand:      rand.New(rand.NewPCG(seed, 0)),
		situation: &situation{Seed: seed, Engine: e, DataDir: "work/.terraform", Files: map[string]string{}},
		home:      string(e.DefaultHost()),
		meant:     map[string]string{},
	}
	g.wild = g.in(6)
	g.releases()
	g.requirements()
	g.environment()
	g.configuration()
	g.lock()
	g.cache()
	g.installed()
	g.edits()
	g.flags()
	g.prior()
	return g.situation
}

// in is true once in n times, on average.
func (g *generator) in(n int) bool { return g.IntN(n) == 0 }

// some are a few of list, up to most, in order.
func some[T any](g *generator, list []T, most int) []T {
	n := g.IntN(min(most, len(list)) + 1)
	picked := g.Perm(len(list))[:n]
	sort.Ints(picked)
	var chosen []T
	for _, i := range picked {
		chosen = append(chosen, list[i])
	}
	return chosen
}

func one[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

var addresses = []string{
	"registry.terraform.io/hashicorp/alpha", "registry.terraform.io/hashicorp/beta-two",
	"registry.terraform.io/acme/widget", "registry.terraform.io/acme/gadget", "example.test/acme/widget",
	"example.test/übung/x1", "испытание.test/acme/widget", "example.test:8443/acme/widget", "{registry}/acme/gizmo",
}

var versionNumbers = []string{
	"0.0.0", "0.1.0", "0.9.9", "1.0.0", "1.0.1", "1.2.0", "1.2.3", "1.10.0", "2.0.0", "2.1.0+build.5", "3.0.0", "10.0.0",
	"1.0.0-beta1", "1.3.0-alpha.1", "2.0.0-rc.1", "0.0.0-a", "4.0.0-0", "3.0.1+x",
}

// atHome returns an address of Terraform's registry, usually on the engine's own registry instead.
func (g *generator) atHome(address string) string {
	path, ok := strings.CutPrefix(address, "registry.terraform.io/")
	if !ok || g.Engine == sources.Terraform || g.in(8) {
		return address
	}
	return g.home + "/" + path
}

func (g *generator) releases() {
	for _, i := range g.Perm(len(addresses))[:1+g.IntN(3)] {
		g.providers = append(g.providers, g.atHome(addresses[i]))
	}
	for _, provider := range g.providers {
		versions := some(g, versionNumbers, 6)
		if len(versions) == 0 && !g.in(6) {
			versions = []string{"1.2.0"}
		}
		for _, version := range versions {
			g.Releases = append(g.Releases, g.release(provider, version))
			if g.meant[provider] == "" || g.meant[provider] == "0.0.0" || g.in(2) && version != "0.0.0" {
				g.meant[provider] = version
			}
		}
	}
}

func (g *generator) release(provider, version string) published {
	r := published{Provider: provider, Version: version, Platforms: []string{"{platform}"}, Protocols: []string{"5.0"}}
	switch g.IntN(20) {
	case 0:
		r.Platforms = []string{"windows_386"}
	case 1, 2, 3, 4:
		r.Platforms = append(r.Platforms, "windows_386", "solaris_sparc")
	}
	if g.in(4) {
		r.Contents = one(g, append(slices.Clone(looks), looks[:7]...)...)
	}
	if g.in(10) {
		r.Protocols = one(g, []string{"6.0"}, []string{"4.0", "5.1"}, []string{"4.0"}, []string{"99.0"}, nil,
			[]string{"6"}, []string{"7.0", "garbage"})
	}
	if g.in(14) {
		r.Signing = one(g, "unknown key", "no keys", "second key", "expired key", "revoked key", "broken", "no key")
	}
	if g.in(20) {
		r.Sums = one(g, append(sumsFaults, "blank line")...)
	}
	if g.in(20) {
		r.Document = one(g, documentFaults...)
	}
	if g.in(12) {
		r.Warning = "mind the gap"
	}
	if g.Engine == sources.OpenTofu {
		r.Stated = g.in(3)
	}
	for _, server := range []string{"registry", "mirror", "oci"} {
		if g.in(8) && (g.wild || g.in(2)) {
			r.HiddenBy = append(r.HiddenBy, server)
		}
	}
	return r
}

var constraints = []string{
	"", "", "", ">= 1.0", ">= 0.1", "~> 1.0", "~> 1", "~> 1.2.0", "= 1.0.0", "1.2.0", "< 2.0", "<= 1.2", "> 1.0.0",
	"!= 1.2.0", "!= 1.10.0", ">= 1.0, < 2.0", ">= 1.0 , != 1.0.1", "1", "~> 0", "1.0.0-beta1", "= 2.0.0-rc.1",
	">= 1.0.0-beta1", "2.1.0+build.5", "0.0.0", ">= 0.0.0", "~> 2.0", "01.02.03", "!= 2.0.0-rc.1",
	">= 2.0.0-rc.1, 2.0.0-rc.1", "~> 3", ">=1.0", "=1.2.3", "<10", "0.0.0-a", "> 3.0.0", ">= 1.0.0, >= 1.0.0, < 9",
	"~> 1.0-beta", "1.0.0+x", ">= 2.1.0+other", "~> 0.9", "1.3.0-alpha.1, < 2",
}

var badConstraints = []string{
	">=  1.0", "v1.0", "1.2.3.4", " ", ">= 1.0,", "latest", "1.x", "~> 1.0 beta", "=> 1", ">= 1.0 < 2", "^1.0",
	"1.0.0beta1", ">= v1",
}

func (g *generator) constraint(provider string) string {
	meant := g.meant[provider]
	switch {
	case g.in(80):
		return one(g, badConstraints...)
	case g.wild || g.in(20) || meant == "":
		return one(g, constraints...)
	case strings.Contains(meant, "-"):
		return one(g, meant, "= "+meant, meant+", < 99", meant+", != 7.0.0")
	}
	numbers, _, _ := strings.Cut(meant, "+")
	major, rest, _ := strings.Cut(numbers, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return one(g, "", "", meant, "="+meant, ">= "+numbers, "<="+meant, "~> "+major+"."+minor, "~> "+numbers, ">= "+major,
		"!= 99.1.0", "< 99", ">= 0.0.1, != 7")
}

// A moduleText is a module being written: its files by name.
type moduleText map[string]*strings.Builder

func (m moduleText) file(name string) *strings.Builder {
	if m[name] == nil {
		m[name] = &strings.Builder{}
	}
	return m[name]
}

// requirements writes the root module, and modules below it.
func (g *generator) requirements() {
	dirs := []string{"work"}
	if g.in(3) {
		dirs = append(dirs, "work/one")
	}
	if g.in(6) {
		dirs = append(dirs, "work/one/two")
	}
	if g.in(60) {
		g.Files["work/.terraform/modules/modules.json"] = `{"Modules":[{"Key":"","Source":"","Dir":"."},` +
			`{"Key":"m","Source":"./old","Dir":"old"},{"Key":"gone","Source":"./gone","Dir":"gone"}]}`
	}
	for i, dir := range dirs {
		m := moduleText{}
		providers := g.providers
		if i > 0 {
			providers = some(g, providers, len(providers))
		}
		g.module(m, providers)
		if i+1 < len(dirs) {
			below := strings.TrimPrefix(dirs[i+1], dir)
			fmt.Fprintf(m.file("main.tf"), "module \"m\" {\n  source = %q\n}\n", "."+below)
			if g.in(4) {
				fmt.Fprintf(m.file("main.tf"), "module \"n\" {\n  source = %q\n}\n", "../"+path.Base(dir)+below)
			}
		}
		m.file("main.tf")
		if i > 0 {
			delete(m, "import.tf") // which only root modules may have
		}
		for name, text := range m {
			g.Files[dir+"/"+name] = text.String()
		}
	}
	if g.in(10) {
		g.aliases()
	}
	if g.in(20) {
		g.dynamicSource()
	}
	if g.in(12) {
		g.state()
	}
}

// aliases writes a module that takes two configurations of a provider, and a call that passes them.
func (g *generator) aliases() {
	provider := one(g, g.providers...)
	g.Files["work/aliased/main.tf"] = requiredIn(g.entry("z", provider, "      configuration_aliases = [z.a, z.b]\n")) +
		"resource \"z_thing\" \"x\" {\n  provider = z.a\n}\n"
	g.Files["work/aliases.tf"] = requiredIn(g.entry("z", provider, "")) +
		"provider \"z\" {\n  alias = \"a\"\n}\nprovider \"z\" {\n  alias = \"b\"\n}\n" +
		"module \"aliased\" {\n  source = \"./aliased\"\n  providers = {\n    z.a = z.a\n    z.b = z.b\n  }\n}\n"
}

// dynamicSource writes a call of a module whose source depends on a variable.
func (g *generator) dynamicSource() {
	provider := one(g, g.providers...)
	g.Files["work/chosen/main.tf"] = requiredIn(g.entry("y", provider, ""))
	constant := one(g, "", "  const = true\n", "  const = true\n")
	g.Files["work/chosen.tf"] = "variable \"which\" {\n  default = \"chosen\"\n" + constant + "}\n" +
		one(g, "", "", "locals {\n  dir = \"./${var.which}\"\n}\n") +
		"module \"chosen\" {\n  source = \"./${var.which}\"\n}\n"
}

// entry returns a requirement under a local name.
func (g *generator) entry(local, provider, more string) string {
	source := g.spelled(provider)
	return fmt.Sprintf("    %s = {\n      source = %q\n%s%s    }\n", local, source, g.version(provider, "      "), more)
}

// requiredIn returns a block with requirements.
func requiredIn(entries string) string {
	return "terraform {\n  required_providers {\n" + entries + "  }\n}\n"
}

// module writes a module that requires providers.
func (g *generator) module(m moduleText, providers []string) {
	required := moduleText{}
	jsonRequired := map[string]any{}
	for i, provider := range providers {
		local := fmt.Sprintf("p%d", i)
		typ := typeOf(provider)
		official := strings.HasPrefix(provider, g.home+"/hashicorp/")
		switch {
		case official && g.in(3):
			g.implied(m, provider, typ)
			continue
		case official && g.in(4):
			fmt.Fprintf(required.file("main.tf"), "    %s = %q\n", typ, cmp.Or(g.constraint(provider), ">= 0.0.1"))
			continue
		case g.in(8):
			value := map[string]string{"source": g.spelled(provider)}
			if c := g.constraint(provider); c != "" {
				value["version"] = c
			}
			jsonRequired[local] = value
			continue
		}
		required.file("main.tf").WriteString(g.entry(local, provider, ""))
		bad := func(c string) bool { return strings.Contains(required.file("main.tf").String(), fmt.Sprintf("%q", c)) }
		if g.in(12) && !slices.ContainsFunc(badConstraints, bad) {
			required.file(one(g, "override.tf", "main_override.tf")).WriteString(g.entry(local, provider, ""))
		}
		if g.in(10) {
			fmt.Fprintf(m.file("providers.tf"), "provider %q {\n%s}\n", local, g.version(provider, "  "))
		}
		if g.in(6) {
			fmt.Fprintf(m.file("main.tf"), "resource \"%s_thing\" \"x\" {\n}\n", local)
		}
	}
	if g.in(10) {
		fmt.Fprintf(required.file("main.tf"), "    terraform = {\n      source = \"terraform.io/builtin/terraform\"\n    }\n")
	}
	if g.in(12) {
		fmt.Fprintf(m.file("main.tf"), "data \"terraform_remote_state\" \"x\" {\n  backend = \"local\"\n}\n")
	}
	if g.in(200) {
		fmt.Fprintf(m.file("versions.tf"), "terraform {\n  required_providers {\n  }\n}\n")
	}
	g.noise(m, typeOf(one(g, g.providers...)))
	if g.Engine == sources.OpenTofu && len(providers) > 0 {
		g.tofuFiles(m, required, providers)
	}
	for name, text := range required {
		m.file(name).WriteString(requiredIn(text.String()))
	}
	if len(jsonRequired) > 0 {
		block := map[string]any{"terraform": map[string]any{"required_providers": jsonRequired}}
		text, _ := json.MarshalIndent(block, "", "  ") // no error, of maps and strings
		name := "required.tf.json"
		if required["main.tf"] != nil && !g.in(40) {
			name = "json_override.tf.json"
		}
		m.file(name).Write(text)
	}
}

// tofuFiles writes what Terraform doesn't read, or not in this way.
func (g *generator) tofuFiles(m, required moduleText, providers []string) {
	if required["main.tf"] != nil && g.in(12) { // instead of the file of this name
		required["main.tofu"], m["main.tofu"] = required["main.tf"], m.file("main.tf")
		delete(required, "main.tf")
		m["main.tf"] = &strings.Builder{}
		m.file("main.tf").WriteString("this is not read")
	}
	if i := g.IntN(len(providers)); g.in(10) {
		file := m.file(one(g, "p.tftest.hcl", "p.tofutest.hcl"))
		fmt.Fprintf(file, "provider \"p%d\" {\n%s}\n", i, g.version(providers[i], "  "))
	}
}

func typeOf(provider string) string { return provider[strings.LastIndexByte(provider, '/')+1:] }

// noise writes files that require nothing, or nothing new, or are ignored.
func (g *generator) noise(m moduleText, typ string) {
	switch g.IntN(60) {
	case 11:
		fmt.Fprintf(m.file("actions.tf"), "action \"%s_act\" \"a\" {\n  config {\n  }\n}\n", typ)
	case 0:
		m.file("more.tf").WriteString("variable \"x\" {\n  default = 1\n}\noutput \"y\" {\n  value = var.x\n}\n" +
			"locals {\n  z = [for i in [1, 2] : i]\n}\n")
	case 1:
		m.file(".hidden.tf").WriteString("this is not read")
		m.file("backup.tf~").WriteString("nor is this")
		if g.Engine == sources.Terraform {
			m.file("x.tofu").WriteString("nor is this")
		}
	case 2:
		m.file("outputs.tf.json").WriteString(`{"output": {"j": {"value": 1}}, "//": "a comment"}`)
	case 3:
		m.file("check.tf").WriteString("check \"x\" {\n" +
			"  data \"terraform_remote_state\" \"c\" {\n    backend = \"local\"\n  }\n  assert {\n" +
			"    condition     = data.terraform_remote_state.c.outputs != null\n    error_message = \"no\"\n  }\n}\n")
	case 4:
		m.file("broken.tf").WriteString(one(g, "resource {", "resource \"x\" {\n}\n", "module \"n\" {\n}\n",
			"module \"n\" {\n  source = \"./absent\"\n}\n"))
	case 5:
		m.file("moved.tf").WriteString("moved {\n  from = alpha_thing.a\n  to   = alpha_thing.b\n}\n" +
			"removed {\n  from = alpha_thing.c\n  lifecycle {\n    destroy = false\n  }\n}\n")
	case 6:
		fmt.Fprintf(m.file("more.tf"), "ephemeral \"%s_thing\" \"e\" {\n}\n", typ)
	case 7:
		fmt.Fprintf(m.file("import.tf"), "import {\n  to = %s_thing.i\n  id = \"1\"\n}\n", typ)
	case 8:
		m.file("empty.tf")
		m.file("empty.tf.json").WriteString("{}")
	case 9:
		m.file("version.tf").WriteString("terraform {\n  required_version = \">= 1.0\"\n}\n")
	case 10:
		m.file("t.tftest.hcl").WriteString("run \"x\" {\n  command = plan\n}\n")
	}
}

// implied writes a resource that implicitly requires hashicorp's provider of a type.
func (g *generator) implied(m moduleText, provider, typ string) {
	switch g.IntN(4) {
	case 0:
		fmt.Fprintf(m.file("main.tf"), "provider %q {\n%s}\n", typ, g.version(provider, "  "))
	case 1:
		fmt.Fprintf(m.file("data.tf"), "data \"%s_thing\" \"y\" {\n}\n", typ)
	default:
		fmt.Fprintf(m.file("main.tf"), "resource \"%s_thing\" \"y\" {\n}\n", typ)
	}
}

// spelled is one of the ways to write a provider's address.
func (g *generator) spelled(provider string) string {
	if short, ok := strings.CutPrefix(provider, g.home+"/"); ok && !g.in(5) {
		provider = short
	}
	switch {
	case strings.HasPrefix(provider, "hashicorp/") && g.in(6):
		return strings.TrimPrefix(provider, "hashicorp/")
	case g.in(15) && !strings.Contains(provider, "{"):
		return strings.ToUpper(provider)
	case g.in(200):
		return one(g, "a//b", "-/alpha", "my_org/widget", "xn--80akhbyknj4f.test/acme/widget",
			"acme/terraform-provider-widget", "terraform.io/builtin/other")
	}
	return provider
}

func (g *generator) version(provider, indent string) string {
	if c := g.constraint(provider); c != "" {
		return fmt.Sprintf("%sversion = %q\n", indent, c)
	}
	return ""
}

// state writes a state with a resource of some provider.
func (g *generator) state() {
	provider := one(g, append(slices.Clone(g.providers), g.home+"/acme/unknown", "terraform.io/builtin/terraform")...)
	if path, ok := strings.CutPrefix(provider, g.home+"/"); ok && g.Engine == sources.OpenTofu && g.in(3) {
		provider = "registry.terraform.io/" + path
	}
	text, err := json.MarshalIndent(map[string]any{
		"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "d0c7e4a3-6c3f-1a6e-3f5e-0f6d6a2d6f11",
		"outputs": map[string]any{},
		"resources": []any{map[string]any{
			"mode": "managed", "type": "any_thing", "name": "x", "provider": fmt.Sprintf("provider[%q]", provider),
			"instances": []any{map[string]any{"schema_version": 0, "attributes": map[string]any{"id": "1"}}},
		}},
	}, "", "  ")
	if err != nil {
		panic(err) // of maps and strings
	}
	switch g.IntN(6) {
	case 0:
		g.Files["work/terraform.tfstate.d/stage/terraform.tfstate"] = string(text)
		g.Env = append(g.Env, "TF_WORKSPACE=stage")
	case 1:
		g.Files["work/terraform.tfstate.d/stage/terraform.tfstate"] = string(text)
		g.Files["work/.terraform/environment"] = "stage"
	case 2:
		g.Files["work/state/x.tfstate"] = string(text)
		g.Files["work/backend.tf"] = "terraform {\n  backend \"local\" {\n    path = \"state/x.tfstate\"\n  }\n}\n"
	default:
		g.Files["work/terraform.tfstate"] = string(text)
	}
}

func (g *generator) environment() {
	g.Env = []string{
		"HOME={dir}/home", "XDG_CACHE_HOME={dir}/xdg-cache", "XDG_DATA_DIRS={dir}/share1:relative:{dir}/share2",
		"TF_REGISTRY_DISCOVERY_RETRY=1",
	}
	if g.in(2) {
		g.Env = append(g.Env, "XDG_DATA_HOME="+one(g, "{dir}/share0", "{dir}/share0", "{dir}/share0", "relative"))
	}
	if g.in(10) {
		g.DataDir = "work/data"
		g.Env = append(g.Env, "TF_DATA_DIR="+one(g, "data", "{dir}/work/data"))
	}
	if g.in(25) {
		g.Env = append(g.Env, fmt.Sprintf(`TF_REATTACH_PROVIDERS={%q:{"Protocol":"grpc","ProtocolVersion":5,"Pid":1,`+
			`"Test":true,"Addr":{"Network":"unix","String":"/nowhere"}}}`, one(g, g.providers...)))
	}
	if g.in(12) {
		g.Env = append(g.Env, "TF_IN_AUTOMATION=1", "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE="+one(g, "0", "0", "1"))
	}
	if g.in(20) {
		g.Token = "secret"
	}
	g.Chdir = g.in(25)
}

// credentials writes the credentials that servers require.
func (g *generator) credentials(b *strings.Builder) {
	if g.Token == "" {
		return
	}
	hosts := []string{"{registry}", "{mirrorhost}", g.home, "example.test", "example.test:8443", "испытание.test"}
	for _, host := range hosts {
		token := one(g, "secret", "secret", "secret", "wrong")
		switch g.IntN(5) {
		case 0:
		case 1:
			if !strings.ContainsAny(host, "{:") {
				g.Env = append(g.Env, "TF_TOKEN_"+strings.ReplaceAll(host, ".", "_")+"="+token)
			}
		default:
			fmt.Fprintf(b, "credentials %q {\n  token = %q\n}\n", host, token)
		}
	}
}

// packages are patterns for some packages of the situation.
func (g *generator) packages() []string {
	if !g.wild && !g.in(3) {
		return []string{"*"}
	}
	var patterns []string
	for _, r := range g.Releases {
		if g.in(2) {
			patterns = append(patterns, r.Provider+"/"+r.Version+"/"+one(g, "*", "*", "*", "{platform}", "windows_386"))
		}
	}
	return patterns
}

func (g *generator) tree(path string) string {
	t := tree{Path: path}
	switch g.IntN(4) {
	case 0:
		t.Packed = g.packages()
	case 1:
		t.Unpacked = g.packages()
	case 2:
		t.Packed, t.Unpacked = g.packages(), g.packages()
	case 3:
		t.Packed, t.Unpacked = []string{"*"}, g.packages()
	}
	if g.in(6) {
		t.Twist = one(g, twists...)
	}
	g.Trees = append(g.Trees, t)
	return path
}

// configuration writes the CLI configuration, and the mirrors it names.
func (g *generator) configuration() {
	var b strings.Builder
	for _, provider := range g.providers {
		host, _, _ := strings.Cut(provider, "/")
		named := strings.Contains(b.String(), fmt.Sprintf("%q", host))
		if host != "{registry}" && g.in(2) && (g.Token == "" || g.in(5)) && !named {
			services := fmt.Sprintf("\"providers.v1\" = \"https://{registry}/v1/providers/%s/\"", host)
			if g.in(20) {
				services = ""
			}
			fmt.Fprintf(&b, "host %q {\n  services = {\n    %s\n  }\n}\n", host, services)
		}
	}
	g.credentials(&b)
	var more strings.Builder
	if g.in(2) {
		g.cacheDir(&more)
	}
	if g.in(3) {
		g.impliedDirs()
	} else {
		g.methods(&more)
	}
	if g.in(60) {
		more.WriteString(one(g, "broken", "provider_installation {\n  direct = {}\n}\n", "host \"a..b\" {\n}\n",
			"provider_installation {\n  unknown {\n  }\n}\n"))
	}
	if g.in(6) {
		g.Files["home/.terraformrc"] = b.String()
		g.Files["home/.terraform.d/"+one(g, "x.tfrc", "credentials.tfrc", "y.tfrc.json")] = more.String()
	} else {
		g.Files[g.configFile()] = b.String() + more.String()
	}
}

func (g *generator) cacheDir(b *strings.Builder) {
	g.CacheDir = one(g, "cache", "work/cache")
	g.NoCache = g.in(6)
	switch path := one(g, "{dir}/", "{dir}/", "../") + g.CacheDir; {
	case g.Chdir, g.in(3):
		g.Env = append(g.Env, "TF_PLUGIN_CACHE_DIR={dir}/"+g.CacheDir)
	case g.in(6):
		fmt.Fprintf(b, "plugin_cache_dir = \"$HOME/../%s\"\n", g.CacheDir)
	default:
		fmt.Fprintf(b, "plugin_cache_dir = %q\n", path)
	}
}

func (g *generator) configFile() string {
	if g.in(3) {
		if g.Engine == sources.OpenTofu && g.in(2) {
			return "home/.tofurc"
		}
		return one(g, "home/.terraformrc", "home/.terraform.d/x.tfrc")
	}
	g.Env = append(g.Env, "TF_CLI_CONFIG_FILE={dir}/config.tfrc")
	return "config.tfrc"
}

func (g *generator) impliedDirs() {
	dirs := []string{"home/.terraform.d/plugins"}
	for _, dir := range []string{"home/.local/share", "share0", "share1", "share2"} {
		dirs = append(dirs, dir+"/terraform/plugins")
	}
	if !g.Chdir {
		dirs = append(dirs, "work/terraform.d/plugins")
	}
	if g.Engine == sources.OpenTofu {
		dirs = append(dirs, "share0/opentofu/plugins")
	}
	for _, dir := range some(g, dirs, 2) {
		g.tree(dir)
	}
}

func (g *generator) methods(b *strings.Builder) {
	b.WriteString("provider_installation {\n")
	if g.in(30) {
		fmt.Fprintf(b, "  dev_overrides {\n    %q = \"{dir}\"\n  }\n", one(g, g.providers...))
	}
	n := one(g, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4)
	if n == 0 && !g.in(3) {
		n = 1
	}
	for i := range n {
		var kind, argument string
		var except []string
		switch g.IntN(7) {
		case 0, 1, 2:
			kind = "direct"
		case 3, 4:
			kind, argument = "network_mirror", fmt.Sprintf("    url = %q\n", "{mirror}")
			if except = g.hostsWithPorts(); g.Engine == sources.OpenTofu && g.in(2) {
				argument += fmt.Sprintf("    trust_all_hashes = %v\n", !g.in(4))
			}
		case 5:
			if g.Engine == sources.OpenTofu {
				kind, argument = "oci_mirror", fmt.Sprintf("    repository_template = %q\n", "{oci}/"+one(g, templates...))
				except = g.hostsWithPorts()
				break
			}
			fallthrough
		default:
			path := g.tree(fmt.Sprintf("mirror%d", i))
			kind, argument = "filesystem_mirror", fmt.Sprintf("    path = %q\n", one(g, "{dir}/", "{dir}/", "../")+path)
		}
		fmt.Fprintf(b, "  %s {\n%s%s%s  }\n", kind, argument, g.patterns("include", 7, nil), g.patterns("exclude", 8, except))
	}
	if !g.wild && !g.in(3) {
		b.WriteString("  direct {\n  }\n")
	}
	b.WriteString("}\n")
}

// templates are what follows the prefix in repository_template. Most situations have the first one, under which the
// packages were pushed.
var templates = append(slices.Repeat([]string{"${hostname}/${namespace}/${type}"}, 4),
	"registry.opentofu.org/${namespace}/${type}", "${hostname}/acme/${type}", "${hostname}/${namespace}/widget",
	"${hostname}", "${version}", "${hostname}/${namespace}/${type}:latest")

// hostsWithPorts are patterns for what Terraform cannot get from network mirrors.
func (g *generator) hostsWithPorts() []string {
	if g.in(20) {
		return nil
	}
	return []string{"\"{registry}/*/*\"", "\"example.test:8443/*/*\""}
}

// patterns are an include or exclude argument, always with those given, and with
// more once in n times.
func (g *generator) patterns(name string, n int, list []string) string {
	more := 0
	if g.in(n) && (g.wild || g.in(3)) {
		more = 1 + g.IntN(2)
	}
	if more == 0 && len(list) == 0 {
		return ""
	}
	for range more {
		provider := one(g, g.providers...)
		host, rest, _ := strings.Cut(provider, "/")
		namespace, _, _ := strings.Cut(rest, "/")
		list = append(list, fmt.Sprintf("%q", one(g, provider, g.spelled(provider), host+"/*/*", host+"/"+namespace+"/*",
			"*/*/*", "*/*", "acme/*", "hashicorp/*", "ACME/widget", "other/*")))
	}
	list = slices.DeleteFunc(list, func(s string) bool { return strings.Count(s, "/") == 0 })
	return fmt.Sprintf("    %s = [%s]\n", name, strings.Join(list, ", "))
}

func (g *generator) lock() {
	if g.in(2) {
		return
	}
	g.Lock = []locked{}
	if g.in(10) {
		g.LockForm = one(g, lockForms...)
	}
	for _, provider := range append(slices.Clone(g.providers), g.home+"/acme/extra") {
		versions := g.versions(provider)
		if len(versions) == 0 || g.in(8) {
			versions = append(versions, "1.0.0")
		}
		extra := strings.HasSuffix(provider, "/extra")
		if g.in(4) || extra && !g.in(4) || !g.wild && g.meant[provider] == "0.0.0" {
			continue
		}
		l := locked{Provider: provider, Version: cmp.Or(g.meant[provider], "1.0.0")}
		l.Constraints = one(g, "", ">= 0.1.0", "~> 1.0", "1.2.0")
		if g.wild || g.in(6) {
			l.Version = one(g, versions...)
		}
		if path, ok := strings.CutPrefix(provider, g.home+"/"); ok && g.Engine == sources.OpenTofu && g.in(5) {
			l.Provider = "registry.terraform.io/" + path // to be migrated
		}
		switch g.IntN(6) {
		case 0:
			l.Hashes = some(g, hashKinds, 3)
		case 1:
			l.Hashes = []string{"zh"}
		case 2:
			l.Hashes = []string{"h1"}
		case 3:
			l.Hashes = nil
		default:
			l.Hashes = []string{"h1", "zh", "others"}
		}
		if g.in(80) {
			l.Raw = one(g, "  typo = 1\n", "  # a comment\n", "  hashes = []\n")
		}
		if g.in(100) {
			l.Constraints = ">=1.0"
		}
		g.Lock = append(g.Lock, l)
	}
}

// versions are those of a provider, the newest last.
func (g *generator) versions(provider string) []string {
	var versions []string
	for _, r := range g.Releases {
		if r.Provider == provider {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

func (g *generator) cache() {
	if g.CacheDir == "" || g.NoCache || g.in(3) {
		return
	}
	g.Cached = g.placed()
}

func (g *generator) installed() {
	if g.in(3) {
		g.Installed = g.placed()
	}
}

func (g *generator) placed() []placed {
	var all []placed
	for _, r := range g.Releases {
		if g.in(2) {
			continue
		}
		p := placed{ID: r.Provider + "/" + r.Version + "/{platform}", How: "whole"}
		if g.in(5) {
			p.How = one(g, places...)
		}
		if slices.Contains(r.Platforms, "{platform}") {
			all = append(all, p)
		}
	}
	return all
}

// edits changes the answers of servers.
func (g *generator) edits() {
	if g.in(15) {
		g.Edits = append(g.Edits, g.editDiscovery())
	}
	for _, r := range g.Releases {
		host, rest, _ := strings.Cut(r.Provider, "/")
		of := "*" + "/" + rest + "/"
		if strings.Contains(host, "example.test") {
			of = "*/" + r.Provider + "/"
		}
		add := func(e edit) { g.Edits = append(g.Edits, e) }
		either := func() string { return one(g, "registry", "mirror") }
		list := func() string { return one(g, of+"versions", of+"index.json") }
		switch g.IntN(90) {
		case 0, 1, 2:
			add(g.editHashes(of + r.Version + ".json"))
		case 3:
			add(edit{Server: "registry", Path: of + "versions", Status: one(g, 401, 403, 404, 400)})
		case 4:
			add(edit{Server: "mirror", Path: of + "index.json", Status: one(g, 401, 403, 404, 400)})
		case 5:
			add(edit{Server: either(), Path: of + "*.zip", Status: one(g, 401, 404)})
		case 6:
			add(edit{Server: either(), Path: of + "*.zip", Corrupt: true})
		case 7:
			add(edit{Server: "registry", Path: of + r.Version + "/download/*", Status: one(g, 401, 404, 410)})
		case 8:
			add(edit{Server: "mirror", Path: of + r.Version + ".json", Status: one(g, 401, 404)})
		case 9:
			add(edit{Server: either(), Path: list(), Pattern: `"1\.2\.0"`, New: one(g, `"1.2"`, `"01.2.0"`)})
		case 10:
			add(edit{Server: "registry", Path: of + one(g, "*SHA256SUMS", "*.sig"), Status: 404})
		case 11:
			e := edit{Server: either(), Path: list(), Pattern: `[{]`}
			e.New = one(g, "[", "<html>", `{"more": {}, `, `{"versions": [], "x": {`)
			add(e)
		case 13:
			e := edit{Server: either()}
			e.Path = one(g, of+"versions", of+"index.json", of+r.Version+".json", of+r.Version+"/download/*")
			e.ContentType = one(g, "text/html", "-", "application/json; charset=utf-8")
			add(e)
		case 14:
			e := one(g, edit{Pattern: `"versions":`, New: `"Versions":`}, edit{Pattern: `[}]\s*$`, New: `} and more`},
				edit{Pattern: `(?s)"versions": ?([\[{]).*`, New: `"versions": null}`},
				edit{Pattern: `\{\}`, New: one(g, `null`, `[]`, `"x"`)})
			e.Server, e.Path = either(), list()
			add(e)
		case 15:
			e := one(g, edit{Pattern: `"url":`, New: `"URL":`}, edit{Pattern: `"shasum":`, New: `"SHASUM":`},
				edit{Pattern: `"protocols":\[.*?\]`, New: `"protocols":` + one(g, "null", "[]", "5", `["x"]`)},
				edit{Pattern: `windows_386`, New: `Windows_386`})
			e.Server, e.Path = either(), one(g, of+r.Version+".json", of+r.Version+"/download/*")
			add(e)
		case 12:
			e := edit{Server: "mirror", Path: of + "index.json", Pattern: `"1\.0\.0"`}
			e.New = one(g, `"v1.0.0"`, `"garbage"`, `""`, `"1.0.0.0"`)
			add(e)
		}
	}
}

// editDiscovery changes service discovery for all hosts that have it.
func (g *generator) editDiscovery() edit {
	e := edit{Server: "registry", Path: "/.well-known/terraform.json"}
	switch g.IntN(7) {
	case 0:
		e.Status = one(g, 404, 403, 410)
	case 1:
		e.ContentType = one(g, "text/html", "application/json; charset=utf-8")
	case 2:
		e.Pattern, e.New = `providers\.v1`, one(g, "providers.v2", "modules.v1")
	case 3:
		e.Pattern, e.New = `/"`, `"`
	case 4:
		e.Pattern = `"/v1`
		e.New = one(g, `"https://{registry}/v1`, `"../v1`, `"ftp://x/v1`, `"https://me:secret@{registry}/v1`)
	case 5:
		e.Pattern, e.New = `[}]`, one(g, ``, `} more`, `, "modules.v1": {"x": 1}}`)
	case 6:
		e.Pattern, e.New = `"/v1.*"`, one(g, `""`, `null`, `["/v1/"]`)
	}
	return e
}

// editHashes changes the hashes in a mirror's documents.
func (g *generator) editHashes(path string) edit {
	e := edit{Server: "mirror", Path: path, Pattern: `"(h1|zh):[^"]*"`}
	kinds := 6
	if g.Engine == sources.OpenTofu {
		kinds = 9
	}
	switch g.IntN(kinds) {
	case 0:
		e.Pattern, e.New = `(?s)"hashes": \[.*?\]`, `"hashes": []`
	case 1:
		e.Pattern, e.New = `(?s)"hashes": \[.*?\],`, ``
	case 2:
		e.New = `"h9:unknown"`
	case 3:
		e.New = `"$1:wrong"`
	case 4:
		e.Pattern, e.New = `"h1:[^"]*"`, `"h1:wrong"`
	case 5:
		e.New = `"nohash"`
	case 6: // those of other platforms alone
		e.Pattern, e.New = `(?s)("{platform}": \{\s*"hashes": )\[.*?\]`, `$1[]`
	case 7, 8: // those of one kind
		e.Pattern, e.New = one(g, `"h1:[^"]*",\s*`, `,\s*"zh:[^"]*"`), ""
	}
	return e
}

// prior adds an earlier run.
func (g *generator) prior() {
	if !g.in(5) {
		return
	}
	g.Prior = one(g, "engine", "itself")
	for i := range g.Releases {
		g.Releases[i].Later = g.in(4)
	}
	g.Forgot = some(g, []string{"work/.terraform.lock.hcl", g.DataDir + "/providers", g.DataDir, "config.tfrc"}, 2)
	if g.CacheDir != "" && g.in(6) {
		g.Forgot = append(g.Forgot, g.CacheDir)
	}
	if len(g.Releases) > 0 && g.in(3) { // republished since
		r := one(g, g.Releases...)
		r.Later, r.Contents = true, one(g, "nested", "old name", "bare name")
		g.Releases = append(g.Releases, r)
	}
}

func (g *generator) flags() {
	g.Upgrade = g.in(6)
	g.ReadOnly = g.in(12) && (!g.Upgrade || g.in(8))
	if g.in(14) {
		for range 1 + g.IntN(2) {
			g.PluginDirs = append(g.PluginDirs, one(g, "{dir}/", "../")+g.tree(fmt.Sprintf("plugins%d", len(g.PluginDirs))))
		}
	}
}
