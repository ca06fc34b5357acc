package site

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An EngineProgram is a program on PATH with the name of an engine.
type EngineProgram struct {
	Engine  sources.Engine
	Path    string
	Shim    bool   // it is Larder's
	Manager string // version manager that it belongs to; empty if there is none
	Unsafe  string // why doctor doesn't run it; empty if it may
	Safer   string // the command that changes that; empty if there is none

	// What the program prints.
	Version  sources.Version
	Platform string // empty if it prints none
	Err      error  // why the version is unknown
}

// Runs reports whether the program is an engine whose version is known.
func (p EngineProgram) Runs() bool { return p.Err == nil && p.Version != (sources.Version{}) }

// EnginePrograms returns the programs on PATH with the names of engines, in order. It runs those that
// are neither shims nor programs of version managers, which may download an engine.
func (m *Root) EnginePrograms(ctx context.Context) []EngineProgram {
	all, _ := m.programs.Once("", func() ([]EngineProgram, error) {
		all := m.findEngines()
		m.askVersions(ctx, all)
		return all, nil
	})
	return all
}

// findEngines returns the programs without their versions.
func (m *Root) findEngines() (all []EngineProgram) {
	for _, engine := range BothEngines {
		var paths []string
		for _, path := range m.Machine.Programs(string(engine)) {
			if slices.ContainsFunc(paths, func(other string) bool { return IsSame(path, other) }) {
				continue
			}
			paths = append(paths, path)
			p := EngineProgram{Engine: engine, Path: path}
			p.Unsafe, p.Safer = m.unsafeProgram(path)
			another := strings.HasPrefix(filepath.Base(Resolve(path)), "larder") // perhaps
			p.Shim = IsScript(path) || IsLarder(path, m.Machine.Program) || another
			if _, err := exec.LookPath(path); err != nil {
				p.Err = errors.New("it isn't executable")
			} else if !p.Shim {
				p.Manager = ManagerOf(path)
			}
			all = append(all, p)
		}
	}
	return all
}

// unsafeProgram returns why a program must not be run, or "", and the command that changes that, if there is one.
func (m *Root) unsafeProgram(path string) (why, fix string) {
	for _, p := range []string{path, Resolve(path)} {
		if checkout := m.Checkout(); checkout != "" && Within(p, checkout) {
			return "it is part of the checkout " + m.Shown(checkout), ""
		}
		if e := ExposureOf(p, OfOther); e.At != "" {
			return e.Who + m.Shown(e.At), e.Fix
		}
	}
	return "", ""
}

// MaxVersion is how many bytes a program may print about its version.
const MaxVersion = 64 << 10

const (
	versionTimeout = 5 * time.Second
	maxAsked       = 8 // programs to run
)

// testsAlone is the first release of Terraform that reads tests without configuration.
var testsAlone, _ = sources.ParseVersion("1.12.0-alpha")

// readsTestsAlone reports whether Terraform reads a root module that has only tests: the release that runs there, or
// else the first one on PATH. An unknown release is a newer one.
func (m *Root) readsTestsAlone(ctx context.Context) bool {
	var v sources.Version
	if m.Reading.Release != nil {
		v = m.Reading.Release(ctx, m.Dir)
	} else if p := m.FirstProgram(ctx, sources.Terraform); p.Runs() {
		v = p.Version
	}
	return v == (sources.Version{}) || v.Compare(testsAlone) >= 0
}

// askVersions runs the programs at the same time, each in the same empty directory. No configuration and no variable of
// the user changes what they do, and the files that OpenTofu creates in the home directory are in the empty one.
func (m *Root) askVersions(ctx context.Context, all []EngineProgram) {
	dir, err := disk.Temporary("larder-doctor-")
	if err == nil {
		defer dir.Close()
	}
	ForEach(min(len(all), maxAsked), maxAsked, func(i int) {
		switch p := &all[i]; {
		case p.Err != nil || p.Shim || p.Manager != "" || p.Unsafe != "":
		case err != nil:
			p.Err = fmt.Errorf("no temporary directory: %w", disk.Cause(err))
		default:
			in := dir.Path(".")
			p.Version, p.Platform, p.Err = m.VersionOf(ctx, in, map[string]string{
				"TF_CLI_CONFIG_FILE": os.DevNull, "TF_PLUGIN_CACHE_DIR": "", "TF_DATA_DIR": "", "TF_WORKSPACE": "",
				"HOME": in, "APPDATA": in,
				"XDG_CONFIG_HOME": in, "XDG_DATA_HOME": in, "XDG_CACHE_HOME": in, "XDG_STATE_HOME": in,
			}, p.Path)
		}
	})
}

