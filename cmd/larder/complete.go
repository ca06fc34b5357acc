package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// completeWord is the hidden command that completion scripts run.
const completeWord = "__complete"

// shells are the shells that have completion scripts.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// A completer lists completions of the last word of a command line. It uses no network,
// writes nothing, and reports no errors.
type completer struct {
	app   *cli.App
	to    io.Writer
	line  commandLine // without the last word
	typed []string    // without larder and the last word
	word  string      // the last word
}

// completeLine prints the completions of the last word, one on each line, with their
// descriptions after a tab. The line :files or :dirs requests completion of file or
// directory names.
func completeLine(ctx context.Context, app *cli.App, to io.Writer, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	c := &completer{app: app, to: to, typed: words[:last], word: words[last]}
	if c.word == `""` { // from PowerShell, which omits empty arguments
		c.word = ""
	}
	c.line = readCommandLine(app, append([]string{app.Name}, c.typed...))
	name, value, assigned := strings.Cut(c.word, "=")
	switch f := c.pending(); {
	case f != nil:
		c.values(ctx, f, "", c.word)
	case strings.HasPrefix(c.word, "-") && assigned:
		if f := flagNamed(c.line.flags, strings.TrimLeft(name, "-")); f != nil {
			c.values(ctx, f, name+"=", value)
		}
	case strings.HasPrefix(c.word, "-"):
		c.flags()
	default:
		c.arguments(ctx)
	}
}

// offer prints a word if it is a completion of the last word.
func (c *completer) offer(word, about string) {
	if !strings.HasPrefix(word, c.word) {
		return
	}
	if about != "" {
		word += "\t" + about
	}
	fmt.Fprintln(c.to, word)
}

// pending returns the flag whose value is the last word, or nil if there is none.
func (c *completer) pending() cli.Flag {
	if len(c.typed) == 0 {
		return nil
	}
	before := c.typed[len(c.typed)-1]
	if !strings.HasPrefix(before, "-") || strings.Contains(before, "=") || !takesValue(c.line.flags, before) {
		return nil
	}
	return flagNamed(c.line.flags, strings.TrimLeft(before, "-"))
}

// flags offers the long names of flags: first those of the command, then the global ones.
func (c *completer) flags() {
	flags := describeFlags(slices.DeleteFunc(slices.Clone(c.line.flags), func(f cli.Flag) bool { return f == cli.HelpFlag }))
	slices.SortStableFunc(flags, func(a, b describedFlag) int {
		global := map[bool]int{true: 1}
		return global[a.Group == globalCategory] - global[b.Group == globalCategory]
	})
	for _, f := range flags {
		c.offer(dashed(f.Name), f.Does)
	}
	c.offer("--help", "describe the command")
}

// values offers values for a flag, behind a prefix. Typed is the beginning of the value.
func (c *completer) values(ctx context.Context, f cli.Flag, prefix, typed string) {
	var values []string
	switch longName(f) {
	case "platform":
		before := typed[:strings.LastIndex(typed, ",")+1] // earlier items of a list
		for _, platform := range commonPlatforms {
			if !slices.Contains(strings.Split(before, ","), platform) {
				values = append(values, before+platform)
			}
		}
	case "engine":
		values = sources.Texts(engines)
	case "link":
		values = sources.Texts(sources.LinkModes)
	case "color":
		values = sources.Texts(ui.ColorModes)
	case "lockfile":
		values = []string{"readonly"}
	case "sort":
		values = orderNames
	case "as":
		c.addresses(ctx, true)
	case "chdir", "cache", "plugin-dir", "roots", "mirror", "to":
		fmt.Fprintln(c.to, ":dirs")
	case "config", "from", "keep-locked-by", "since", "write-config":
		fmt.Fprintln(c.to, ":files")
	}
	for _, value := range values {
		c.offer(prefix+value, "")
	}
}

// commonPlatforms are the platforms that most providers support.
var commonPlatforms = []string{
	"linux_amd64", "linux_arm64", "darwin_arm64", "darwin_amd64", "windows_amd64", "windows_arm64", "windows_386",
	"linux_386", "linux_arm", "freebsd_amd64", "freebsd_386", "freebsd_arm", "freebsd_arm64", "openbsd_amd64", "openbsd_386", "solaris_amd64",
}

