package cliconfig

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
)

// A file is one that Load reads if it exists.
type file struct {
	path  string
	kind  fileKind
	by    string // flag or variable that names it; empty at the usual path
	state string // as InputFiles has it; empty if the file is missing
	err   error  // why it could not be read
}

// wasRead reports whether the file could be read, also if it has errors.
func (f file) wasRead() bool { return f.state != "" && f.state != FileLocked }

// A fileKind is what a file is for, in words.
type fileKind string

const (
	mainFile  fileKind = "CLI configuration"
	moreFile  fileKind = "more CLI configuration" // in the configuration directory
	siteFile  fileKind = "this machine's configuration of Larder"
	ownFile   fileKind = "Larder's own configuration"
	netrcFile fileKind = "passwords for archives"
)

// inputFiles returns the files that Load looks for, in the order in which it reads them.
func (m Machine) inputFiles(e sources.Engine, opts Options) []file {
	files := append(m.cliFiles(e, opts), m.siteFile(), m.ownFile(), m.netrcFile())
	return slices.DeleteFunc(files, func(f file) bool { return f.path == "" })
}

// cliFiles returns the files of the CLI configuration: one that is named, or else the main file and
// those in the configuration directory.
func (m Machine) cliFiles(e sources.Engine, opts Options) []file {
	if opts.ConfigFile != "" {
		return []file{{path: m.abs(m.WorkDir, opts.ConfigFile), kind: mainFile, by: "--config"}}
	}
	for _, name := range []string{"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"} {
		if path := m.getenv(name); path != "" {
			return []file{{path: m.abs(m.WorkDir, path), kind: mainFile, by: name}}
		}
	}
	return m.usualFiles(e)
}

// usualFiles returns the files of the CLI configuration that e reads if no flag or variable names another.
func (m Machine) usualFiles(e sources.Engine) []file {
	files := []file{{path: m.mainFile(e), kind: mainFile}}
	dir := m.configDir(e)
	entries, _ := m.Files.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tfrc") || strings.HasSuffix(e.Name(), ".tfrc.json") {
			files = append(files, file{path: m.join(dir, e.Name()), kind: moreFile})
		}
	}
	return files
}

// siteFile returns Larder's file of the owner of the machine. No flag and no variable replaces it.
func (m Machine) siteFile() file {
	return file{path: m.join(m.SiteDir, siteName), kind: siteFile}
}

// siteName is the name of the file of the site in its directory.
const siteName = "config.hcl"

// ownFile returns Larder's own file: the one that LARDER_CONFIG names, else the first one in the
// configuration directories, else the one to create there.
func (m Machine) ownFile() file {
	const variable = "LARDER_CONFIG"
	if path := m.getenv(variable); path != "" {
		return file{path: m.abs(m.WorkDir, path), kind: ownFile, by: variable}
	}
	toCreate := ""
	for _, dir := range m.ConfigDirs {
		f := file{path: m.join(dir, "larder", "config.hcl"), kind: ownFile}
		if !m.absent(f) {
			return f
		}
		toCreate = cmp.Or(toCreate, f.path)
	}
	return file{path: toCreate, kind: ownFile}
}

// netrcFile returns the user's netrc file.
func (m Machine) netrcFile() file {
	if path := m.getenv("NETRC"); path != "" {
		return file{path: m.abs(m.WorkDir, path), kind: netrcFile, by: "NETRC"}
	}
	return file{path: m.join(m.home(), m.forOS("_netrc", ".netrc")), kind: netrcFile}
}

// load reads a file into the configuration. Files at their usual paths may be missing. One in the
// configuration directory was seen there, so it is missing only if it is a link to nowhere.
func (l *loader) load(f *file) {
	if f.by == "" && l.absent(*f) || l.CheckPath(l.getenv(f.by)) != nil { // an error of the variable
		return
	}
	src, err := l.contents(*f)
	if f.err = err; err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.state = FileLocked
		}
		l.cannotRead(*f, err)
		return
	}
	f.state = FileRead
	defer l.sort(len(l.diags))
	if f.kind == netrcFile {
		l.readNetrc(f.path, string(src))
		return
	}
	root, bad := parse(f.path, src)
	switch {
	case bad != nil:
		f.state = FileUnparsed
		l.diags = append(l.diags, *bad)
	case f.kind == siteFile:
		l.ownConfig(root, policy.Site)
	case f.kind == ownFile:
		l.ownConfig(root, policy.User)
	default:
		l.cliConfig(root)
	}
}

