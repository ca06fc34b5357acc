package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// Help fits on a screen of 24 lines and 80 columns, as a test verifies. It is made from the
// commands: Usage is the description of a command, UsageText its example, and Category its
// purpose. The Category of a flag is its heading.

// The purposes of commands, in the order of help.
const (
	forModules = "Root modules"
	forCache   = "Plugin cache"
	forMirrors = "Mirrors"
	forLarder  = "Larder"
)

// The headings of flags.
const (
	selectionFlags = "Selection"
	limitFlags     = "Limits"
	signatureFlags = "Signatures"
	otherFlags     = "Other"
)

// Larder describes flags only for help. The library would describe them at each start, which
// takes two milliseconds.
func init() {
	cli.FlagStringer = func(cli.Flag) string { return "" } // only the library's own help uses it
}

func helpCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Category:  forLarder,
		Usage:     "describe a command or a topic",
		ArgsUsage: "[COMMAND | TOPIC]",
		UsageText: "larder help mirror sync",
		Description: "Topics: " + strings.Join(topicNames(), ", ") + ".\n" +
			"With --json, the help without a topic describes all commands.",
		Action: func(c *cli.Context) error { return help(c, out) },
	}
}

// help prints the help of a command or of a topic.
func help(c *cli.Context, out *ui.Output) error {
	words := c.Args().Slice()
	if len(words) == 1 {
		for _, t := range topics {
			if t.name == words[0] {
				return t.write(c, out)
			}
		}
	}
	if len(words) == 1 && words[0] == "help" {
		words = nil
	}
	cmd := find(c.App.Commands, words)
	if cmd == nil && len(words) > 0 {
		return unknownTopic(c.App, strings.Join(words, " "))
	}
	showHelp(c.App, out, strings.Join(words, " "), cmd)
	return nil
}

// showHelp prints the help of the command at a path, or of larder if the path is nil.
func showHelp(app *cli.App, out *ui.Output, path string, cmd *cli.Command) {
	switch {
	case out.JSON && cmd == nil:
		for _, path := range commandPaths("", app.Commands) {
			out.Object("help", describeCommand(path, find(app.Commands, strings.Fields(path))))
		}
	case out.JSON:
		out.Object("help", describeCommand(path, cmd))
	case cmd == nil:
		fmt.Fprint(out.Stdout, appHelp(app.Usage, app.Commands))
	default:
		fmt.Fprint(out.Stdout, commandHelp(path, cmd))
	}
}

// find returns the command at a path.
func find(commands []*cli.Command, path []string) *cli.Command {
	var cmd *cli.Command
	for _, name := range path {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		cmd, commands = commands[i], commands[i].Subcommands
	}
	return cmd
}

// appHelp returns the help of larder without a command.
func appHelp(usage string, commands []*cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "larder: %s\n\nUsage: larder COMMAND [ARGUMENT...] [FLAG...]\n\n", usage)
	var rows [][]string
	last := ""
	for _, cmd := range byJob(commands) {
		job := cmd.Category
		if job == last {
			job = ""
		}
		last = cmd.Category
		rows = append(rows, []string{job, cmd.Name, cmd.Usage})
	}
	b.WriteString(table(rows))
	b.WriteString("\nTopics: larder help " + strings.Join(topicNames(), ", ") + ".\n" +
		"larder help COMMAND describes a command, with an example.\n")
	return b.String()
}

// byJob returns the commands that help shows, grouped by purpose.
func byJob(commands []*cli.Command) []*cli.Command {
	commands = visibleCommands(commands)
	var jobs []string
	for _, cmd := range commands {
		if !slices.Contains(jobs, cmd.Category) {
			jobs = append(jobs, cmd.Category)
		}
	}
	slices.SortStableFunc(commands, func(a, b *cli.Command) int {
		return slices.Index(jobs, a.Category) - slices.Index(jobs, b.Category)
	})
	return commands
}

// commandHelp returns the help of the command at a path such as "cache prune". It omits
// global flags, which would not fit on the screen.
func commandHelp(path string, cmd *cli.Command) string {
	d := describeCommand(path, cmd)
	var b strings.Builder
	fmt.Fprintf(&b, "larder %s: %s\n", path, d.Does)
	if d.About != "" {
		fmt.Fprintf(&b, "%s\n", filled(d.About))
	}
	fmt.Fprintf(&b, "Usage:   %s\n", d.Usage)
	if d.Example != "" {
		fmt.Fprintf(&b, "Example: %s\n", d.Example)
	}
	var rows [][]string
	for _, sub := range visibleCommands(cmd.Subcommands) {
		rows = append(rows, []string{sub.Name, sub.Usage})
	}
	if len(rows) > 0 {
		fmt.Fprintf(&b, "\n%s\nlarder help %s COMMAND describes a command, with an example.\n", table(rows), path)
		return b.String()
	}
	flags := flagTable(d.Flags)
	if strings.Count(b.String()+flags, "\n") < helpLines-1 {
		b.WriteString("\n")
	}
	b.WriteString(flags)
	if strings.Count(b.String(), "\n") < helpLines {
		b.WriteString("larder help flags lists the flags of every command.\n")
	}
	return b.String()
}

