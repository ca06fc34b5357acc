package line

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// Guides is where the guides are.
const Guides = "https://github.com/larder-cli/larder/tree/main/docs"

// A Help is the help of a command.
type Help struct {
	report.Typed `type:"help"`
	Command      string   `json:"command"`
	Aliases      []string `json:"aliases,omitempty"`
	Job          string   `json:"job,omitempty"`
	Does         string   `json:"does"`
	Usage        string   `json:"usage"`
	Example      string   `json:"example,omitempty"`
	About        string   `json:"about,omitempty"`
	Flags        []Flag   `json:"flags"`

	of *Command
}

// helpOf returns the help of a command.
func helpOf(c *Command) Help {
	usage := "larder " + c.Path + " " + c.Arguments
	return Help{report.Typed{}, c.Path, c.Aliases, c.Job, c.Does, usage, c.Example, ui.Joined(c.About), c.Own(), c}
}

// ShowHelp shows the help of a command. That of the program describes all commands in JSON.
func (l *Line) ShowHelp(out *report.Output, c *Command) {
	if c != l.root {
		h := helpOf(c)
		out.ShowPage(h.text(), h)
		return
	}
	var all []report.Object
	for _, c := range l.root.All() {
		all = append(all, helpOf(c))
	}
	out.ShowPage(overview(l.root), all...)
}

// overview returns the help of the program.
func overview(root *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "larder: %s\nUsage: larder COMMAND [ARGUMENT...] [FLAG...]\n", root.Does)
	var rows [][]string
	var jobs []string
	for _, c := range byHeading(slices.Clone(root.Commands), func(c *Command) string { return cmp.Or(c.Job, "Larder") }) {
		rows, jobs = append(rows, []string{c.Name, c.Does}), append(jobs, cmp.Or(c.Job, "Larder"))
	}
	fmt.Fprintf(&b, "\n%s\nlarder help COMMAND describes a command.\nTopics: larder help %s.\n"+
		"Manual page: man larder\nGuides: %s\n",
		ui.Indented(rows, jobs...), strings.Join(topicNames(root), ", "), Guides)
	return b.String()
}

// text omits global flags, which have a topic.
func (h Help) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "larder %s: %s\n\n", h.Command, h.Does)
	if h.About != "" {
		fmt.Fprintf(&b, "%s\n\n", h.About)
	}
	usage := [][]string{{"Usage:", h.Usage}}
	if len(h.Aliases) > 0 {
		usage = append(usage, []string{"Alias:", "larder " + strings.Join(h.Aliases, ", larder ")})
	}
	heading := "Example:"
	for _, example := range h.of.Examples() {
		usage = append(usage, []string{heading, example})
		heading = ""
	}
	b.WriteString(strings.Join(ui.Columns(usage), "\n") + "\n")
	var rows [][]string
	for _, sub := range h.of.Commands {
		rows = append(rows, []string{sub.Name, sub.Does})
	}
	more := "larder help flags lists the flags of every command."
	switch {
	case len(rows) > 0:
		fmt.Fprintf(&b, "\n%s", ui.Indented(rows))
		more = "larder help " + h.Command + " COMMAND describes a command, with an example."
	case len(h.Flags) > 0:
		fmt.Fprintf(&b, "\n%s", FlagTable(h.Flags))
	}
	fmt.Fprintf(&b, "\n%s\nManual page: man larder-%s\n", more, strings.ReplaceAll(h.Command, " ", "-"))
	return b.String()
}

// FlagTable describes flags, one on each line, under their headings.
func FlagTable(flags []Flag) string {
	var rows [][]string
	var groups []string
	for _, f := range flags {
		rows, groups = append(rows, []string{f.Written(), f.Does}), append(groups, f.Group)
	}
	return ui.Indented(rows, groups...)
}

// GlobalFlags are the flags of every command.
type GlobalFlags struct {
	report.Typed `type:"flags"`
	Flags        []Flag `json:"flags"`
}

// HelpCommand returns the command that describes commands and topics.
func HelpCommand(job string, topics ...*Command) *Command {
	return &Command{
		Name: "help", Job: job, Does: "describe a command or a topic", Arguments: "[COMMAND | TOPIC]",
		Example: "larder help mirror sync", Topics: topics, Run: help,
		About: "Topics: " + strings.Join(namesOf(topics), ", ") + ".\n" +
			"With --json, the help without a topic describes all commands.",
	}
}

// topicNames returns the topics of the program.
func topicNames(root *Command) []string { return namesOf(root.Find("help").Topics) }

func namesOf(all []*Command) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// help shows the help of the command or the topic that the words name.
func help(ctx context.Context, l *Line, out *report.Output) error {
	words := l.Words
	if t := (&Command{Commands: l.Command.Topics}).Find(words...); t != nil && len(words) == 1 {
		return t.Run(ctx, l, out)
	}
	c := l.root.Find(words...)
	if c == nil {
		topic := strings.Join(words, " ")
		if near := sources.Nearest(topic, topicNames(l.root)); near != "" {
			return report.Usage(sources.WithHint(fmt.Errorf("unknown topic %q", topic), "did you mean %q?", near))
		}
		return report.Usage(unknownCommand(l.root, words))
	}
	l.ShowHelp(out, c)
	return nil
}