// findFaulty sets the state of the files that could be parsed and have errors.
func (l *loader) findFaulty() {
	for i, f := range l.config.files {
		fault := func(d sources.Diagnostic) bool { return d.File == f.path && !d.Warning }
		if f.state == FileRead && slices.ContainsFunc(l.diags, fault) {
			l.config.files[i].state = FileFaulty
		}
	}
}

// absent reports whether there is no file at a usual path. There may be one that can't be read: of Larder's own files, a
// link to nowhere, and of the site's, anything at its path or in place of its directory, because the policy in it may
// forbid what would then be allowed. Windows reports what is below a file as missing.
func (m Machine) absent(f file) bool {
	_, err := m.Files.Lstat(f.path)
	switch f.kind {
	case moreFile:
		return false
	case siteFile:
		_, dirErr := m.Files.Lstat(m.SiteDir)
		return errors.Is(dirErr, fs.ErrNotExist) || m.isDir(m.SiteDir) && errors.Is(err, fs.ErrNotExist)
	case ownFile:
		return err != nil
	}
	return !m.exists(f.path)
}

// contents reads a file. If the file exceeds the limit, it returns one byte more than the limit, and the parser reports the
// error. A pipe at the usual path of one of Larder's own files is refused: its contents are gone when it has been read.
func (l *loader) contents(f file) ([]byte, error) {
	info, err := l.Files.Stat(f.path)
	if err == nil && f.by == "" && (f.kind == siteFile || f.kind == ownFile) && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: f.path, Err: disk.ErrNotRegular}
	}
	return l.readFile(f.path)
}

// readFile reads a file, with the limit of contents.
func (l *loader) readFile(path string) ([]byte, error) {
	return l.Files.ReadFile(l.ctx, path, maxFileSize+1)
}

// cannotRead reports a file that cannot be read. If the engines only warn about it, so does larder,
// because variables often name files that no longer exist. The netrc file belongs to other programs.
func (l *loader) cannotRead(f file, err error) {
	d := fault(Place{File: f.path}, "make the file readable", "%v", disk.Cause(err))
	isDir, missing := l.isDir(f.path), errors.Is(err, fs.ErrNotExist)
	switch {
	case isDir:
		d.Text, d.Hint = "is a directory", "remove or rename it: only a file can be read"
	case f.kind == siteFile && l.exists(l.SiteDir) && !l.isDir(l.SiteDir): // Windows reports a missing file
		d.Text, d.Hint = "not a directory", "remove or rename "+l.SiteDir+", which is a file"
	case f.by == "" && missing:
		d.Hint = "its path leads through a link to nowhere: remove the link, or put the file where it leads"
	case errors.Is(err, disk.ErrNotRegular):
		d.Hint = "remove or rename it: only a regular file can be read"
	case f.kind == mainFile || f.kind == moreFile:
		d.Hint += ": without it, larder would use other sources than you configured"
	}
	if f.by != "" && f.by != "--config" {
		d.Text += " (named by " + f.by + ")"
	}
	switch {
	case l.ctx.Err() != nil:
		d.Hint = ""
	case f.by == "":
	case f.by == "--config" && isDir:
		d.Hint = "name a file, not a directory"
	case f.by == "--config":
		d.Hint = "name a CLI configuration that you may read"
	case isDir:
		d.Hint = "name a file in " + f.by + ", or unset it"
	case missing:
		d.Hint, d.Warning = "unset "+f.by+" if the file is not needed", f.kind == mainFile
	default:
		d.Hint = "make the file readable, or unset " + f.by
	}
	d.Warning = d.Warning || f.kind == netrcFile
	l.diags = append(l.diags, *d)
}
