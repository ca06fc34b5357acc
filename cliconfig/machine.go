package cliconfig

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"github.com/larder-cli/larder/sources/disk"
)

// A Machine is where configuration is looked up. Tests make their own, so the
// rules of every operating system hold on any.
type Machine struct {
	GOOS, GOARCH string
	Environ      []string // NAME=VALUE, as [os.Environ] has it
	Home         string   // the user's, as the user database has it; HOME wins except on Windows
	AppData      string   // roaming application data; Windows only
	CacheHome    string   // where programs keep the user's caches
	StateHome    string   // where programs keep the user's state
	ConfigDirs   []string // where programs keep configuration, the user's directory first
	WorkDir      string   // where the program was started
	Files        Files    // never nil
}

// Files are a Machine's files, by their paths on it.
type Files interface {
	// ReadFile reads a file, or a pipe until the context is done. Of a large file it
	// returns no more than limit bytes.
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
}

// This is the machine that the program runs on.
func This() Machine {
	m := Machine{
		GOOS:      runtime.GOOS,
		GOARCH:    runtime.GOARCH,
		Environ:   os.Environ(),
		AppData:   roamingAppData(),
		CacheHome: xdg.CacheHome,
		StateHome: xdg.StateHome,
		Files:     osFiles{},

		ConfigDirs: append([]string{xdg.ConfigHome}, xdg.ConfigDirs...),
	}
	if u, err := user.Current(); err == nil {
		m.Home = u.HomeDir
	}
	// Without a working directory relative paths stay relative, and opening
	// them says what is wrong.
	m.WorkDir, _ = os.Getwd()
	return m
}

type osFiles struct{}

// ReadFile reads pipes too, for process substitution in shells.
func (osFiles) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	f, err := disk.OpenAny(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })()
	data, err := io.ReadAll(disk.Reader(ctx, io.LimitReader(f, limit)))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return data, err
}

func (osFiles) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

func (osFiles) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// lookup is the value of a variable, and whether it is set at all.
func (m Machine) lookup(name string) (string, bool) {
	for _, assignment := range m.Environ {
		n, v, ok := strings.Cut(assignment, "=")
		if ok && (n == name || m.GOOS == "windows" && strings.EqualFold(n, name)) {
			return v, true
		}
	}
	return "", false
}

// getenv is the value of a variable, empty if it is not set.
func (m Machine) getenv(name string) string {
	v, _ := m.lookup(name)
	return v
}

// DumbTerminal reports whether the terminal, if there is one, is known to do no
// more than print.
func (m Machine) DumbTerminal() bool { return m.getenv("TERM") == "dumb" }

// Color is when output has colors: "always", "never" or "auto", which is on a terminal.
func (m Machine) Color() string {
	force := m.getenv("CLICOLOR_FORCE")
	switch {
	case m.getenv("NO_COLOR") != "":
		return "never"
	case force != "" && force != "0":
		return "always"
	case m.DumbTerminal():
		return "never"
	}
	return "auto"
}

// home is the user's home directory, empty if there is none.
func (m Machine) home() string {
	if home := m.getenv("HOME"); home != "" && m.GOOS != "windows" {
		return home
	}
	return m.Home
}

// join is dir and the elements below it, as paths are written on m.
func (m Machine) join(dir string, elem ...string) string {
	if m.GOOS == "windows" {
		return m.clean(strings.TrimRight(dir, `\/`) + `\` + strings.Join(elem, `\`))
	}
	return path.Join(append([]string{dir}, elem...)...)
}

// clean is p in its shortest form. What that is on Windows only Windows knows.
func (m Machine) clean(p string) string {
	switch {
	case m.GOOS != "windows":
		return path.Clean(p)
	case runtime.GOOS == "windows":
		return filepath.Clean(p)
	default:
		return p
	}
}

// dir is the directory that the file p is in.
func (m Machine) dir(p string) string {
	if m.GOOS == "windows" {
		return p[:strings.LastIndexAny(p, `\/`)+1]
	}
	return path.Dir(p)
}

// abs is p as seen from dir.
func (m Machine) abs(dir, p string) string {
	switch {
	case p == "" || p == ".":
		return dir
	case dir == "" || m.rooted(p):
		return m.clean(p)
	default:
		return m.join(dir, p)
	}
}

// rooted reports whether path means the same, or nearly, from every directory.
// On Windows \dir and C:dir depend on the current drive or its directory, which
// only the system knows: they stay as they are.
func (m Machine) rooted(path string) bool {
	if m.GOOS == "windows" {
		return strings.HasPrefix(path, `\`) || strings.HasPrefix(path, "/") || len(path) > 1 && path[1] == ':'
	}
	return strings.HasPrefix(path, "/")
}

func (m Machine) exists(path string) bool {
	_, err := m.Files.Stat(path)
	return err == nil
}

func (m Machine) isDir(path string) bool {
	info, err := m.Files.Stat(path)
	return err == nil && info.IsDir()
}

// names are the names in a directory, sorted; none if it cannot be read.
func (m Machine) names(dir string) []string {
	entries, err := m.Files.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}
