package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A checkup is the machine that doctor examines, as the root module in the working directory uses it. Its
// configuration may have errors: they are findings, and the rest is examined.
type checkup struct {
	*rootModule
	problems sources.Diagnostics // of the CLI configuration
	noEngine error               // why no engine could be chosen; then Terraform is assumed

	tree         *modules.Tree // of the root module
	treeProblems sources.Diagnostics
	required     []sources.Requirement // by the root module, without those that dev_overrides replaces

	unusable    []string                  // mirrors that can't be read, as they were reported
	unavailable map[sources.Provider]bool // required, and found to be offered by no source
}

// A check finds traps of one kind. It changes nothing, and queries no server unless it says so.
type check func(ctx context.Context, c *checkup) []report.Diagnosis

// areas are what doctor examines, in the order of the output, each with its checks. The summary of an area is
// shown if it has no trap.
var areas = []struct {
	name    string
	summary func(ctx context.Context, c *checkup) string
	checks  []check
}{
	{"configuration", configurationSummary, configurationChecks},
	{"mirrors", mirrorsSummary, mirrorChecks},
	{"root module", rootModuleSummary, rootModuleChecks},
	{"plugin cache", cacheSummary, cacheChecks},
	{"engines", enginesSummary, engineChecks},
}

// ExamineMachine reports known traps in the configuration, the mirrors, the cache and the engines of this machine.
func ExamineMachine(ctx context.Context, s *Session) error {
	s.ask()
	s.readsArguments = true // a check reports flags in variables
	c := s.checkup(ctx)
	var all []report.Diagnosis
	for _, area := range areas {
		var found []report.Diagnosis
		for _, find := range area.checks {
			found = append(found, find(ctx, c)...)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(found) == 0 {
			found = []report.Diagnosis{{Severity: report.Healthy, Text: strings.TrimSuffix(area.name+": "+area.summary(ctx, c), ": ")}}
		}
		slices.SortStableFunc(found, func(a, b report.Diagnosis) int { return cmp.Compare(gravity(a), gravity(b)) })
		for _, d := range found {
			d.Area = area.name
			all = append(all, d)
		}
	}
	sum := s.output.Diagnosed(all)
	if sum == (report.Diagnosed{}) {
		s.output.Say("No problem found in configuration, mirrors, root module, plugin cache and engines")
		return nil
	}
	return report.FoundError{Err: errors.New(sum.Text())}
}

// gravity sorts findings: what fails comes first.
func gravity(d report.Diagnosis) int {
	return slices.Index([]report.Severity{report.Broken, report.Risky, report.Healthy}, d.Severity)
}

// checkup reads the configuration of this machine and the root module in the working directory, also where they
// have errors.
func (s *Session) checkup(ctx context.Context) *checkup {
	m := &rootModule{Session: s, out: s.output, dir: s.workDir, lockPath: filepath.Join(s.workDir, lockfile.Name)}
	c := &checkup{rootModule: m, unavailable: map[sources.Provider]bool{}}
	if c.noEngine = m.readLock(ctx); c.noEngine != nil {
		m.chosen = choice{engine: sources.Terraform, reason: "nothing valid names an engine"}
	}
	if m.lock == nil {
		m.lock = &lockfile.File{}
	}
	s.output.For(m.chosen.engine)
	config, problems := c.configOf(ctx, m.chosen.engine)
	m.config, c.problems = config.At(m.dir), problems
	all, _ := s.settings.get(m.chosen.engine, nil) // which configOf has put there
	m.client = all.client
	if c.tree, c.treeProblems = m.readTree(ctx); c.tree == nil {
		c.tree = &modules.Tree{Empty: true}
	}
	for _, r := range c.tree.Requirements {
		if m.config.DevOverrides[r.Provider] == "" && !slices.Contains(m.config.Unmanaged, r.Provider) {
			c.required = append(c.required, r)
		}
	}
	return c
}

// configOf returns the configuration for an engine, and all problems in it. Jobs that doctor shares with other
// commands use it as it is.
func (c *checkup) configOf(ctx context.Context, engine sources.Engine) (*cliconfig.Config, sources.Diagnostics) {
	config, problems := cliconfig.Load(ctx, c.machine, engine, c.configOptions())
	all, _ := c.settings.get(engine, func() (settings, error) {
		return settings{config, c.newClient(config)}, nil
	})
	return all.config, problems
}

// readTree reads the root module. The problems name files by their full paths.
func (m *rootModule) readTree(ctx context.Context) (*modules.Tree, sources.Diagnostics) {
	tree, problems, err := m.load(ctx)
	if err != nil {
		return nil, sources.Diagnostics{{Text: sources.Text(err), Hint: strings.Join(sources.Hints(err), "; ")}}
	}
	for i, r := range tree.Requirements {
		tree.Requirements[i].From = slices.Clone(r.From)
		for j, from := range r.From {
			tree.Requirements[i].From[j].File = m.full(from.File)
		}
	}
	for i, d := range problems {
		problems[i].File = m.full(d.File)
	}
	if tree.Partial && m.lock.Exists {
		tree.Requirements = append(tree.Requirements, m.recorded(m.lockPath, tree.Requirements)...)
	}
	return tree, problems
}

// isRoot reports whether the working directory is a root module.
func (c *checkup) isRoot() bool { return !c.tree.Empty || c.lock.Exists || c.lockProblems.Err() != nil }

// findingsOf returns problems of an input as findings of one trap: those that end other commands as failures.
func findingsOf(trap string, problems sources.Diagnostics, why string) (found []report.Diagnosis) {
	for _, p := range problems {
		d := report.Diagnosis{Severity: report.Broken, Trap: trap, Text: p.Text, Why: why, Fix: p.Hint, Path: p.File, Line: p.Line}
		if p.Warning {
			d.Severity, d.Why = report.Risky, ""
		}
		if p.File != "" && p.Line == 0 {
			d.Text = p.File + ": " + p.Text
		}
		if d.Fix == "" {
			d.Fix = "correct it there"
			if p.File == "" {
				d.Fix = "correct or unset it"
			}
		}
		found = append(found, d)
	}
	return found
}

// word returns a path as a word of a command line: short if nothing in it must be quoted.
func (c *checkup) word(path string) string {
	if quoted := shellQuoted(path); quoted != path {
		return quoted
	}
	return c.brief(path)
}

// brief returns a path as people write it: relative to the working directory, or with ~.
func (m *rootModule) brief(path string) string {
	if shown := m.shown(path); shown != path {
		return shown
	}
	return m.config.Tilde(path)
}

// names returns the first of many names, and the number of the others.
func names[T fmt.Stringer](all []T) string { return someOf(sources.Texts(all)) }

// mostNames is how many of several things a finding names.
const mostNames = 3

// someOf returns the first of many texts, and the number of the others.
func someOf(texts []string) string { return ui.Some(texts, mostNames) }

// providers returns the required providers.
func (c *checkup) providers() (all []sources.Provider) {
	for _, r := range c.required {
		all = append(all, r.Provider)
	}
	return all
}
