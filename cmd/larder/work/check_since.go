package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// changes are the files of a repository that differ between a revision and the working directory.
type changes struct {
	top   string   // of the repository, absolute and without symlinks
	files []string // likewise; a changed submodule is its directory
}

// changedSince returns the files that have changed since the working directory and a revision have parted: in
// commits, uncommitted, and untracked ones that no rule ignores.
func (s *Session) changedSince(ctx context.Context, revision string) (*changes, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, report.Usage(fmt.Errorf("--since: %q is no revision", revision))
	}
	g, err := s.git(ctx)
	if err != nil {
		return nil, err
	}
	deep := "a CI system may have fetched only one commit: fetch the history too, in GitHub Actions with fetch-depth: 0"
	commit, err := g.line(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("--since: the repository %s has no revision %s", s.shown(g.dir), revision), "%s", deep)
	}
	base, err := g.line(ctx, "merge-base", commit, "HEAD")
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("--since: %s and the commit in %s have no common history", revision, s.shown(g.dir)), "%s", deep)
	}
	tracked, err := g.run(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", base, "--")
	if err != nil {
		return nil, err
	}
	untracked, err := g.run(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	c := &changes{top: g.dir}
	for name := range bytes.SplitSeq(append(tracked, untracked...), []byte{0}) {
		if len(name) > 0 {
			c.files = append(c.files, filepath.Join(g.dir, filepath.FromSlash(string(name))))
		}
	}
	slices.Sort(c.files)
	return c, nil
}

// A gitRepository runs git in a repository whose configuration may be hostile: everything is off that git would run or
// fetch because of it.
type gitRepository struct {
	machine      cliconfig.Machine
	program, dir string
	settings     []string // as -c takes them
}

// maxChanges limits what git prints, in bytes.
const maxChanges = 64 << 20

// git returns the repository of the working directory.
func (s *Session) git(ctx context.Context) (*gitRepository, error) {
	programs := s.machine.Programs("git")
	first := slices.IndexFunc(programs, func(path string) bool {
		_, err := exec.LookPath(path) // fails if the file is not executable
		return err == nil
	})
	if first < 0 {
		return nil, sources.WithHint(errors.New("--since needs git, which is not on PATH"), "install git, or check all root modules with -R")
	}
	g := &gitRepository{s.machine, programs[first], s.workDir, []string{
		"core.fsmonitor=false", "core.hooksPath=" + os.DevNull, "core.pager=", "diff.external=", "diff.relative=false",
	}}
	top, err := g.line(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("--since needs a git repository: %w", err), "run larder in the repository, or check all root modules with -R")
	}
	g.dir = resolve(filepath.FromSlash(top))
	// Git runs filters to compare a file, and there is no switch for all of them.
	filters, _ := g.run(ctx, "config", "-z", "--name-only", "--get-regexp", `^filter\.`) // fails if there are none
	for name := range bytes.SplitSeq(filters, []byte{0}) {
		switch {
		case len(name) == 0:
		case bytes.ContainsRune(name, '='): // -c would set another one
			return nil, fmt.Errorf("--since: the git configuration has a filter with an equals sign in its name: %q", name)
		default:
			g.settings = append(g.settings, string(name)+"=")
		}
	}
	return g, nil
}

// run runs a command of git, and returns its standard output.
func (g *gitRepository) run(ctx context.Context, args ...string) ([]byte, error) {
	words := []string{"--no-pager", "--no-optional-locks"}
	for _, setting := range g.settings {
		words = append(words, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, g.program, append(words, args...)...)
	cmd.Dir = g.dir
	env := g.machine.With(map[string]string{
		"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
	})
	cmd.Env = slices.DeleteFunc(env, func(variable string) bool { // hooks of git have these, for another directory
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"}, name)
	})
	out, failure := &head{limit: maxChanges}, &head{limit: maxVersion}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, failure, time.Second
	switch err := cmd.Run(); {
	case err != nil:
		text := strings.TrimPrefix(strings.TrimSpace(failure.String()), "fatal: ")
		return nil, fmt.Errorf("git %s: %s", args[0], firstLine(text, err))
	case out.Len() == maxChanges:
		return nil, fmt.Errorf("git %s: more than %d MiB", args[0], maxChanges>>20)
	}
	return out.Bytes(), nil
}

// firstLine returns the first line of a text, or that of an error if it is empty.
func firstLine(text string, err error) string {
	if text == "" {
		return err.Error()
	}
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// line is run for a command that prints one line.
func (g *gitRepository) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, args...)
	return strings.TrimRight(string(out), "\r\n"), err
}

// affects reports whether a change can matter for a root module: a file in its directory or in one of a module that it
// calls, or a file in a directory above that has rules for it. A root module with errors is always affected, and one
// outside of the repository too.
func (c *changes) affects(ctx context.Context, m *rootModule) bool {
	if !isBelow(resolve(m.dir), c.top) {
		return true
	}
	tree, ds, err := m.load(ctx)
	if err != nil || ds.Err() != nil || len(tree.Missing) > 0 {
		return true
	}
	var files []string
	for _, dir := range append(tree.Dirs, resolve(m.dir)) {
		if c.has(func(file string) bool { return filepath.Dir(file) == dir || isBelow(dir, file) }) {
			return true
		}
		files = append(files, linkedFrom(dir)...)
	}
	for dir := resolve(m.dir); isBelow(dir, c.top); dir = filepath.Dir(dir) {
		for _, name := range append(versionFiles, cliconfig.CheckoutFile) {
			files = append(files, filepath.Join(dir, name))
		}
		if tree.Elsewhere { // units of Terragrunt include files from above, with any name
			hcl, _ := filepath.Glob(filepath.Join(dir, "*.hcl"))
			files = append(files, hcl...)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	tests := filepath.Join(resolve(m.dir), "tests")
	return c.has(func(file string) bool { return slices.Contains(files, file) || isBelow(file, tests) })
}

func (c *changes) has(is func(file string) bool) bool { return slices.ContainsFunc(c.files, is) }

// linkedFrom returns the files to which links in a directory lead.
func linkedFrom(dir string) (files []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if disk.IsLink(e.Type()) {
			files = append(files, resolve(filepath.Join(dir, e.Name())))
		}
	}
	return files
}
