package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// engineChecks are the checks of doctor for this area.
var engineChecks = []check{
	listEngines, checkEnginesRun, checkEngineOrder, checkEngineShims, checkEngineVersions, checkEngineChosen,
	checkPath, checkTerragrunt, checkEngineArguments,
}

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

// listEngines returns the summary even if there are traps, because their texts need not name all engines.
func listEngines(ctx context.Context, c *checkup) []report.Diagnosis {
	return []report.Diagnosis{{Severity: report.Healthy, Text: "engines: " + enginesSummary(ctx, c)}}
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

// checkEnginesRun reports programs that do not run, or that doctor must not run.
func checkEnginesRun(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, p := range c.enginePrograms(ctx) {
		d := report.Diagnosis{Path: p.path}
		switch _, err := lookPath(p.path); {
		case err != nil:
			d.Severity, d.Trap = report.Risky, "engine-not-executable"
			d.Text = fmt.Sprintf("%s is on PATH, but isn't executable", c.brief(p.path))
			d.Why = "shells and Larder skip it, and run the next program of that name"
			d.Fix = asOwner(p.path, "chmod +x "+shellQuoted(p.path))
		case p.unsafe != "":
			d.Severity, d.Trap = report.Risky, "engine-unsafe"
			d.Text = fmt.Sprintf("%s is on PATH, but %s", c.brief(p.path), p.unsafe)
			d.Why = "others can replace a program that you run; doctor doesn't run it, so its version is unknown"
			d.Fix = "remove " + c.brief(filepath.Dir(p.path)) + " from PATH"
			if p.exposed != "" {
				d.Fix = asOwner(p.exposed, "chmod o-w "+shellQuoted(p.exposed))
			}
		case p.err != nil:
			d.Severity, d.Trap = report.Broken, "engine-broken"
			d.Text = fmt.Sprintf("%s doesn't run: %v", c.brief(p.path), p.err)
			d.Why = "larder exec and shims run it"
			d.Fix = fmt.Sprintf("install %s again; %s version shows what is wrong", p.engine, shellQuoted(p.path))
			if _, ended := errors.AsType[*exec.ExitError](p.err); ended { // it may need a configuration in the directory
				d.Severity, d.Text = report.Risky, fmt.Sprintf("%s prints no version: %v", c.brief(p.path), p.err)
				d.Why, d.Fix = "larder exec and shims run it", shellQuoted(p.path)+" version"
			}
		default:
			continue
		}
		found = append(found, d)
	}
	return found
}

// checkEngineOrder reports programs that another version of the same engine hides.
func checkEngineOrder(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, engine := range BothEngines {
		programs := slices.DeleteFunc(programsOf(c.enginePrograms(ctx), engine), func(p engineProgram) bool { return p.shim })
		if len(programs) < 2 {
			continue
		}
		first, second := programs[0], programs[1]
		if first.manager != "" || first.version == second.version && first.runs() {
			continue
		}
		fix := "remove one of them from PATH"
		if len(programs) == len(programsOf(c.enginePrograms(ctx), engine)) {
			fix = "to run the other one: " + putFirst(c.machine, filepath.Dir(second.path))
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "engine-hidden", Path: second.path,
			Text: fmt.Sprintf("PATH has %d programs named %s: %s comes before %s", len(programs), engine, c.programText(first), c.programText(second)),
			Why:  "only the first one runs, unless a program names another one by its path",
			Fix:  fix,
		})
	}
	return found
}

// checkEngineShims reports Larder's shims that don't run, or have no engine to run.
func checkEngineShims(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, engine := range BothEngines {
		programs := programsOf(c.enginePrograms(ctx), engine)
		i := slices.IndexFunc(programs, func(p engineProgram) bool { return p.shim })
		if i < 0 {
			continue
		}
		shim := programs[i]
		d := report.Diagnosis{Severity: report.Risky, Trap: "shim-bypassed", Path: shim.path}
		switch {
		case i > 0:
			d.Text = fmt.Sprintf("%s comes before larder's shim %s on PATH", c.programText(programs[0]), c.brief(shim.path))
			d.Why = fmt.Sprintf("%s runs without larder", engine)
			d.Fix = putFirst(c.machine, filepath.Dir(shim.path))
			if m := programs[0].manager; m != "" {
				d.Fix += ", after the line that sets up " + m + " in your shell's configuration"
			}
		case len(programs) == 1 && !shim.script && c.othersOnPath(ctx, engine):
			continue // the shims of both engines are made together
		case len(programs) == 1 && !shim.script:
			d.Severity, d.Trap = report.Broken, "shim-alone"
			d.Text = fmt.Sprintf("PATH has no %s besides larder's shim %s", engine, c.brief(shim.path))
			d.Why = "the shim has no engine to run"
			d.Fix = fmt.Sprintf("put the directory of %s on PATH, after %s", engine, c.brief(filepath.Dir(shim.path)))
		default:
			continue
		}
		found = append(found, d)
	}
	return found
}

