package cliconfig

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// mainFile returns the main configuration file of e, which may not exist. It is empty
// if its directory is unknown.
func (m Machine) mainFile(e sources.Engine) string {
	dir := m.ForOS(m.AppData, m.HomeDir())
	names := strings.Fields(m.ForOS("tofu.rc terraform.rc", ".tofurc .terraformrc"))
	if e != sources.OpenTofu {
		names = names[1:]
	}
	for _, name := range names {
		if path := m.join(dir, name); m.Exists(path) {
			return path
		}
	}
	if xdg := m.tofuDir(e, "XDG_CONFIG_HOME"); xdg != "" {
		return m.join(xdg, "tofurc")
	}
	return m.join(dir, names[0])
}

// tofuDir returns OpenTofu's directory below the one in an XDG variable. It is empty if the variable
// is, for Terraform, and on Windows.
func (m Machine) tofuDir(e sources.Engine, variable string) string {
	if e != sources.OpenTofu || m.GOOS == "windows" {
		return ""
	}
	return m.join(m.Getenv(variable), "opentofu")
}

// configDir returns the directory in which e looks for *.tfrc files.
func (m Machine) configDir(e sources.Engine) string {
	dir := m.terraformDir()
	if xdg := m.tofuDir(e, "XDG_CONFIG_HOME"); xdg != "" && !m.Exists(dir) {
		return xdg
	}
	return dir
}

// terraformDir returns Terraform's directory for the user's data.
func (m Machine) terraformDir() string {
	return m.join(m.ForOS(m.AppData, m.HomeDir()), m.ForOS("terraform.d", ".terraform.d"))
}

// dataDirs returns the directories in which e looks for plugins and credentials
// helpers.
func (m Machine) dataDirs(e sources.Engine) []string {
	dirs := []string{m.terraformDir(), m.tofuDir(e, "XDG_DATA_HOME")}
	return slices.DeleteFunc(dirs, func(d string) bool { return d == "" })
}

// MirrorDirs returns the directories of the filesystem mirrors in force: those that installation methods name, or else
// the implied ones.
func (c *Config) MirrorDirs() (dirs []string) {
	if c.Implied {
		return c.ImpliedDirs()
	}
	for _, m := range c.Methods {
		if m.Kind == FilesystemMirror {
			dirs = append(dirs, m.Path)
		}
	}
	return dirs
}

// ImpliedDirs returns the directories that serve as filesystem mirrors, in order, if
// the configuration has no installation methods. All of them exist.
func (c *Config) ImpliedDirs() []string {
	return slices.DeleteFunc(c.ImpliedPlaces(), func(dir string) bool { return !c.machine.isDir(dir) })
}

// ImpliedPlaces returns the paths of the ImpliedDirs, which may not exist. OpenTofu also searches those that
// the operating system has for Terraform.
func (c *Config) ImpliedPlaces() (dirs []string) {
	m := c.machine
	add := func(dir string, elem ...string) {
		if d := m.join(dir, elem...); d != "" && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	add(c.WorkDir, "terraform.d", "plugins")
	for _, data := range m.dataDirs(c.Engine) {
		add(data, "plugins")
	}
	switch m.GOOS {
	case "windows":
		add(m.AppData, "HashiCorp", "Terraform", "plugins")
	case "darwin":
		add(m.HomeDir(), "Library", "Application Support", "io.terraform", "plugins")
		add("/Library", "Application Support", "io.terraform", "plugins")
	default:
		for _, data := range m.xdgDataDirs() {
			add(data, "terraform", "plugins")
		}
	}
	return dirs
}

// xdgDataDirs returns the data directories by the XDG Base Directory Specification.
// It ignores relative paths, as the specification requires.
func (m Machine) xdgDataDirs() []string {
	home := m.Getenv("XDG_DATA_HOME")
	if !path.IsAbs(home) {
		home = m.join(m.HomeDir(), ".local", "share")
	}
	dirs := cmp.Or(m.Getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share")
	return slices.DeleteFunc(strings.Split(home+":"+dirs, ":"), func(d string) bool { return !path.IsAbs(d) })
}
