package cliconfig

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/sources"
)

// chooseHelper sets the credentials helper, if a block names one and its program is installed.
func (l *loader) chooseHelper() {
	b := l.helper
	if b.Line == 0 {
		return
	}
	var dirs []string
	for _, data := range l.dataDirs(l.engine) {
		plugins := l.join(data, "plugins")
		dirs = append(dirs, plugins, l.join(plugins, l.GOOS+"_"+l.GOARCH))
	}
	path := l.newestHelper(dirs, b.name)
	l.config.note(Setting{Name: "credentials_helper", Value: b.name, From: b.Place})
	if path == "" {
		l.warnf(b.Place, "put it into one of "+strings.Join(dirs, ", "),
			"terraform-credentials-%s is not installed, so it provides no credentials", b.name)
		return
	}
	l.config.helper = &credentials.Helper{Name: b.name, Path: path, Args: b.args, Programs: l.config.oci.Programs}
}

// newestHelper returns the newest program for a helper in directories, or "" if there is none. One
// without a version in its name is the oldest. Old names end in the version of a protocol.
func (l *loader) newestHelper(dirs []string, name string) (path string) {
	program := regexp.MustCompile(`(?i)^terraform-credentials-` + regexp.QuoteMeta(name) + `(?:_v(.+?)(?:_x.*)?)?(?:\.exe)?$`)
	var newest sources.Version
	for _, dir := range dirs {
		entries, _ := l.Files.ReadDir(dir)
		for _, e := range entries {
			file := l.join(dir, e.Name())
			m := program.FindStringSubmatch(e.Name())
			if m == nil || l.isDir(file) {
				continue
			}
			v, err := sources.ParseVersion(cmp.Or(m[1], "0.0.0"))
			if err == nil && (path == "" || v.Compare(newest) > 0) {
				path, newest = file, v
			}
		}
	}
	return path
}