// othersOnPath reports whether the other engine is on PATH.
func (c *checkup) othersOnPath(ctx context.Context, engine sources.Engine) bool {
	return slices.ContainsFunc(c.enginePrograms(ctx), func(p engineProgram) bool { return p.engine != engine && !p.shim })
}

// firstProgram returns the program of an engine that runs, behind Larder's shim if that comes first.
func (m *rootModule) firstProgram(ctx context.Context, engine sources.Engine) (p engineProgram, ok bool) {
	for _, p := range programsOf(m.enginePrograms(ctx), engine) {
		if !p.shim {
			return p, true
		}
	}
	return p, false
}

// earliest is the first version of Terraform with lock files and the layout of .terraform/providers.
const earliest = "0.14.0"

// checkEngineVersions reports engines of other versions or platforms than necessary.
func checkEngineVersions(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	least, _ := sources.ParseVersion(earliest)
	for _, engine := range BothEngines {
		p, ok := c.firstProgram(ctx, engine)
		if !ok {
			continue
		}
		if p.runs() && p.version.Compare(least) < 0 {
			found = append(found, report.Diagnosis{
				Severity: report.Broken, Trap: "engine-too-old", Path: p.path,
				Text: fmt.Sprintf("%s %s is too old for Larder", engine, p.version),
				Why:  "it reads neither .terraform/providers nor .terraform.lock.hcl, so it doesn't find what Larder installs",
				Fix:  fmt.Sprintf("install %s %s or later", engine, strings.TrimSuffix(earliest, ".0")),
			})
		}
		if current := sources.CurrentPlatform().String(); p.platform != "" && p.platform != current && len(c.flags.Platforms) == 0 {
			found = append(found, report.Diagnosis{
				Severity: report.Broken, Trap: "engine-platform", Path: p.path,
				Text: fmt.Sprintf("%s is a program for %s, but larder is one for %s", c.brief(p.path), p.platform, current),
				Why:  "Larder installs providers for its own platform, and the engine can't use them",
				Fix:  c.again("install") + " --platform " + shellQuoted(p.platform),
			})
		}
		found = append(found, c.checkRequested(p)...)
		found = append(found, c.checkRequiredVersion(p)...)
	}
	return found
}

// checkRequiredVersion compares an engine with required_version in the modules of the root module, if the root
// module is for this engine.
func (c *checkup) checkRequiredVersion(p engineProgram) []report.Diagnosis {
	if p.engine != c.chosen.engine || !p.runs() {
		return nil
	}
	for _, from := range c.tree.EngineVersions {
		allowed, err := sources.ParseConstraints(from.Constraint)
		if err != nil || allowed.Allow(p.version) {
			continue
		}
		file := c.full(from.File)
		return []report.Diagnosis{{
			Severity: report.Broken, Trap: "required-version", Path: file, Line: from.Line,
			Text: fmt.Sprintf("required_version is %q, but %s runs", from.Constraint, c.programText(p)),
			Why:  "every command of the engine fails here; Larder doesn't check the version of the engine",
			Fix:  fmt.Sprintf("put %s of a version that matches %q first on PATH, or change the constraint", p.engine, from.Constraint),
		}}
	}
	return nil
}

// checkRequested compares an engine with the version file of the root module.
func (c *checkup) checkRequested(p engineProgram) []report.Diagnosis {
	r := c.requestedVersion(p.engine)
	if r.version == "" {
		return nil
	}
	d := report.Diagnosis{Severity: report.Risky, Trap: "engine-version", Path: r.file, Line: r.line}
	wanted, err := sources.ParseVersion(strings.TrimPrefix(r.version, "v"))
	switch {
	case (p.manager == "tfenv" || p.manager == "tofuenv") && filepath.Base(r.file) == ".tool-versions":
		d.Trap = "version-file-unread"
		d.Text = fmt.Sprintf("%s asks for %s %s, but %s doesn't read it", filepath.Base(r.file), p.engine, r.version, p.manager)
		d.Why = "another version may run"
		d.Fix = fmt.Sprintf("echo %s > %s", shellQuoted(r.version), map[string]string{"tfenv": ".terraform-version", "tofuenv": ".opentofu-version"}[p.manager])
	case err == nil && p.runs() && p.version != wanted:
		d.Text = fmt.Sprintf("%s asks for %s %s, but %s runs", filepath.Base(r.file), p.engine, wanted, c.programText(p))
		d.Why = "another version may choose and lock providers differently; only a version manager reads this file, and none comes first on PATH"
		d.Fix = fmt.Sprintf("install %s %s and put it first on PATH, or correct line %d of %s", p.engine, wanted, r.line, r.file)
	default:
		return nil
	}
	return []report.Diagnosis{d}
}

