package cliconfig

import (
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// below returns a path below dir, or "" if dir is empty.
func (m Machine) below(dir string, elem ...string) string {
	if dir == "" {
		return ""
	}
	return m.join(dir, elem...)
}

// mainFile returns the main configuration file of e, which may not exist. It is empty
// if its directory is unknown.
func (m Machine) mainFile(e sources.Engine) string {
	candidates := []string{m.below(m.home(), ".terraformrc")}
	if m.GOOS == "windows" {
		candidates = []string{m.below(m.AppData, "terraform.rc")}
	}
	if e == sources.OpenTofu {
		candidates = append(m.tofuMainFiles(), candidates...)
	}
	for _, c := range candidates {
		if c != "" && m.exists(c) {
			return c
		}
	}
	if xdg := m.getenv("XDG_CONFIG_HOME"); e == sources.OpenTofu && m.GOOS != "windows" && xdg != "" {
		return m.join(xdg, "opentofu", "tofurc")
	}
	return candidates[0]
}

// tofuMainFiles returns the main files that OpenTofu prefers to Terraform's.
func (m Machine) tofuMainFiles() []string {
	if m.GOOS == "windows" {
		return []string{m.below(m.AppData, "tofu.rc")}
	}
	return []string{m.below(m.home(), ".tofurc")}
}

// configDir returns the directory in which e looks for *.tfrc files.
func (m Machine) configDir(e sources.Engine) string {
	dir := m.terraformDir()
	xdg := m.getenv("XDG_CONFIG_HOME")
	if e == sources.OpenTofu && m.GOOS != "windows" && xdg != "" && !m.exists(dir) {
		return m.join(xdg, "opentofu")
	}
	return dir
}

// terraformDir returns Terraform's directory for the user's data.
func (m Machine) terraformDir() string {
	if m.GOOS == "windows" {
		return m.below(m.AppData, "terraform.d")
	}
	return m.below(m.home(), ".terraform.d")
}

// dataDirs returns the directories in which e looks for plugins and credentials
// helpers.
func (m Machine) dataDirs(e sources.Engine) []string {
	dirs := []string{m.terraformDir()}
	if xdg := m.getenv("XDG_DATA_HOME"); e == sources.OpenTofu && m.GOOS != "windows" && xdg != "" {
		dirs = append(dirs, m.join(xdg, "opentofu"))
	}
	return slices.DeleteFunc(dirs, func(d string) bool { return d == "" })
}

// impliedDirs returns the directories that are searched for packages if the
// configuration has no installation methods. They may not exist.
func (m Machine) impliedDirs(e sources.Engine, workDir string) []string {
	dirs := []string{m.join(workDir, "terraform.d", "plugins")}
	for _, d := range m.dataDirs(e) {
		dirs = append(dirs, m.join(d, "plugins"))
	}
	return append(dirs, m.platformPluginDirs()...)
}

// platformPluginDirs returns the directories for programs of the operating system.
// OpenTofu also searches Terraform's.
func (m Machine) platformPluginDirs() []string {
	var dirs []string
	add := func(dir string, elem ...string) {
		if d := m.below(dir, elem...); d != "" && !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	switch m.GOOS {
	case "windows":
		add(m.AppData, "HashiCorp", "Terraform", "plugins")
	case "darwin":
		add(m.home(), "Library", "Application Support", "io.terraform", "plugins")
		add("/Library", "Application Support", "io.terraform", "plugins")
	default:
		for _, d := range m.xdgDataDirs() {
			add(d, "terraform", "plugins")
		}
	}
	return dirs
}

// xdgDataDirs returns the data directories by the XDG Base Directory Specification.
// It ignores relative paths, as the specification requires.
func (m Machine) xdgDataDirs() []string {
	home := m.getenv("XDG_DATA_HOME")
	if !path.IsAbs(home) {
		home = m.below(m.home(), ".local", "share")
	}
	dirs := m.getenv("XDG_DATA_DIRS")
	if dirs == "" {
		dirs = "/usr/local/share:/usr/share"
	}
	list := append([]string{home}, strings.Split(dirs, ":")...)
	return slices.DeleteFunc(list, func(d string) bool { return !path.IsAbs(d) })
}

// configDirFiles returns the files in the configuration directory that e reads.
func (m Machine) configDirFiles(e sources.Engine) []string {
	dir := m.configDir(e)
	if dir == "" {
		return nil
	}
	var files []string
	for _, name := range m.names(dir) {
		if strings.HasSuffix(name, ".tfrc") || strings.HasSuffix(name, ".tfrc.json") {
			files = append(files, m.join(dir, name))
		}
	}
	return files
}

// overrideFile returns the file that replaces all others, and the flag or variable
// that names it.
func (m Machine) overrideFile(opts Options) (file, by string) {
	if opts.ConfigFile != "" {
		return m.abs(m.WorkDir, opts.ConfigFile), "--config"
	}
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"} {
		if file := m.getenv(name); file != "" {
			return m.abs(m.WorkDir, file), name
		}
	}
	return "", ""
}
