package cliconfig

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/adrg/xdg"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Machine is the system on which configuration is looked up. Tests create their
// own, so that the rules of each operating system can be tested on any other.
type Machine struct {
	GOOS, GOARCH string
	Environ      []string // NAME=VALUE, as in [os.Environ]
	Home         string   // the user's, from the user database; HOME takes precedence except on Windows
	AppData      string   // roaming application data; Windows only
	CacheHome    string   // directory for the user's caches
	StateHome    string   // directory for the user's state
	ConfigDirs   []string // directories for configuration, the user's first
	SiteDir      string   // directory for the configuration of the owner of the machine; empty if there is none
	WorkDir      string   // working directory of the program
	Program      string   // the program itself; links to it stand for engines, but are none
	Files        Files    // never nil
}

// SiteDir is the directory of Larder's file of the owner of the machine. No variable of the environment
// determines it, as a user could then evade the policy in it. Only tests set it.
var SiteDir = siteDir()

// Files are a Machine's files, by their paths on it.
type Files interface {
	// ReadFile reads a file, or a pipe until the context is done. It returns at most
	// limit bytes.
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	ReadDir(path string) ([]fs.DirEntry, error) // sorted by name
	Stat(path string) (fs.FileInfo, error)
	Lstat(path string) (fs.FileInfo, error)
}

// This returns the machine that the program runs on.
func This() Machine {
	m := Machine{
		GOOS:      runtime.GOOS,
		GOARCH:    runtime.GOARCH,
		Environ:   os.Environ(),
		AppData:   roamingAppData(),
		CacheHome: xdg.CacheHome,
		StateHome: xdg.StateHome,
		Files:     &osFiles{pipes: map[string][]byte{}},

		ConfigDirs: append([]string{xdg.ConfigHome}, xdg.ConfigDirs...),
		SiteDir:    SiteDir,
	}
	if u, err := user.Current(); err == nil {
		m.Home = u.HomeDir
	}
	m.withoutHome()
	// Without a working directory relative paths stay relative, and opening them
	// reports the error.
	m.WorkDir, _ = os.Getwd()
	m.Program, _ = os.Executable()
	return m
}

// withoutHome corrects the user's directories if HOME is not set. Without it they would be in the
// root directory.
func (m *Machine) withoutHome() {
	if m.GOOS == "windows" || m.Getenv("HOME") != "" || m.Home == "" {
		return
	}
	for variable, dir := range map[string]*string{
		"XDG_CACHE_HOME": &m.CacheHome, "XDG_STATE_HOME": &m.StateHome, "XDG_CONFIG_HOME": &m.ConfigDirs[0],
	} {
		if m.Getenv(variable) == "" && !strings.HasPrefix(*dir, m.Home+"/") {
			*dir = path.Join(m.Home, *dir)
		}
	}
}

type osFiles struct {
	mu    sync.Mutex
	pipes map[string][]byte // contents by path
}

// ReadFile also reads pipes, for process substitution in shells. A pipe can be read only once, so
// its contents are kept for later calls.
func (o *osFiles) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() {
		return readFile(ctx, path, limit)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.pipes[path]; ok {
		return data[:min(int64(len(data)), limit)], nil
	}
	data, err := readFile(ctx, path, limit)
	if err == nil {
		o.pipes[path] = data
	}
	return data, err
}