// VersionOf runs an engine for its version, in a directory and with additional variables. The line has its path, and
// the arguments before its command.
func (s *Site) VersionOf(
	ctx context.Context, dir string, variables map[string]string, line ...string,
) (v sources.Version, platform string, err error) {
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, line[0], append(line[1:], "version", "-json")...)
	cmd.Dir = dir
	environ := map[string]string{
		"CHECKPOINT_DISABLE": "1", "TF_CLI_ARGS": "", "TF_CLI_ARGS_version": "",
		"TF_LOG": "", "TF_LOG_PATH": "", "TF_REATTACH_PROVIDERS": "",
	}
	maps.Copy(environ, variables)
	cmd.Env = s.Machine.With(environ)
	out := &sources.Head{Limit: MaxVersion}
	cmd.Stdout, cmd.WaitDelay = out, time.Second
	err = cmd.Run()
	if limited.Err() != nil {
		return v, "", fmt.Errorf("no answer within %s", versionTimeout)
	}
	if v, platform, ok := parseVersion(out.Bytes()); ok {
		return v, platform, nil
	}
	return v, "", cmp.Or(disk.Cause(err), errors.New("it prints no version"))
}

// versionLine is what engines print that have no JSON.
var versionLine = sources.Regexp(`(?m)^(?:Terraform|OpenTofu) v(\S+)`)

// parseVersion reads the output of an engine.
func parseVersion(out []byte) (v sources.Version, platform string, ok bool) {
	var answer struct {
		Version  string `json:"terraform_version"`
		Platform string `json:"platform"`
	}
	if json.Unmarshal(out, &answer) != nil {
		answer.Version = ""
		if m := versionLine().FindSubmatch(out); m != nil {
			answer.Version = string(m[1])
		}
	}
	v, err := sources.ParseVersion(answer.Version)
	return v, answer.Platform, err == nil
}

// ProgramsOf returns the programs of an engine that the system can start.
func ProgramsOf(all []EngineProgram, engine sources.Engine) (found []EngineProgram) {
	for _, p := range all {
		if _, err := LookPath(p.Path); p.Engine == engine && err == nil {
			found = append(found, p)
		}
	}
	return found
}

// PutFirst returns the command, on Windows for PowerShell, that puts a directory first on PATH.
func PutFirst(m cliconfig.Machine, dir string) string {
	if m.GOOS == "windows" {
		return `$env:PATH = '` + strings.ReplaceAll(dir, "'", "''") + `;' + $env:PATH`
	}
	return "export PATH=" + ShellQuoted(dir) + `:"$PATH"`
}

// FirstProgram returns the program of an engine that runs, behind Larder's shim if that comes first.
func (m *Root) FirstProgram(ctx context.Context, engine sources.Engine) EngineProgram {
	for _, p := range ProgramsOf(m.EnginePrograms(ctx), engine) {
		if !p.Shim {
			return p
		}
	}
	return EngineProgram{}
}

// MaxScript limits the size of scripts, in bytes.
const MaxScript = 64 << 10

// IsScript reports whether larder has written the script at path.
func IsScript(path string) bool {
	text, err := disk.ReadFile(path, MaxScript)
	return err == nil && programs.IsShimScript(string(text))
}

// IsCopyOfLarder reports whether the program at path was built from larder's source, in any version. On systems
// where a shim can be a link, there are no copies.
func IsCopyOfLarder(path string) bool {
	if !strings.EqualFold(filepath.Ext(path), ".exe") {
		return false
	}
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path == ownPackage
}

const ownPackage = "github.com/larder-cli/larder/cmd/larder"
