package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// An engineProgram is a program on PATH with the name of an engine.
type engineProgram struct {
	engine  sources.Engine
	path    string
	shim    bool   // it is Larder's
	script  bool   // it is a shim that runs an engine at a fixed path
	manager string // version manager that it belongs to; empty if there is none
	unsafe  string // why doctor doesn't run it; empty if it may
	safer   string // the command that changes that; empty if there is none

	// What the program prints.
	version  sources.Version
	platform string // empty if it prints none
	err      error  // why the version is unknown
}

// runs reports whether the program is an engine whose version is known.
func (p engineProgram) runs() bool { return p.err == nil && p.version != (sources.Version{}) }

// enginePrograms returns the programs on PATH with the names of engines, in order. It runs those that
// are neither shims nor programs of version managers, which may download an engine.
func (m *rootModule) enginePrograms(ctx context.Context) []engineProgram {
	all, _ := m.programs.get("", func() ([]engineProgram, error) {
		all := m.findEngines()
		m.askVersions(ctx, all)
		return all, nil
	})
	return all
}

// findEngines returns the programs without their versions.
func (m *rootModule) findEngines() (all []engineProgram) {
	for _, engine := range BothEngines {
		var paths []string
		for _, path := range m.machine.Programs(string(engine)) {
			if slices.ContainsFunc(paths, func(other string) bool { return isSame(path, other) }) {
				continue
			}
			paths = append(paths, path)
			p := engineProgram{engine: engine, path: path, script: isScript(path)}
			p.unsafe, p.safer = m.unsafeProgram(path)
			p.shim = p.script || isLarder(path, m.machine.Program) || strings.HasPrefix(filepath.Base(resolve(path)), "larder") // perhaps another one
			if _, err := exec.LookPath(path); err != nil {
				p.err = errors.New("it isn't executable")
			} else if !p.shim {
				p.manager = managerOf(path)
			}
			all = append(all, p)
		}
	}
	return all
}

// unsafeProgram returns why a program must not be run, or "", and the command that changes that, if there is one.
func (m *rootModule) unsafeProgram(path string) (why, fix string) {
	for _, p := range []string{path, resolve(path)} {
		if checkout := m.checkout(); checkout != "" && within(p, checkout) {
			return "it is part of the checkout " + m.brief(checkout), ""
		}
		if e := exposureOf(p, ofOther); e.at != "" {
			return e.who + m.brief(e.at), e.fix
		}
	}
	return "", ""
}

const (
	versionTimeout = 5 * time.Second
	maxVersion     = 64 << 10 // bytes that a program may print
	maxAsked       = 8        // programs to run
)

// testsAlone is the first release of Terraform that reads tests without configuration.
var testsAlone, _ = sources.ParseVersion("1.12.0-alpha")

// readsTestsAlone reports whether Terraform reads a root module that has only tests: the release that runs there, or else
// the first one on PATH, or the one in a version file. An unknown release is a newer one.
func (m *rootModule) readsTestsAlone(ctx context.Context) bool {
	var v sources.Version
	if m.release != nil {
		v = m.release(ctx, m.dir)
	} else if p := m.firstProgram(ctx, sources.Terraform); p.runs() {
		v = p.version
	} else {
		v, _ = sources.ParseVersion(m.requestedVersion(sources.Terraform))
	}
	return v == (sources.Version{}) || v.Compare(testsAlone) >= 0
}

// askVersions runs the programs at the same time, each in the same empty directory.
func (m *rootModule) askVersions(ctx context.Context, all []engineProgram) {
	dir, err := disk.Temporary("larder-doctor-")
	if err == nil {
		defer dir.Close()
	}
	var group errgroup.Group
	for i := range all {
		p := &all[i]
		if p.err != nil || p.shim || p.manager != "" || p.unsafe != "" || i >= maxAsked {
			continue
		}
		if err != nil {
			p.err = fmt.Errorf("no temporary directory: %w", disk.Cause(err))
			continue
		}
		group.Go(func() error {
			p.version, p.platform, p.err = m.askVersion(ctx, dir.Path("."), p.path)
			return nil
		})
	}
	_ = group.Wait()
}

