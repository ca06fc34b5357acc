package install

import (
	"bytes"
	"cmp"
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
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// changes are the files of a repository that differ between a revision and the working directory.
type changes struct {
	top   string          // of the repository, absolute and without symlinks
	files map[string]bool // likewise; a changed submodule is its directory, and a changed link is itself
	dirs  map[string]bool // the directories above them; true for those that contain one themselves

	known sources.Memo[string, bool] // whether a change matters for reading a path, which root modules may share
}

// changedSince returns the files that have changed since the working directory and a revision have parted: in
// commits, uncommitted, and untracked ones that no rule ignores.
func changedSince(ctx context.Context, s *site.Site, revision string) (*changes, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, report.Usage(fmt.Errorf("--since: %q is no revision", revision))
	}
	g, err := git(ctx, s)
	if err != nil {
		return nil, err
	}
	deep := "a CI system may have fetched only one commit: fetch the history too, in GitHub Actions with fetch-depth: 0"
	var same []string
	for _, kind := range []string{"refs/tags/", "refs/heads/", "refs/remotes/"} {
		if _, err := g.line(ctx, "show-ref", "--verify", "--quiet", kind+revision); err == nil {
			same = append(same, kind+revision)
		}
	}
	if len(same) > 1 {
		err := fmt.Errorf("--since: %s may be %s", revision, strings.Join(same, " or "))
		return nil, sources.WithHint(err, "name one of them in full")
	}
	commit, err := g.line(ctx, "rev-parse", "--verify", "--quiet", revision+"^{commit}")
	if err != nil {
		err := fmt.Errorf("--since: the repository %s has no revision %s", s.Shown(g.dir), revision)
		return nil, sources.WithHint(err, "%s", deep)
	}
	base, err := g.line(ctx, "merge-base", commit, "HEAD")
	if err != nil {
		err := fmt.Errorf("--since: %s and the commit in %s have no common history", revision, s.Shown(g.dir))
		return nil, sources.WithHint(err, "%s", deep)
	}
	tracked, err := g.run(ctx, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=dirty", base, "--")
	if err != nil {
		return nil, err
	}
	untracked, err := g.run(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	c := &changes{top: g.dir, files: map[string]bool{}, dirs: map[string]bool{}}
	for name := range bytes.SplitSeq(append(tracked, untracked...), []byte{0}) {
		if len(name) > 0 {
			file := filepath.Join(g.dir, filepath.FromSlash(string(name)))
			c.files[file] = true
			for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
				if _, known := c.dirs[dir]; known {
					break
				}
				c.dirs[dir] = false
			}
			c.dirs[filepath.Dir(file)] = true
		}
	}
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
func git(ctx context.Context, s *site.Site) (*gitRepository, error) {
	programs := s.Executables("git")
	if len(programs) == 0 {
		return nil, sources.WithHint(errors.New("--since needs git, which is not on PATH"),
			"install git, or check all root modules with -R")
	}
	g := &gitRepository{s.Machine, programs[0], s.WorkDir, []string{
		"core.fsmonitor=false", "core.hooksPath=" + os.DevNull, "core.pager=", "diff.external=", "diff.relative=false",
	}}
	top, err := g.line(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("--since needs a git repository: %w", err),
			"run larder in the repository, or check all root modules with -R")
	}
	g.dir = site.Resolve(filepath.FromSlash(top))
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
	out, failure := &sources.Head{Limit: maxChanges}, &sources.Head{Limit: site.MaxVersion}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, failure, time.Second
	switch err := cmd.Run(); {
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(string(failure.Bytes())), "\n")
		return nil, fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimPrefix(line, "fatal: "), err.Error()))
	case out.Cut:
		return nil, fmt.Errorf("git %s: more than %d MiB", args[0], maxChanges>>20)
	}
	return out.Bytes(), nil
}

// line is run for a command that prints one line.
func (g *gitRepository) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.run(ctx, args...)
	return strings.TrimRight(string(out), "\r\n"), err
}

// affects reports whether a change can matter for a root module: of anything that is read for it, also in a directory
// above that has rules for it, or of a link on the way. A root module outside of the repository is always affected. The
// other result is why the root module in dir can't be read, if it can't be. Then m may be nil.
func (c *changes) affects(ctx context.Context, root string, m *site.Root, fault error) (bool, error) {
	if !site.IsBelow(site.Resolve(root), c.top) {
		return true, fault
	}
	tree := &modules.Tree{}
	if m != nil {
		var ds sources.Diagnostics
		if tree, ds, fault = m.Load(ctx); fault != nil {
			return true, fault
		}
		fault = ds.Err()
	}
	if m != nil && c.inSourcesOf(m) {
		return true, fault
	}
	paths := append(tree.Paths, root)
	for dir := site.Resolve(root); site.IsBelow(dir, c.top); dir = filepath.Dir(dir) {
		for _, name := range append(site.VersionFiles, cliconfig.CheckoutFile) {
			paths = append(paths, filepath.Join(dir, name))
		}
		if tree.Elsewhere { // units of Terragrunt include files from above, with any name
			hcl, _ := filepath.Glob(filepath.Join(dir, "*.hcl"))
			paths = append(paths, hcl...)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		matters, _ := c.known.Once(path, func() (bool, error) { return c.matter(path), nil })
		return matters
	}), fault
}

// inSourcesOf reports whether a mirror or a CLI configuration of a root module may have changed. If it is in the
// checkout but not in the repository, which is then a submodule, that is unknown.
func (c *changes) inSourcesOf(m *site.Root) bool {
	paths := slices.Concat(m.Config.ImpliedPlaces(), m.Config.MirrorDirs(), m.PluginDirs)
	for _, f := range m.Config.InputFiles() {
		if f.By != "" && f.State != cliconfig.FileUnread { // those at usual paths are the user's
			paths = append(paths, f.Name)
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		matters, _ := c.known.Once("all of "+path, func() (bool, error) {
			way := site.WayTo(path, c.top)
			end := way[len(way)-1]
			_, changed := c.dirs[end]
			return changed || c.changed(way) || !site.IsBelow(end, c.top) && site.IsBelow(end, m.Checkout()), nil
		})
		return matters
	})
}

// changed reports whether one of the directory entries has changed.
func (c *changes) changed(entries []string) bool {
	return slices.ContainsFunc(entries, func(entry string) bool { return c.files[entry] })
}

// matter reports whether a change matters for reading path: of an entry on the way to it or, if it is a directory, in
// it or on the way from a link in it.
func (c *changes) matter(path string) bool {
	way := site.WayTo(path, c.top)
	end := way[len(way)-1]
	entries, _ := os.ReadDir(end) // fails for files, and for what does not exist
	for _, e := range entries {
		if disk.IsLink(e.Type()) {
			way = append(way, site.WayTo(filepath.Join(end, e.Name()), c.top)...)
		}
	}
	return c.dirs[end] || c.changed(way)
}
