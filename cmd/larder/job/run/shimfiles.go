package run

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// shimEngines makes a program run shims instead of the engines on PATH and the engine that Terragrunt
// is configured to run. The shims are in subdirectories of home, which all programs share.
func shimEngines(s *site.Site, home string, in programs.Invocation, next *site.Program, flags []string) error {
	larder, err := ownPath(s.Machine.WorkDir)
	if err != nil {
		return err
	}
	isShim := func(path string) bool { return site.IsLarder(path, larder) || site.IsScript(path) }
	engine, err := engineToReplace(s, in.EnginePath)
	if err != nil {
		return err
	}
	if engine != "" && !isShim(engine) {
		engine, script, err := shimScript(s, engine, larder)
		if err != nil {
			return err
		}
		file := programs.ScriptFile(s.Machine, string(engine))
		dir, err := putShims(home, larder, []wantedShim{{path: file, content: script, script: true}})
		if err != nil {
			return err
		}
		next.Line, s.Machine.Environ = programs.RunEngine(s.Machine, next.Line, filepath.Join(dir, file))
	}
	var links []wantedShim
	for _, engine := range site.BothEngines {
		if on := s.Machine.Programs(string(engine)); len(on) > 0 && !isShim(on[0]) {
			links = append(links, wantedShim{path: s.Machine.ProgramFile(string(engine)), content: larder})
		}
	}
	dir, err := putShims(home, larder, links)
	next.Environ = programs.ForProgram(s.Machine, dir, flags)
	return err
}

// engineToReplace returns the path of the engine that Terragrunt is told to run, or "" if it is found on
// PATH as it is. It warns about one that runs without larder.
func engineToReplace(s *site.Site, typed string) (path string, err error) {
	name := filepath.Base(typed)
	switch {
	case typed == "", name == typed && slices.Contains(site.BothEngines, sources.Engine(name)):
		return "", nil
	case name == typed && programs.EngineOf(s.Machine, name) != "":
		return site.LookPath(typed)
	case filepath.IsAbs(typed) && programs.EngineOf(s.Machine, name) != "":
		return typed, nil
	}
	s.Output.Warn("%s runs without larder: TG_TF_PATH or --tf-path makes Terragrunt run it", typed)
	s.Output.Hint("write the absolute path of a program named terraform or tofu, or its name if it is on PATH")
	return "", nil
}

