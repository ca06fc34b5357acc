package cliconfig

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
)

// WasRead reports whether the file could be read, also if it has errors.
func (f Input) WasRead() bool {
	return f.State == FileRead || f.State == FileFaulty || f.State == FileUnparsed
}

// What files are for.
const (
	mainFile  = "CLI configuration"
	moreFile  = "more CLI configuration" // in the configuration directory
	noMore    = "additional files, also *.tfrc.json"
	siteFile  = "this machine's configuration of Larder"
	ownFile   = "Larder's own configuration"
	netrcFile = "passwords for archives"
)

// inputFiles returns the files that Load looks for, in the order in which it reads them, each with those that are not
// read because of it.
func (m Machine) inputFiles(e sources.Engine, opts Options) []Input {
	named := Input{Name: opts.ConfigFile, By: "--config"}
	files := m.instead(m.usualFiles(e), named, m.naming("TF_CLI_CONFIG_FILE"), m.naming("TERRAFORM_CONFIG"))
	files = slices.Concat(files, []Input{m.siteFile()}, m.ownFile(), m.netrcFile())
	for i := range files {
		files[i].State = cmp.Or(files[i].State, FileMissing)
	}
	return slices.DeleteFunc(files, func(f Input) bool { return f.Name == "" })
}

// naming returns the file that a variable names.
func (m Machine) naming(variable string) Input { return Input{Name: m.Getenv(variable), By: variable} }

// instead returns the usual files, or the first file that is named, and those that are then not read: the others that
// are named, and the usual ones that exist.
func (m Machine) instead(usual []Input, named ...Input) []Input {
	var files []Input
	for _, f := range append(named, usual...) {
		first := len(files) == 0
		switch {
		case f.Name == "" || f.By == "" && first:
			continue
		case f.By != "":
			f.Name = m.Abs(m.WorkDir, f.Name)
		case f.Name == files[0].Name || !m.Exists(f.Name):
			continue
		}
		if f.What = usual[0].What; !first {
			f.State, f.Fault = FileUnread, "overridden by "+files[0].By
		}
		files = append(files, f)
	}
	if files == nil {
		return usual
	}
	return files
}

// usualFiles returns the files of the CLI configuration that e reads if no flag or variable names another: the main
// file, and those in the configuration directory.
func (m Machine) usualFiles(e sources.Engine) []Input {
	files := []Input{{Name: m.mainFile(e), What: mainFile}}
	dir := m.configDir(e)
	entries, _ := m.Files.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tfrc") || strings.HasSuffix(e.Name(), ".tfrc.json") {
			files = append(files, Input{Name: m.join(dir, e.Name()), What: moreFile})
		}
	}
	if len(files) == 1 {
		files = append(files, Input{Name: m.join(dir, "*.tfrc"), What: noMore})
	}
	return files
}

// siteFile returns Larder's file of the owner of the machine. No flag and no variable replaces it.
func (m Machine) siteFile() Input {
	return Input{Name: m.join(m.SiteDir, "config.hcl"), What: siteFile}
}

// ownFile returns Larder's own file: the one that LARDER_CONFIG names, else the first one in the configuration
// directories, else the one to create there.
func (m Machine) ownFile() []Input {
	usual := Input{What: ownFile}
	for _, dir := range m.ConfigDirs {
		f := Input{Name: m.join(dir, "larder", "config.hcl"), What: ownFile}
		if !m.absent(f) {
			usual = f
			break
		}
		usual.Name = cmp.Or(usual.Name, f.Name)
	}
	return m.instead([]Input{usual}, m.naming("LARDER_CONFIG"))
}

// netrcFile returns the user's netrc file.
func (m Machine) netrcFile() []Input {
	usual := Input{Name: m.join(m.HomeDir(), m.ForOS("_netrc", ".netrc")), What: netrcFile}
	return m.instead([]Input{usual}, m.naming("NETRC"))
}

