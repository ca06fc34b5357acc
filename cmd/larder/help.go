package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
)

// Help fits a screen of 24 lines, which a test keeps so.

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "tell more about a command, or about what all have",
		ArgsUsage: "[COMMAND | flags | exit-status]",
		Action:    help,
	}
}

// Help is written when a user asks for it. The library would describe all flags of
// all commands at each start, and with templates, which takes two milliseconds.
func init() {
	cli.HelpPrinter = printHelp
	cli.FlagStringer = func(cli.Flag) string { return "" } // only templates use it
}

// printHelp writes the help of a command, or of the app as a command, in place of a template.
func printHelp(w io.Writer, _ string, of any) {
	switch of := of.(type) {
	case *cli.App:
		fmt.Fprint(w, appHelp(of.Usage, of.Commands))
	case *cli.Command:
		if of.HelpName == of.Name { // the app
			fmt.Fprint(w, appHelp(of.Usage, of.Subcommands))
			return
		}
		fmt.Fprint(w, commandHelp(commandPath(of), of))
	}
}

// help writes the help of a command, or a topic that concerns all commands.
func help(c *cli.Context) error {
	topic := strings.Join(c.Args().Slice(), " ")
	cmd := find(c.App.Commands, c.Args().Slice())
	switch {
	case topic == "":
		fmt.Fprint(c.App.Writer, appHelp(c.App.Usage, c.App.Commands))
	case topic == "flags":
		fmt.Fprint(c.App.Writer, flagsHelp())
	case topic == "exit-status":
		fmt.Fprint(c.App.Writer, exitHelp())
	case cmd != nil:
		fmt.Fprint(c.App.Writer, commandHelp(topic, cmd))
	default:
		return unknownCommand(c.App, topic)
	}
	return nil
}

// find is the command that is so written.
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

// appHelp is what larder shows without a command.
func appHelp(usage string, commands []*cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "larder - %s\n\nUsage: larder COMMAND [FLAG...]\n\n", usage)
	rows := [][2]string{}
	for _, cmd := range commands {
		rows = append(rows, [2]string{cmd.Name, cmd.Usage})
	}
	b.WriteString(table(rows))
	b.WriteString("\nFlags of every command, before it or after it:\n\n")
	b.WriteString(flagNames(globalFlags()))
	var statuses []string
	for _, s := range exitStatuses {
		statuses = append(statuses, fmt.Sprintf("%d %s", s.status, s.meaning))
	}
	b.WriteString("\nSee also \"larder help COMMAND\", \"larder help flags\", \"larder help exit-status\".\n" +
		"Exit status: " + strings.Join(statuses, ", ") + ".\n")
	return b.String()
}

// commandHelp is the help of the command at a path such as "cache prune". Flags of all
// commands are left out: they would not fit the screen.
func commandHelp(path string, cmd *cli.Command) string {
	var b strings.Builder
	usage := strings.TrimSpace(path + " " + cmd.ArgsUsage)
	fmt.Fprintf(&b, "larder %s - %s\n\nUsage: larder %s\n\n", path, cmd.Usage, usage)
	rows := [][2]string{}
	for _, sub := range cmd.Subcommands {
		if sub.Name != "help" { // which the library adds
			rows = append(rows, [2]string{sub.Name, sub.Usage})
		}
	}
	if len(rows) > 0 {
		b.WriteString(table(rows) + "\n")
	}
	if own := flagTable(ownFlags(cmd)); own != "" {
		b.WriteString(own + "\n")
	}
	if cmd.Description != "" {
		b.WriteString(cmd.Description + "\n")
	}
	b.WriteString("For the flags of every command see \"larder help flags\".\n")
	return b.String()
}

// exitHelp is the topic exit-status.
func exitHelp() string {
	rows := [][2]string{}
	for _, s := range exitStatuses {
		rows = append(rows, [2]string{fmt.Sprintf("%3d", s.status), fmt.Sprintf("%s: %s", s.meaning, s.when)})
	}
	return "Exit statuses of every command:\n\n" + table(rows)
}

// flagsHelp is the topic flags.
func flagsHelp() string {
	return "Flags of every command, before it or after it:\n\n" + flagTable(globalFlags())
}

// ownFlags are the flags that not every command has.
func ownFlags(cmd *cli.Command) []cli.Flag {
	return slices.DeleteFunc(slices.Clone(cmd.Flags), func(f cli.Flag) bool {
		c, ok := f.(cli.CategorizableFlag)
		return f == cli.HelpFlag || ok && c.GetCategory() == globalCategory
	})
}

// placeholder is what a flag's usage calls its value.
var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`(.*?)` ?") })

// describe splits what there is to say of a flag into how it is written and
// what it does. A placeholder at the front of its usage names the value only.
func describe(f cli.Flag) (written, does string) {
	names := slices.Clone(f.Names())
	slices.Reverse(names) // the short one first
	for i, name := range names {
		names[i] = dashed(name)
	}
	written = strings.Join(names, ", ")
	if doc, ok := f.(cli.DocGenerationFlag); ok {
		does = doc.GetUsage()
	}
	if m := placeholder().FindStringSubmatchIndex(does); m != nil {
		value := does[m[2]:m[3]]
		written += " " + value
		if m[0] == 0 {
			return written, does[m[1]:]
		}
		does = strings.ReplaceAll(does, "`", "")
	}
	return written, does
}

// dashed is a flag's name as it is typed.
func dashed(name string) string { return strings.Repeat("-", min(len(name), 2)) + name }

// flagTable describes flags, one to a line.
func flagTable(flags []cli.Flag) string {
	rows := [][2]string{}
	for _, f := range flags {
		written, does := describe(f)
		rows = append(rows, [2]string{written, does})
	}
	return table(rows)
}

// table writes rows of two columns.
func table(rows [][2]string) string {
	width := 0
	for _, row := range rows {
		width = max(width, len(row[0]))
	}
	var b strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, row[0], row[1])
	}
	return b.String()
}

// flagNames lists how flags are written, in lines that fit a screen.
func flagNames(flags []cli.Flag) string {
	var b strings.Builder
	line := " "
	for _, f := range flags {
		written, _ := describe(f)
		if len(line)+len(written) > 76 {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " [" + written + "]"
	}
	return b.String() + line + "\n"
}
