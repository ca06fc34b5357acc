package work

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// engineChecks are the checks of doctor for this area.
var engineChecks = []check{listEngines, bypassedShims, otherPlatform, writablePath}

// enginesSummary describes what was examined.
func enginesSummary(ctx context.Context, c *checkup) string {
	var texts []string
	for _, p := range c.enginePrograms(ctx) {
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
	for _, p := range c.enginePrograms(ctx) {
		if p.err != nil {
			c.output.WarnOf(fmt.Errorf("%s: %w", p.path, p.err))
		}
	}
}

// programText names a program: "terraform 1.11.4 (/usr/bin)".
func (c *checkup) programText(p engineProgram) string {
	text := string(p.engine)
	where := c.brief(filepath.Dir(p.path))
	switch {
	case p.shim:
		where = "larder's shim in " + where
	case p.manager != "":
		where = p.manager + " in " + where
	case p.runs():
		text += " " + p.version.String()
	}
	return fmt.Sprintf("%s (%s)", text, where)
}

// of returns the programs of an engine that the system can start.
func programsOf(all []engineProgram, engine sources.Engine) (found []engineProgram) {
	for _, p := range all {
		if _, err := lookPath(p.path); p.engine == engine && err == nil {
			found = append(found, p)
		}
	}
	return found
}

// putFirst returns the command, on Windows for PowerShell, that puts a directory first on PATH.
func putFirst(m cliconfig.Machine, dir string) string {
	if m.GOOS == "windows" {
		return `$env:PATH = '` + strings.ReplaceAll(dir, "'", "''") + `;' + $env:PATH`
	}
	return "export PATH=" + shellQuoted(dir) + `:"$PATH"`
}

// firstProgram returns the program of an engine that runs, behind Larder's shim if that comes first.
func (m *rootModule) firstProgram(ctx context.Context, engine sources.Engine) engineProgram {
	for _, p := range programsOf(m.enginePrograms(ctx), engine) {
		if !p.shim {
			return p
		}
	}
	return engineProgram{}
}

// bypassedShims finds engines that run without Larder, because they come before its shims on PATH.
func bypassedShims(ctx context.Context, c *checkup) {
	for _, engine := range BothEngines {
		programs := programsOf(c.enginePrograms(ctx), engine)
		i := slices.IndexFunc(programs, func(p engineProgram) bool { return p.shim })
		if i <= 0 {
			continue
		}
		shim := programs[i].path
		fix := putFirst(c.machine, filepath.Dir(shim))
		if m := programs[0].manager; m != "" {
			fix += ", after the line that sets up " + m + " in your shell's configuration"
		}
		c.add(report.Diagnosis{
			Trap: "shim-bypassed", Path: shim, Why: fmt.Sprintf("%s runs without larder", engine), Fix: fix,
			Text: fmt.Sprintf("%s comes before larder's shim %s on PATH", c.programText(programs[0]), c.brief(shim)),
		})
	}
}

// otherPlatform finds engines that can't use the providers that Larder installs.
func otherPlatform(ctx context.Context, c *checkup) {
	for _, engine := range BothEngines {
		p := c.firstProgram(ctx, engine)
		if current := sources.CurrentPlatform().String(); p.platform != "" && p.platform != current && len(c.flags.Platforms) == 0 {
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "engine-platform", Path: p.path,
				Text: fmt.Sprintf("%s is a program for %s, but larder is one for %s", c.brief(p.path), p.platform, current),
				Why:  "Larder installs providers for its own platform, and the engine can't use them",
				Fix:  c.again("install") + " --platform " + shellQuoted(p.platform),
			})
		}
	}
}

// writablePath finds engines that others can replace, and directories on PATH, before the engines, in which others can
// put programs.
func writablePath(ctx context.Context, c *checkup) {
	all := c.enginePrograms(ctx)
	for _, p := range all {
		if p.unsafe != "" {
			c.add(report.Diagnosis{
				Trap: "path-writable", Path: p.path, Text: fmt.Sprintf("%s is on PATH, but %s", c.brief(p.path), p.unsafe),
				Why: "others can replace a program that you run; doctor doesn't run it, so its version is unknown",
				Fix: cmp.Or(p.safer, "remove "+c.brief(filepath.Dir(p.path))+" from PATH"),
			})
		}
	}
	dirs := filepath.SplitList(c.machine.Path())
	last := slices.IndexFunc(dirs, func(dir string) bool {
		return slices.ContainsFunc(all, func(p engineProgram) bool { return filepath.Dir(p.path) == filepath.Clean(dir) })
	})
	for _, dir := range dirs[:max(last, 0)] {
		d := report.Diagnosis{Trap: "path-writable", Path: dir, Fix: "remove it from PATH in your shell's configuration"}
		e := exposureOf(dir, ofOther)
		switch {
		case !filepath.IsAbs(dir):
			d.Text = fmt.Sprintf("PATH has the relative directory %q before the engines", dir)
			d.Why = "a program in a checkout runs instead of terraform and tofu"
		case e.at == "" || !exists(dir):
			continue
		default:
			d.Text = fmt.Sprintf("%s%s, which is on PATH before the engines", e.who, c.brief(e.at))
			d.Why, d.Fix = "others can put programs there that run instead of terraform and tofu", cmp.Or(e.fix, d.Fix)
		}
		c.add(d)
	}
}