// load reads a file into the configuration. Files at their usual paths may be missing. One in the
// configuration directory was seen there, so it is missing only if it is a link to nowhere.
func (l *loader) load(f *Input) {
	if f.State == FileUnread || f.By == "" && l.absent(*f) ||
		l.CheckPath(l.Getenv(f.By)) != nil { // an error of the variable
		return
	}
	src, err := l.contents(*f)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			f.State = FileLocked
		}
		l.cannotRead(*f, err)
		return
	}
	f.State = FileRead
	before := len(l.diags)
	defer func() { l.diags[before:].Sort() }()
	if f.What == netrcFile {
		l.readNetrc(f.Name, string(src))
		return
	}
	root, bad := syntax.Parse(f.Name, src)
	switch {
	case bad != nil:
		f.State = FileUnparsed
		l.diags = append(l.diags, *bad)
	case f.What == siteFile:
		l.ownConfig(root, policy.Site)
	case f.What == ownFile:
		l.ownConfig(root, policy.User)
	default:
		l.cliConfig(root)
	}
}

// findFaulty sets the state of the files that could be parsed and have errors.
func (l *loader) findFaulty() {
	for i, f := range l.config.files {
		fault := func(d sources.Diagnostic) bool { return d.File == f.Name && !d.Warning }
		if f.State == FileRead && slices.ContainsFunc(l.diags, fault) {
			l.config.files[i].State = FileFaulty
		}
	}
}

// absent reports whether there is no file at a usual path. There may be one that can't be read: of Larder's own files,
// a link to nowhere, and of the site's, anything at its path or in place of its directory, because the policy in it may
// forbid what would then be allowed. Windows reports what is below a file as missing.
func (m Machine) absent(f Input) bool {
	_, err := m.Files.Lstat(f.Name)
	switch f.What {
	case moreFile:
		return false
	case siteFile:
		_, dirErr := m.Files.Lstat(m.SiteDir)
		return errors.Is(dirErr, fs.ErrNotExist) || m.isDir(m.SiteDir) && errors.Is(err, fs.ErrNotExist)
	case ownFile:
		return err != nil
	}
	return !m.Exists(f.Name)
}

// contents reads a file. If the file exceeds the limit, it returns one byte more than the limit, and the parser reports
// the error. A pipe at the usual path of one of Larder's own files is refused: its contents are gone when it has been
// read.
func (l *loader) contents(f Input) ([]byte, error) {
	info, err := l.Files.Stat(f.Name)
	if err == nil && f.By == "" && (f.What == siteFile || f.What == ownFile) && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: f.Name, Err: disk.ErrNotRegular}
	}
	return l.readFile(f.Name)
}

// readFile reads a file, with the limit of contents.
func (l *loader) readFile(path string) ([]byte, error) {
	return l.Files.ReadFile(l.ctx, path, syntax.MaxFileSize+1)
}

// cannotRead reports a file that cannot be read. If the engines only warn about it, so does larder,
// because variables often name files that no longer exist. The netrc file belongs to other programs.
func (l *loader) cannotRead(f Input, err error) {
	d := syntax.Fault(Place{File: f.Name}, "make the file readable", "%v", disk.Cause(err))
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case l.isDir(f.Name):
		d.Text, d.Hint = "is a directory", "remove or rename it: only a file can be read"
	case f.What == siteFile && l.Exists(l.SiteDir) && !l.isDir(l.SiteDir): // Windows reports a missing file
		d.Text, d.Hint = "not a directory", "remove or rename "+l.SiteDir+", which is a file"
	case missing:
		d.Hint = "its path leads through a link to nowhere: put the file where it leads, or correct the link"
	case errors.Is(err, disk.ErrNotRegular):
		d.Hint = "remove or rename it: only a regular file can be read"
	case f.What == mainFile || f.What == moreFile:
		d.Hint += ": without it, larder would use other sources than you configured"
	}
	switch f.By {
	case "":
	case "--config":
		d.Hint = "name a CLI configuration that you may read"
	default:
		d.Text += " (named by " + f.By + ")"
		d.Hint = "unset " + f.By + " if the file is not needed"
		d.Warning = missing && f.What == mainFile
	}
	if l.ctx.Err() != nil {
		d.Hint = ""
	}
	d.Warning = d.Warning || f.What == netrcFile
	l.diags = append(l.diags, *d)
}