// askVersion runs an engine in an empty directory. No configuration and no variable of the user changes what it does,
// and the files that OpenTofu creates in the home directory are in the empty one.
func (m *rootModule) askVersion(ctx context.Context, dir, path string) (v sources.Version, platform string, err error) {
	return m.versionOf(ctx, dir, map[string]string{
		"TF_CLI_CONFIG_FILE": os.DevNull, "TF_PLUGIN_CACHE_DIR": "", "TF_DATA_DIR": "", "TF_WORKSPACE": "",
		"HOME": dir, "APPDATA": dir, "XDG_CONFIG_HOME": dir, "XDG_DATA_HOME": dir, "XDG_CACHE_HOME": dir, "XDG_STATE_HOME": dir,
	}, path)
}

// versionOf runs an engine for its version, in a directory and with additional variables. The line has its path, and the
// arguments before its command.
func (s *Session) versionOf(ctx context.Context, dir string, variables map[string]string, line ...string) (v sources.Version, platform string, err error) {
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, line[0], append(line[1:], "version", "-json")...)
	cmd.Dir = dir
	environ := map[string]string{
		"CHECKPOINT_DISABLE": "1", "TF_CLI_ARGS": "", "TF_CLI_ARGS_version": "", "TF_LOG": "", "TF_LOG_PATH": "", "TF_REATTACH_PROVIDERS": "",
	}
	maps.Copy(environ, variables)
	cmd.Env = s.machine.With(environ)
	out := &head{limit: maxVersion}
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

// A head keeps the beginning of what is written to it.
type head struct {
	bytes.Buffer
	limit int
}

// Write implements [io.Writer].
func (h *head) Write(p []byte) (int, error) {
	_, err := h.Buffer.Write(p[:min(len(p), h.limit-h.Len())])
	return len(p), err
}

// versionLine is what engines print that have no JSON.
var versionLine = regexp.MustCompile(`(?m)^(?:Terraform|OpenTofu) v(\S+)`)

// parseVersion reads the output of an engine.
func parseVersion(out []byte) (v sources.Version, platform string, ok bool) {
	var answer struct {
		Version  string `json:"terraform_version"`
		Platform string `json:"platform"`
	}
	if json.Unmarshal(out, &answer) != nil {
		answer.Version = ""
		if m := versionLine.FindSubmatch(out); m != nil {
			answer.Version = string(m[1])
		}
	}
	v, err := sources.ParseVersion(answer.Version)
	return v, answer.Platform, err == nil
}

// requestedVersion returns the version of an engine in the nearest version file, in the directory of the
// root module or above it in the same repository. The version may be a rule, such as "latest".
func (m *rootModule) requestedVersion(engine sources.Engine) string {
	for _, at := range m.dirsOf(m.dir) {
		own := filepath.Join(at, map[sources.Engine]string{sources.Terraform: ".terraform-version", sources.OpenTofu: ".opentofu-version"}[engine])
		tools := filepath.Join(at, ".tool-versions")
		if v := readRequest(own, func(words []string) string { return words[0] }); v != "" {
			return v
		}
		if v := readRequest(tools, func(words []string) string {
			if len(words) > 1 && toolEngines[words[0]] == engine {
				return words[1]
			}
			return ""
		}); v != "" {
			return v
		}
	}
	return ""
}

// readRequest returns the first version that find returns for the words of a line.
func readRequest(path string, find func(words []string) string) string {
	text, _ := disk.ReadFile(path, maxToolVersions)
	for words := range strings.Lines(string(text)) {
		words, _, _ = strings.Cut(words, "#")
		if fields := strings.Fields(words); len(fields) > 0 {
			if v := find(fields); v != "" {
				return v
			}
		}
	}
	return ""
}
