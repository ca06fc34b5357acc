package cliconfig

import (
	"cmp"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// What doctor examines: places of settings, and inputs that have no effect.

// MainFile returns the file of the CLI configuration that was read first, or "" if none was.
func (c *Config) MainFile() string {
	for _, f := range c.files {
		if f.WasRead() && (f.What == mainFile || f.What == moreFile) {
			return f.Name
		}
	}
	return ""
}

// An UnreadFile is a CLI configuration that exists, but isn't read.
type UnreadFile struct {
	Path     string
	By       string // variable that names another file; empty if the name or the directory is the reason
	RenameTo string // the name under which it is read; empty if it has a usual name
}

// UnreadFiles returns the files that look like a CLI configuration, but that the engine doesn't read: it reads the
// file that a variable names instead, or the name or the directory is not the usual one.
func (c *Config) UnreadFiles() []UnreadFile {
	m := c.machine
	named, _ := c.Setting(mainFile, "")
	if named.From.By == "--config" {
		return nil
	}
	read := map[string]bool{}
	var all []UnreadFile
	add := func(path, by, name string) {
		info, err := m.Files.Stat(path)
		if path != "" && !read[path] && err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			read[path] = true
			all = append(all, UnreadFile{path, by, name})
		}
	}
	for _, f := range c.files {
		if f.State == FileUnread && f.What == mainFile {
			add(f.Name, named.From.By, "")
		}
		read[f.Name] = true
	}
	home := m.ForOS(m.AppData, m.HomeDir())
	for _, dir := range []string{home, m.terraformDir(), m.WorkDir} {
		for _, name := range similarNames {
			meant := m.join(home, m.ForOS("terraform.rc", ".terraformrc"))
			if strings.Contains(name, "tofu") {
				meant = m.join(home, m.ForOS("tofu.rc", ".tofurc"))
			}
			if path := m.join(dir, name); path != meant {
				add(path, "", meant)
			}
		}
	}
	if c.Engine == sources.OpenTofu && m.GOOS != "windows" {
		config := cmp.Or(m.Getenv("XDG_CONFIG_HOME"), m.join(m.HomeDir(), ".config"))
		add(m.join(config, "opentofu", "tofurc"), "", m.mainFile(c.Engine))
	}
	return all
}

// similarNames are names of configuration files. Each system reads those of its own, and only in one directory.
var similarNames = []string{
	".terraformrc", "terraformrc", "terraform.rc", ".terraform.rc",
	".tofurc", "tofurc", "tofu.rc", ".tofu.rc", ".opentofurc",
}

// knownVariables are variables of engines that Load doesn't read, and of tools around them. Those that end in _
// begin the names of others.
var knownVariables = strings.Fields(`
	TF_VAR_ TF_LOG TF_LOG_ TF_INPUT TF_IN_AUTOMATION TF_IGNORE TF_CLI_ARGS_ TF_CLOUD_
	TF_STATE_PERSIST_INTERVAL TF_ENCRYPTION TF_HTTP_ TF_ACC TF_TEST_ TF_SKIP_ TF_TEMP_ TF_DISABLE_PLUGIN_TLS
	TF_PLUGIN_MAGIC_COOKIE TF_FORK TF_PROVIDER_CONFIG_ TF_BUILD TF_ROOT TF_STATE_NAME TF_ADDRESS TF_USERNAME
	TF_PASSWORD TF_VERSION TF_API_TOKEN TF_DIR TF_ORGANIZATION TF_HOSTNAME TF_TOKEN_
`)

var aboutProviders = sources.Regexp("PLUGIN|PROVIDER|MIRROR|REGISTRY|CACHE")

// leastToGuess is how long a name must be to be taken for the beginning of another one.
const leastToGuess = 9

// An IgnoredVariable is a variable that engines don't read.
type IgnoredVariable struct {
	Name  string
	Meant string // the variable that it is probably meant to be; empty if there is none
}

// IgnoredVariables returns the variables whose names begin with TF_ and that engines don't read, if they are
// misspelled, or seem to be about providers. Other tools have such variables too.
func (c *Config) IgnoredVariables() []IgnoredVariable {
	exact := []string{}
	for _, v := range c.variables() {
		exact = append(exact, v.name)
	}
	known := slices.Concat(exact, knownVariables)
	var all []IgnoredVariable
	for _, assignment := range c.machine.Environ {
		name, value, _ := strings.Cut(assignment, "=")
		if value == "" {
			continue
		}
		upper := strings.ToUpper(name)
		isKnown := func(known string) bool {
			return name == known || strings.HasSuffix(known, "_") && strings.HasPrefix(name, known)
		}
		if !strings.HasPrefix(upper, "TF_") || slices.ContainsFunc(known, isKnown) {
			continue
		}
		switch meant := sources.Nearest(name, exact); {
		case upper != name && slices.Contains(exact, upper) && c.machine.GOOS != "windows":
			all = append(all, IgnoredVariable{name, upper})
		case upper == strings.TrimSuffix(TokenPrefix, "_"):
			all = append(all, IgnoredVariable{name, TokenPrefix + "HOST"})
		case len(name) >= leastToGuess && meant != "" && upper == name:
			all = append(all, IgnoredVariable{name, meant})
		case aboutProviders().MatchString(name):
			all = append(all, IgnoredVariable{name, ""})
		}
	}
	slices.SortFunc(all, func(a, b IgnoredVariable) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// UnsearchedDirs returns existing directories that are almost those of [Config.ImpliedDirs], each with the one that
// was probably meant.
func (c *Config) UnsearchedDirs() (dirs [][2]string) {
	m := c.machine
	user := m.join(m.terraformDir(), "plugins")
	local := m.join(c.WorkDir, "terraform.d", "plugins")
	for dir, meant := range map[string]string{
		m.join(m.terraformDir(), "providers"):                 user,
		m.join(m.HomeDir(), "terraform.d", "plugins"):         user,
		m.join(m.HomeDir(), ".opentofu.d", "plugins"):         user,
		m.join(m.HomeDir(), ".tofu.d", "plugins"):             user,
		m.join(m.HomeDir(), ".config", "opentofu", "plugins"): user,
		m.join(c.WorkDir, ".terraform.d", "plugins"):          local,
		m.join(c.WorkDir, "terraform.d", "providers"):         local,
		m.join(c.WorkDir, "terraform.d"):                      local,
		m.join(c.WorkDir, m.DataDir(), "plugins"):             local,
	} {
		if m.isDir(dir) && dir != user && dir != local && !slices.Contains(c.ImpliedDirs(), dir) {
			dirs = append(dirs, [2]string{dir, meant})
		}
	}
	slices.SortFunc(dirs, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return dirs
}