func readFile(ctx context.Context, path string, limit int64) ([]byte, error) {
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

func (*osFiles) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

func (*osFiles) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

func (*osFiles) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

// Getenv returns the value of a variable, or "" if it is not set.
func (m Machine) Getenv(name string) string {
	for _, assignment := range m.Environ {
		n, v, ok := strings.Cut(assignment, "=")
		if ok && (n == name || m.GOOS == "windows" && strings.EqualFold(n, name)) {
			return v
		}
	}
	return ""
}

// DumbTerminal reports whether TERM is "dumb", so that output must not contain
// control sequences.
func (m Machine) DumbTerminal() bool { return m.Getenv("TERM") == "dumb" }

// Pager returns the command line of the program that shows long help on a terminal, or nothing if there is to be none.
func (m Machine) Pager() []string {
	words := []string{"less", "-FX"}
	for _, name := range []string{"PAGER", "LARDER_PAGER"} {
		for _, assignment := range m.Environ { // an empty variable turns the pager off
			if value, set := strings.CutPrefix(assignment, name+"="); set {
				words = strings.Fields(value)
			}
		}
	}
	if len(words) == 0 || words[0] == "cat" || m.DumbTerminal() {
		return nil
	}
	return words
}

// Color returns when output is colored: "always", "never", or "auto" for terminals only.
// NO_COLOR takes precedence over CLICOLOR_FORCE, and that over TERM.
func (m Machine) Color() string {
	force := m.Getenv("CLICOLOR_FORCE")
	switch {
	case m.Getenv("NO_COLOR") != "":
		return "never"
	case force != "" && force != "0":
		return "always"
	case m.DumbTerminal():
		return "never"
	}
	return "auto"
}

// FlagVariable returns the name of the variable of a global flag, such as LARDER_NO_CACHE of
// no-cache. The variable of config is that of engines, because LARDER_CONFIG names Larder's own file.
func FlagVariable(flag string) string {
	if flag == "config" {
		return "TF_CLI_CONFIG_FILE"
	}
	return "LARDER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FlagValue returns the value of a global flag's variable, or "" if it is not set.
func (m Machine) FlagValue(flag string) string { return m.Getenv(FlagVariable(flag)) }

// WithoutChdir returns the environment without the variable of --chdir, for a program that runs in
// that directory.
func (m Machine) WithoutChdir() []string {
	if m.FlagValue("chdir") == "" {
		return m.Environ
	}
	return m.With(map[string]string{FlagVariable("chdir"): ""})
}

// ShimOutput is the variable that states what shims print.
const ShimOutput = "LARDER_SHIM_OUTPUT"

// ShimOutput returns the value of [ShimOutput], or "" if it is not set.
func (m Machine) ShimOutput() string { return m.Getenv(ShimOutput) }

// DataDir returns the data directory of engines. It is absolute, or relative to each root
// module.
func (m Machine) DataDir() string { return cmp.Or(m.Getenv("TF_DATA_DIR"), sources.DataDir) }

// CheckDataDir fails if TF_DATA_DIR names a file. Dir is the directory of the root module.
func (m Machine) CheckDataDir(dir string) error {
	set := m.Getenv("TF_DATA_DIR")
	if info, err := os.Stat(m.Abs(dir, set)); set != "" && err == nil && !info.IsDir() {
		return sources.WithHint(fmt.Errorf("TF_DATA_DIR: %s is not a directory", set), "name a directory, or unset it")
	}
	return nil
}

// Path returns the directories that programs are searched in.
func (m Machine) Path() string { return m.Getenv("PATH") }

// StateDir returns larder's own directory for the user's data, or "" if there is no state
// directory.
func (m Machine) StateDir() string { return m.join(m.StateHome, "larder") }

// ForOS returns one of two texts: that for Windows, or that for other systems.
func (m Machine) ForOS(windows, others string) string {
	if m.GOOS == "windows" {
		return windows
	}
	return others
}

// HomeDir returns the user's home directory, or "" if there is none.
func (m Machine) HomeDir() string {
	if home := m.Getenv("HOME"); home != "" && m.GOOS != "windows" {
		return home
	}
	return m.Home
}

// join returns a path below dir, with the separator of m, or "" if dir is empty.
func (m Machine) join(dir string, elem ...string) string {
	if dir == "" {
		return ""
	}
	if m.GOOS == "windows" {
		return m.clean(strings.TrimRight(dir, `\/`) + `\` + strings.Join(elem, `\`))
	}
	return path.Join(append([]string{dir}, elem...)...)
}

// clean returns p in its shortest form. On Windows it depends on rules that only
// Windows implements, so Larder changes p only if it runs there.
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

// Abs returns p, relative to dir unless it is rooted. Without a dir, p stays relative, and the call that opens
// it reports the error.
func (m Machine) Abs(dir, p string) string {
	switch {
	case p == "" || p == ".":
		return dir
	case dir == "" || m.rooted(p):
		return m.clean(p)
	default:
		return m.join(dir, p)
	}
}

// rooted reports whether path has the same meaning in every directory, or nearly. On
// Windows \dir and C:dir depend on the current drive or its directory, which only the
// system can resolve. They are left unchanged.
func (m Machine) rooted(path string) bool {
	onWindows := strings.HasPrefix(path, `\`) || len(path) > 1 && path[1] == ':'
	return strings.HasPrefix(path, "/") || m.GOOS == "windows" && onWindows
}

// Exists reports whether there is a file or a directory at a path.
func (m Machine) Exists(path string) bool {
	_, err := m.Files.Stat(path)
	return err == nil
}

func (m Machine) isDir(path string) bool {
	info, err := m.Files.Stat(path)
	return err == nil && info.IsDir()
}

// replaceable matches what a shell replaces in a path: the home directory of a user, and variables.
var replaceable = sources.Regexp(`^~(?:[\w.-]+)?(?:$|[/\\])|\$(?:\{\w+\}|env:\w+|[A-Za-z_]\w*)|%[A-Za-z_][\w()]*%`)

// CheckPath fails for a path that begins with ~ or contains a variable, if its reader expands neither. Engines take
// such a path literally, and create a directory named ~. CheckPath accepts URLs, and the name of an existing file
// unless that name is ~.
func (m Machine) CheckPath(path string) error {
	if strings.Contains(path, "://") {
		return nil
	}
	for _, at := range replaceable().FindAllStringIndex(path, -1) {
		found := strings.TrimRight(path[at[0]:at[1]], `/\`)
		end := at[0] + len(found)
		tail, _, _ := strings.Cut(strings.ReplaceAll(path[end:], m.ForOS(`\`, "/"), "/"), "/")
		if found == "~" || !m.Exists(m.Abs(m.WorkDir, path[:end+len(tail)])) {
			err := fmt.Errorf("only a shell expands %s in %q", found, path)
			return sources.WithHint(err, "write the path in full")
		}
	}
	return nil
}

// checkPath is CheckPath for the path in a setting or a variable.
func (m Machine) checkPath(setting, path string) error {
	if err := m.CheckPath(path); err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	return nil
}