// arguments offers commands, or the arguments of a command.
func (c *completer) arguments(ctx context.Context) {
	path := c.line.path()
	cmd := find(c.app.Commands, strings.Fields(path))
	switch {
	case c.line.unknown != "":
		return
	case cmd == nil, len(visibleCommands(cmd.Subcommands)) > 0:
		commands := c.app.Commands
		if cmd != nil {
			commands = cmd.Subcommands
		}
		for _, cmd := range visibleCommands(commands) {
			c.offer(cmd.Name, cmd.Usage)
		}
		return
	case path == "help":
		c.helpTopics()
		return
	case path == "completion":
		for _, shell := range shells {
			c.offer(shell, "")
		}
		return
	}
	if strings.Contains(cmd.ArgsUsage, "ADDRESS") || strings.Contains(cmd.ArgsUsage, "PATTERN") {
		c.addresses(ctx, strings.Contains(cmd.ArgsUsage, "VERSION"))
	}
	switch usage := strings.ReplaceAll(cmd.ArgsUsage, "[FLAG...]", ""); {
	case strings.Contains(usage, "FILE"), strings.Contains(usage, "A B"), strings.Contains(usage, "PATH") && path != "install" && path != "cache key":
		fmt.Fprintln(c.to, ":files")
	case strings.Contains(usage, "PATH"), strings.Contains(usage, "DIR"):
		fmt.Fprintln(c.to, ":dirs")
	}
}

// helpTopics offers commands and topics for larder help.
func (c *completer) helpTopics() {
	words := slices.DeleteFunc(slices.Clone(c.typed), func(w string) bool { return strings.HasPrefix(w, "-") })[1:]
	commands := c.app.Commands
	if cmd := find(commands, words); cmd != nil {
		commands = cmd.Subcommands
	} else if len(words) > 0 {
		return
	} else {
		for _, topic := range topicNames() {
			c.offer(topic, "topic")
		}
	}
	for _, cmd := range visibleCommands(commands) {
		c.offer(cmd.Name, cmd.Usage)
	}
}

// addresses offers provider addresses known on this machine, and after an @ the known
// versions of a provider.
func (c *completer) addresses(ctx context.Context, versions bool) {
	m := c.here(ctx)
	if m == nil {
		return
	}
	address, _, versioned := sources.CutVersion(c.word)
	if versioned && versions {
		p, err := sources.ParseProvider(address, m.config.Engine)
		if err != nil {
			return
		}
		for _, v := range m.knownVersions(ctx, p) {
			c.offer(address+"@"+v.String(), "")
			c.offer(address+"=="+v.String(), "")
		}
		return
	}
	for _, p := range m.knownProviders(ctx) {
		c.offer(p.Display(m.config.Engine), "")
		if strings.HasPrefix(p.String(), c.word) && c.word != "" && p.Display(m.config.Engine) != p.String() {
			c.offer(p.String(), "")
		}
	}
}

// here returns the root module of the command line, without reporting anything.
func (c *completer) here(ctx context.Context) *rootModule {
	s := &session{out: ui.New(io.Discard, io.Discard), machine: cliconfig.This()}
	value := func(name string) string {
		for i, word := range c.typed {
			if assigned, ok := strings.CutPrefix(word, "--"+name+"="); ok {
				return assigned
			}
			if word == "--"+name && i+1 < len(c.typed) {
				return c.typed[i+1]
			}
		}
		if name == "config" { // cliconfig reads its variable
			return ""
		}
		return s.machine.FlagValue(name)
	}
	s.dir, s.flags.cache = absolute(s.machine.WorkDir, value("chdir")), value("cache")
	unused, _ := variableBool(s.machine.FlagValue("no-cache"))
	s.flags.noCache = slices.Contains(c.typed, "--no-cache") || unused && s.flags.cache == ""
	if file := value("config"); file != "" {
		s.configFile = absolute(s.dir, file)
	}
	_ = s.request(cmp.Or(value("engine"), string(anyEngine)), "") // an invalid value names none
	m, err := s.root(ctx, s.dir, s.out)
	if err != nil {
		return nil
	}
	return m
}