// helpLines is how many lines of help fit on a terminal of 24 lines, with a prompt.
const helpLines = 23

// A describedCommand is the help of a command, in JSON.
type described struct {
	Command string          `json:"command"`
	Job     string          `json:"job,omitempty"`
	Does    string          `json:"does"`
	Usage   string          `json:"usage"`
	Example string          `json:"example,omitempty"`
	About   string          `json:"about,omitempty"`
	Flags   []describedFlag `json:"flags"`
}

// A describedFlag is a flag in JSON.
type describedFlag struct {
	Name       string `json:"name"`
	Short      string `json:"short,omitempty"`
	Value      string `json:"value,omitempty"`
	Repeatable bool   `json:"repeatable,omitempty"`
	Group      string `json:"group,omitempty"`
	Does       string `json:"does"`
	Variable   string `json:"variable,omitempty"`
}

// describeCommand returns the help of the command at a path.
func describeCommand(path string, cmd *cli.Command) described {
	d := described{
		Command: path, Job: cmd.Category, Does: cmd.Usage, Usage: strings.TrimSpace("larder " + path + " " + cmd.ArgsUsage),
		Example: cmd.UsageText, About: strings.ReplaceAll(cmd.Description, "\n", " "), Flags: describeFlags(ownFlags(cmd)),
	}
	return d
}

// ownFlags returns the visible flags of a command that are not global.
func ownFlags(cmd *cli.Command) []cli.Flag {
	return slices.DeleteFunc(slices.Clone(cmd.Flags), func(f cli.Flag) bool {
		v, ok := f.(cli.VisibleFlag)
		return f == cli.HelpFlag || groupOf(f) == globalCategory || ok && !v.IsVisible()
	})
}

// groupOf returns the heading of a flag.
func groupOf(f cli.Flag) string {
	if c, ok := f.(cli.CategorizableFlag); ok && c.GetCategory() != "" {
		return c.GetCategory()
	}
	return otherFlags
}

// describeFlags describes flags, grouped by heading.
func describeFlags(flags []cli.Flag) []describedFlag {
	all := []describedFlag{}
	for _, f := range flags {
		all = append(all, describeFlag(f))
	}
	var groups []string
	for _, f := range all {
		if !slices.Contains(groups, f.Group) && f.Group != otherFlags {
			groups = append(groups, f.Group)
		}
	}
	groups = append(groups, otherFlags)
	slices.SortStableFunc(all, func(a, b describedFlag) int {
		return slices.Index(groups, a.Group) - slices.Index(groups, b.Group)
	})
	return all
}

// placeholder matches the name of a flag's value in its usage.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`(.*?)` ?") })

// describeFlag splits the usage of a flag into the name of its value and the description. A
// placeholder at the front of the usage is not part of the description.
func describeFlag(f cli.Flag) describedFlag {
	d := describedFlag{Name: longName(f), Group: groupOf(f)}
	for _, name := range f.Names()[1:] {
		d.Short = name
	}
	if d.Group == globalCategory {
		d.Variable = cliconfig.FlagVariable(d.Name)
	}
	_, d.Repeatable = f.(*cli.StringSliceFlag)
	if doc, ok := f.(cli.DocGenerationFlag); ok {
		d.Does = doc.GetUsage()
	}
	if m := placeholder().FindStringSubmatchIndex(d.Does); m != nil {
		d.Value = d.Does[m[2]:m[3]]
		if m[0] == 0 {
			d.Does = d.Does[m[1]:]
		} else {
			d.Does = strings.ReplaceAll(d.Does, "`", "")
		}
	}
	return d
}

// written returns a flag as help shows it.
func (f describedFlag) written() string {
	text := dashed(f.Name)
	if f.Short != "" {
		text = dashed(f.Short) + ", " + text
	}
	if f.Value != "" {
		text += " " + f.Value
	}
	if f.Repeatable && !strings.HasSuffix(f.Value, "...") {
		text += "..."
	}
	return text
}

// dashed returns the name of a flag as typed.
func dashed(name string) string { return strings.Repeat("-", min(len(name), 2)) + name }

// flagTable describes flags, one on each line, under their headings.
func flagTable(flags []describedFlag) string {
	var rows [][]string
	for _, f := range flags {
		rows = append(rows, []string{f.written(), f.Does})
	}
	lines := strings.SplitAfter(table(rows), "\n")
	several := len(flags) > 0 && flags[0].Group != flags[len(flags)-1].Group
	var b strings.Builder
	last := ""
	for i, f := range flags {
		if several && f.Group != last {
			fmt.Fprintf(&b, "%s:\n", f.Group)
			last = f.Group
		}
		b.WriteString(lines[i])
	}
	return b.String()
}

// filled wraps a text to fit a screen.
func filled(text string) string {
	const columns = 80
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case width == 0:
			width = n
		case width+1+n > columns:
			b.WriteString("\n")
			width = n
		default:
			b.WriteString(" ")
			width += 1 + n
		}
		b.WriteString(word)
	}
	if width > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

// table returns rows with aligned columns.
func table(rows [][]string) string {
	var b strings.Builder
	for _, line := range ui.Columns(rows) {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