// putShims puts shims, whose paths are their names, into a directory of their own below home. It returns
// the directory, or "" without shims.
func putShims(home, larder string, all []wantedShim) (dir string, err error) {
	if len(all) == 0 {
		return "", nil
	}
	key := sha256.New()
	for _, w := range all {
		fmt.Fprintf(key, "%s\x00%s\x00", w.path, w.content)
	}
	dir = filepath.Join(home, hex.EncodeToString(key.Sum(nil)[:16]))
	if err := checkShims(dir, all); err != nil {
		return "", err
	}
	for _, w := range all {
		w.path = filepath.Join(dir, w.path)
		if _, err := w.change(larder, false); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// shimScript returns the script that runs larder for the engine at path, which doesn't need PATH.
func shimScript(s *site.Site, path, larder string) (engine sources.Engine, script string, err error) {
	engine = programs.EngineOf(s.Machine, path)
	if _, err := os.Stat(path); err != nil {
		return "", "", fmt.Errorf("%s: %w", path, disk.Cause(err))
	}
	if engine == "" {
		err := fmt.Errorf("%s is not terraform or tofu", path)
		const hint = "name the program of an engine: larder shim --engine-path /usr/bin/terraform DIR"
		return "", "", report.Usage(sources.WithHint(err, hint))
	}
	if _, err := site.LookPath(path); err != nil {
		return "", "", err
	}
	if site.IsLarder(path, larder) || site.IsScript(path) {
		return "", "", sources.WithHint(fmt.Errorf("%s is a shim itself", path), "name the program of an engine")
	}
	line := []string{larder, "exec", "--as-shim", "--engine-path", path, "--", string(engine)}
	return engine, programs.ShimScript(s.Machine, line), nil
}

// checkShims returns an error if another user can put programs into the directory of shims, which
// comes first on PATH, or if it has other programs.
func checkShims(dir string, all []wantedShim) error {
	made, err := disk.Make(dir)
	if err != nil {
		return err
	}
	defer made.Close()
	for at, above := dir, 0; above < 3; at, above = filepath.Dir(at), above+1 { // KEY, shims, larder
		if info, err := os.Lstat(at); err != nil || !info.IsDir() || !disk.Own(info) {
			return errors.Join(err, fmt.Errorf("%s is not a directory that only you can write to", at))
		}
	}
	entries, err := made.ReadDir()
	for _, e := range entries {
		wanted := slices.ContainsFunc(all, func(w wantedShim) bool { return w.path == e.Name() })
		if !wanted && !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%s is not a shim", filepath.Join(dir, e.Name()))
		}
	}
	return err
}

// ownPath returns the path of this program as it was started. It is not resolved: a package
// manager may replace the target of a link to larder when it installs another version.
func ownPath(dir string) (string, error) {
	actual, err := os.Executable()
	if err != nil {
		return "", err
	}
	started, err := exec.LookPath(os.Args[0])
	if err == nil && site.IsSame(site.Absolute(dir, started), actual) {
		return site.Absolute(dir, started), nil
	}
	return actual, nil
}

// A wantedShim is what is to be at a path.
type wantedShim struct {
	path    string
	content string // the target of a link, or the text of a script; empty if nothing is to be there
	script  bool
}

// change makes what is at the path what is wanted, and returns what it did. It replaces and removes
// shims only.
func (w wantedShim) change(larder string, dryRun bool) (did string, err error) {
	now, err := readShim(w.path, larder)
	switch {
	case err != nil || now == w.content:
		return "", err
	case w.content == "":
		did = "removed"
	case now != "":
		did = "replaced"
	case w.script:
		did = "written"
	default:
		did = "linked"
	}
	if dryRun {
		return did, nil
	}
	dir, err := disk.Make(filepath.Dir(w.path))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := w.put(dir); err != nil {
		return "", err
	}
	if _, err := os.Readlink(w.path); err != nil && did == "linked" {
		did = "copied"
	}
	return did, nil
}

// put replaces the shim in dir. A program that runs it meanwhile gets the earlier one or the new one.
func (w wantedShim) put(dir *disk.Dir) error {
	name := filepath.Base(w.path)
	if w.content == "" {
		return dir.Remove(name)
	}
	temporary := "." + name + "." + rand.Text() // another process may do the same
	var err error
	if w.script {
		if err = dir.WriteFile(temporary, []byte(w.content), disk.Synced); err == nil {
			err = dir.LetExecute(temporary)
		}
	} else {
		if err = dir.Symlink(w.content, temporary); err != nil && strings.EqualFold(filepath.Ext(name), ".exe") {
			err = putCopy(w.content, dir, temporary)
		}
	}
	if err == nil {
		err = disk.Rename(dir, temporary, dir, name)
	}
	if err != nil {
		return errors.Join(site.CannotWrite(filepath.Dir(w.path), err), dir.Remove(temporary))
	}
	return nil
}

// readShim returns the target of a link to this larder, or to one that has been removed, the path of a copy, or the
// text of a script that larder has written. It returns "" if nothing is at path, and an error for anything else.
func readShim(path, larder string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	target, err := os.Readlink(path)
	switch {
	case err == nil && (site.IsSame(path, larder) || filepath.Base(target) == filepath.Base(larder)):
		return target, nil
	case err != nil && site.IsCopyOfLarder(path):
		if sameContents(path, larder) {
			return larder, nil
		}
		return path, nil // of another version
	case err != nil && site.IsScript(path):
		text, err := disk.ReadFile(path, site.MaxScript)
		return string(text), err
	}
	err = fmt.Errorf("%s is not a link to this larder executable", path)
	return "", sources.WithHint(err, "name another directory: larder changes only what it has made")
}

// putCopy creates a copy of a program. Windows lets only some users create symbolic links, and doesn't let larder
// remove a hardlink to itself while it runs.
func putCopy(program string, dir *disk.Dir, name string) error {
	f, _, err := disk.OpenFile(program)
	if err != nil {
		return err
	}
	defer f.Close()
	to, err := dir.Create(name, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, to.Close())
}

func sameContents(a, b string) bool {
	first, _, err := disk.HashFile(context.Background(), a, maxProgram)
	second, _, otherErr := disk.HashFile(context.Background(), b, maxProgram)
	return err == nil && otherErr == nil && first == second
}

// maxProgram limits the size of larder, in bytes.
const maxProgram = 1 << 30
