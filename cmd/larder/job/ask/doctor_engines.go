package ask

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

// engineChecks are the checks of doctor for this area.
var engineChecks = []check{listEngines, bypassedShims, otherPlatform, writablePath}

// enginesSummary describes what was examined.
func enginesSummary(ctx context.Context, c *checkup) string {
	var texts []string
	for _, p := range c.EnginePrograms(ctx) {
		texts = append(texts, c.programText(p))
	}
	if len(texts) == 0 {
		return "none on PATH"
	}
	return strings.Join(texts, ", ")
}

// listEngines adds the summary even if there are findings, because their texts need not name all engines. It also adds
// why an engine has no version.
func listEngines(ctx context.Context, c *checkup) {
	c.add(report.Diagnosis{Severity: report.Healthy, Text: "engines: " + enginesSummary(ctx, c)})
	for _, p := range c.EnginePrograms(ctx) {
		if p.Err != nil {
			c.Output.WarnOf(fmt.Errorf("%s: %w", p.Path, p.Err))
		}
	}
}

// programText names a program: "terraform 1.11.4 (/usr/bin)".
func (c *checkup) programText(p site.EngineProgram) string {
	text := string(p.Engine)
	where := c.Brief(filepath.Dir(p.Path))
	switch {
	case p.Shim:
		where = "larder's shim in " + where
	case p.Manager != "":
		where = p.Manager + " in " + where
	case p.Runs():
		text += " " + p.Version.String()
	}
	return fmt.Sprintf("%s (%s)", text, where)
}

// bypassedShims finds engines that run without Larder, because they come before its shims on PATH.
func bypassedShims(ctx context.Context, c *checkup) {
	for _, engine := range site.BothEngines {
		programs := site.ProgramsOf(c.EnginePrograms(ctx), engine)
		i := slices.IndexFunc(programs, func(p site.EngineProgram) bool { return p.Shim })
		if i <= 0 {
			continue
		}
		shim := programs[i].Path
		fix := site.PutFirst(c.Machine, filepath.Dir(shim))
		if m := programs[0].Manager; m != "" {
			fix += ", after the line that sets up " + m + " in your shell's configuration"
		}
		c.add(report.Diagnosis{
			Trap: "shim-bypassed", Path: shim, Why: fmt.Sprintf("%s runs without larder", engine), Fix: fix,
			Text: fmt.Sprintf("%s comes before larder's shim %s on PATH", c.programText(programs[0]), c.Brief(shim)),
		})
	}
}

// otherPlatform finds engines that can't use the providers that Larder installs.
func otherPlatform(ctx context.Context, c *checkup) {
	for _, engine := range site.BothEngines {
		p := c.FirstProgram(ctx, engine)
		if current := sources.CurrentPlatform().String(); p.Platform != "" && p.Platform != current && len(c.Flags.Platforms) == 0 {
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "engine-platform", Path: p.Path,
				Text: fmt.Sprintf("%s is a program for %s, but larder is one for %s", c.Brief(p.Path), p.Platform, current),
				Why:  "Larder installs providers for its own platform, and the engine can't use them",
				Fix:  c.Again("install") + " --platform " + site.ShellQuoted(p.Platform),
			})
		}
	}
}

// writablePath finds engines that others can replace, and directories on PATH, before the engines, in which others can
// put programs.
func writablePath(ctx context.Context, c *checkup) {
	all := c.EnginePrograms(ctx)
	for _, p := range all {
		if p.Unsafe != "" {
			c.add(report.Diagnosis{
				Trap: "path-writable", Path: p.Path, Text: fmt.Sprintf("%s is on PATH, but %s", c.Brief(p.Path), p.Unsafe),
				Why: "others can replace a program that you run; doctor doesn't run it, so its version is unknown",
				Fix: cmp.Or(p.Safer, "remove "+c.Brief(filepath.Dir(p.Path))+" from PATH"),
			})
		}
	}
	dirs := filepath.SplitList(c.Machine.Path())
	last := slices.IndexFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(all, func(p site.EngineProgram) bool { return filepath.Dir(p.Path) == filepath.Clean(dir) })
	})
	for _, dir := range dirs[:max(last, 0)] {
		d := report.Diagnosis{Trap: "path-writable", Path: dir, Fix: "remove it from PATH in your shell's configuration"}
		e := site.ExposureOf(dir, site.OfOther)
		switch {
		case !filepath.IsAbs(dir):
			d.Text = fmt.Sprintf("PATH has the relative directory %q before the engines", dir)
			d.Why = "a program in a checkout runs instead of terraform and tofu"
		case e.At == "" || !site.Exists(dir):
			continue
		default:
			d.Text = fmt.Sprintf("%s%s, which is on PATH before the engines", e.Who, c.Brief(e.At))
			d.Why, d.Fix = "others can put programs there that run instead of terraform and tofu", cmp.Or(e.Fix, d.Fix)
		}
		c.add(d)
	}
}