// checkEngineChosen reports a root module whose engine is missing.
func checkEngineChosen(ctx context.Context, c *checkup) []report.Diagnosis {
	engine := c.chosen.engine
	if _, ok := c.firstProgram(ctx, engine); ok || c.chosen.assumed || !c.othersOnPath(ctx, engine) {
		return nil
	}
	return []report.Diagnosis{{
		Severity: report.Risky, Trap: "engine-missing", Path: c.chosen.file,
		Text: fmt.Sprintf("this root module uses %s (%s), but it isn't on PATH", engine, c.chosen.because(c.brief)),
		Why:  "Larder follows its rules, and another engine may choose other providers and lock files",
		Fix:  fmt.Sprintf("install %s, or use the other engine with --engine", engine),
	}}
}

// checkPath reports directories on PATH, before the engines, in which others can put programs.
func checkPath(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	all := c.enginePrograms(ctx)
	last, dirs := -1, filepath.SplitList(c.machine.Path())
	for i, dir := range dirs {
		if slices.ContainsFunc(all, func(p engineProgram) bool { return p.path == filepath.Join(dir, filepath.Base(p.path)) }) {
			last = i
			break
		}
	}
	for _, dir := range slices.Compact(dirs[:last+1]) {
		d := report.Diagnosis{Severity: report.Risky, Trap: "path-writable", Path: dir, Why: "others can put programs there that run instead of terraform and tofu"}
		info, err := os.Stat(dir)
		if dir != "" && err != nil {
			continue
		}
		switch {
		case !filepath.IsAbs(dir):
			d.Trap, d.Path = "path-relative", ""
			d.Text = fmt.Sprintf("PATH has the relative directory %q before the engines", dir)
			if dir == "" {
				d.Text = "PATH has an empty element, which means the current directory, before the engines"
			}
			d.Why = "a program in a checkout runs instead of terraform and tofu"
			d.Fix = "remove it from PATH in your shell's configuration"
		case !info.IsDir():
			continue
		case slices.ContainsFunc(all, func(p engineProgram) bool { return p.unsafe != "" && filepath.Dir(p.path) == dir }):
			continue // already reported
		case writable(info):
			d.Text = fmt.Sprintf("all users can write to %s, which is on PATH", c.brief(dir))
			d.Fix = asOwner(dir, "chmod o-w "+shellQuoted(dir))
		case disk.OfOther(info):
			d.Text = fmt.Sprintf("%s owns %s, which is on PATH", disk.Owner(dir), c.brief(dir))
			d.Fix = "remove it from PATH, or put it after the directories of the system"
		default:
			continue
		}
		found = append(found, d)
	}
	return found
}

// writable reports whether all users can create files in a directory.
func writable(dir os.FileInfo) bool {
	create, _ := disk.WritableByAll(dir)
	return create
}

// checkTerragrunt reports settings of Terragrunt with which Larder doesn't work.
func checkTerragrunt(_ context.Context, c *checkup) (found []report.Diagnosis) {
	in := c.machine.Invocation([]string{"terragrunt"})
	if name := in.ProviderCache; strings.HasPrefix(name, "T") {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "terragrunt-provider-cache",
			Text: name + " turns on Terragrunt's provider cache server",
			Why:  "it would replace the providers that Larder installs, so larder exec and shims refuse to run",
			Fix:  "unset " + name,
		})
	}
	path := in.EnginePath
	if path == "" {
		return found
	}
	if _, err := lookPath(path); err != nil {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "terragrunt-engine", Path: path,
			Text: fmt.Sprintf("TG_TF_PATH names an engine that doesn't run: %v", err),
			Why:  "every command of Terragrunt fails", Fix: "unset TG_TF_PATH TERRAGRUNT_TFPATH",
		})
	}
	return found
}

// checkEngineArguments reports variables with flags that change what engines install.
func checkEngineArguments(_ context.Context, c *checkup) []report.Diagnosis {
	in := c.machine.Invocation([]string{string(c.config.Engine), "init"})
	var flags, names []string
	for _, f := range []struct {
		set  bool
		text string
	}{
		{in.Upgrade, "-upgrade"}, {in.ReadOnlyLock, "-lockfile=readonly"}, {in.KeepModules, "-get=false"},
		{len(in.PluginDirs) > 0, "-plugin-dir=" + strings.Join(in.PluginDirs, " -plugin-dir=")},
	} {
		if f.set {
			flags = append(flags, f.text)
		}
	}
	if len(flags) == 0 {
		return nil
	}
	for _, v := range c.config.InputVariables() {
		if (v.Name == "TF_CLI_ARGS" || v.Name == "TF_CLI_ARGS_init") && v.State != "" {
			names = append(names, v.Name)
		}
	}
	return []report.Diagnosis{{
		Severity: report.Risky, Trap: "engine-arguments",
		Text: fmt.Sprintf("%s makes every init use %s", strings.Join(names, " or "), strings.Join(flags, " ")),
		Why:  "only larder exec and shims apply these flags; other commands of Larder ignore them, so they may install other providers than init",
		Fix:  "unset " + strings.Join(names, " "),
	}}
}
