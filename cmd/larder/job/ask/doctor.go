// Package ask contains the jobs that answer a question and change nothing: explain, versions, outdated, doctor and
// config.
package ask

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
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A checkup is the machine that doctor examines, as the root module in the working directory uses it. Its
// configuration may have errors: they are findings, and the rest is examined.
type checkup struct {
	*site.Root
	tree     *modules.Tree
	required []sources.Requirement // by the root module, without those that dev_overrides replaces

	all   []report.Diagnosis // what was found
	area  string             // the current one
	fails bool               // a finding ends other commands
	left  []string           // what was not examined
}

// A check runs the code of other commands, whose errors and warnings are findings, or adds traps that no command
// reports. It changes nothing, and queries no server unless it says so.
type check func(ctx context.Context, c *checkup)

// areas are what doctor examines, in the order of the output, each with its checks. The summary of an area is
// shown if nothing is found in it.
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

// ExamineMachine reports what would make an installation here fail, and traps that would silently change it.
func ExamineMachine(ctx context.Context, s *site.Site) error {
	s.Ask()
	s.Reading.Empty, s.Flags.DryRun = true, true
	c, out := &checkup{}, s.Output
	s.Output = out.Overheard(c.add)
	c.Root = &site.Root{Site: s, Out: s.Output, Dir: s.WorkDir, LockPath: filepath.Join(s.WorkDir, lockfile.Name)}
	for _, area := range areas {
		c.area = area.name
		begin := len(c.all)
		for _, check := range area.checks {
			check(ctx, c)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(c.all) == begin {
			text := strings.TrimSuffix(area.name+": "+area.summary(ctx, c), ": ")
			c.add(report.Diagnosis{Severity: report.Healthy, Text: text})
		}
		slices.SortStableFunc(c.all[begin:], func(a, b report.Diagnosis) int { return cmp.Compare(gravity(a), gravity(b)) })
	}
	s.Output = out
	sum := out.Diagnosed(c.all)
	c.left = append(c.left, "Contents of unchanged files not hashed: "+strings.Join([]string{c.Again("verify"), c.cacheCommand("verify"), "larder mirror verify"}, ", "))
	out.Conclude("%s", strings.Join(c.left, ". "))
	if sum == (report.Diagnosed{}) {
		out.Say("No problem found in configuration, mirrors, root module, plugin cache and engines")
		return nil
	}
	return report.FoundError{Err: errors.New(sum.Text())}
}

// gravity sorts findings: what fails comes first.
func gravity(d report.Diagnosis) int {
	return slices.Index([]report.Severity{report.Broken, report.Risky, report.Healthy}, d.Severity)
}

// add adds a finding, by default a warning. It skips a finding that is equal to an earlier one, or that contains the text
// of an earlier error.
func (c *checkup) add(d report.Diagnosis) {
	d.Area, d.Severity = c.area, cmp.Or(d.Severity, report.Risky)
	known := slices.ContainsFunc(c.all, func(e report.Diagnosis) bool {
		return e.Text == d.Text && e.Path == d.Path && e.Line == d.Line ||
			e.Trap == report.ErrorFinding && d.Line == 0 && strings.Contains(d.Text, e.Text)
	})
	if !known {
		c.all = append(c.all, d)
		c.fails = c.fails || d.Trap == report.ErrorFinding
	}
}

// read reads the configuration of this machine and the root module in the working directory, also where they
// have errors.
func read(ctx context.Context, c *checkup) {
	m := c.Root
	err := m.ReadLock(ctx)
	if err != nil {
		m.Chosen = site.Choice{Engine: sources.Terraform, Reason: "nothing valid names an engine"}
	}
	if m.Lock == nil {
		m.Lock = &lockfile.File{}
	}
	m.Output.For(m.Chosen.Engine)
	config, problems := c.configOf(ctx, m.Chosen.Engine)
	m.Config = config.At(m.Dir)
	m.Output.Fail(ctx, errors.Join(err, m.Output.Warnings(problems)))
	all, _ := m.Settings.Get(m.Chosen.Engine, nil) // which configOf has put there
	m.Client = all.Client
	if c.tree, _ = readTree(ctx, m); c.tree == nil { // the installation reports its errors
		c.tree = &modules.Tree{Empty: true}
	}
	for _, r := range c.tree.Requirements {
		if m.Config.DevOverrides[r.Provider] == "" && !slices.Contains(m.Config.Unmanaged, r.Provider) {
			c.required = append(c.required, r)
		}
	}
}

// configOf returns the configuration for an engine, and all problems in it. Jobs that doctor shares with other
// commands use it as it is.
func (c *checkup) configOf(ctx context.Context, engine sources.Engine) (*cliconfig.Config, sources.Diagnostics) {
	config, problems := cliconfig.Load(ctx, c.Machine, engine, c.ConfigOptions())
	all, _ := c.Settings.Get(engine, func() (site.Settings, error) {
		return site.Settings{Config: config, Client: c.NewClient(config)}, nil
	})
	return all.Config, problems
}

// word returns a path as a word of a command line: short if nothing in it must be quoted.
func (c *checkup) word(path string) string {
	if quoted := site.ShellQuoted(path); quoted != path {
		return quoted
	}
	return c.Brief(path)
}

// names returns the first of many names, and the number of the others.
func names[T fmt.Stringer](all []T) string { return ui.Some(sources.Texts(all), 3) }

// providers returns the required providers.
func (c *checkup) providers() (all []sources.Provider) {
	for _, r := range c.required {
		all = append(all, r.Provider)
	}
	return all
}
