package line

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// CompleteWord is the hidden command that completion scripts run.
const CompleteWord = "__complete"

// A Machine is what completion knows about this machine: provider addresses, the versions of a
// provider, and programs. It queries no source.
type Machine interface {
	Addresses(typed string) []string
	Versions(address string) []string
	Programs(typed string) []string
}

// A completer lists completions of the last word of a command line. It uses no network,
// writes nothing, and reports no errors.
type completer struct {
	to   io.Writer
	line *Line  // without the last word
	word string // the last word
	here func(*Line) Machine

	offered bool // something was offered
}

// Complete prints the completions of the last word, one on each line, with their
// descriptions after a tab. The line [File] or [Dir] requests completion of file or
// directory names. Here returns what is known for the line so far, or nil.
func Complete(root *Command, words []string, to io.Writer, here func(*Line) Machine) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := len(words) - 1
	line, err := Read(root, slices.Concat([]string{root.Name}, words[:last]))
	c := &completer{to: to, line: line, word: words[last], here: here}
	if c.word == `""` { // from PowerShell, which omits empty arguments
		c.word = ""
	}
	var pending *Flag // whose value is the last word
	if last > 0 && isFlag(words[last-1]) {
		pending = line.Command.flag(strings.TrimLeft(words[last-1], "-"))
	}
	name, value, assigned := strings.Cut(c.word, "=")
	switch {
	case line.runs():
		fmt.Fprintln(c.to, File)
	case pending != nil && pending.Value != "":
		c.values(*pending, "", c.word)
	case strings.HasPrefix(c.word, "-") && assigned:
		if f := c.line.Command.flag(strings.TrimLeft(name, "-")); f != nil {
			c.values(*f, name+"=", value)
		}
	case strings.HasPrefix(c.word, "-"):
		c.flags()
	case !errors.Is(err, errUnknownCommand):
		c.arguments()
	}
}

// runs reports whether the line has the name of another program, whose arguments follow.
func (l *Line) runs() bool { return l.Command.Passes && len(l.Words) > 0 }

// offer prints a word if it is a completion of the last word.
func (c *completer) offer(word, about string) {
	if !strings.HasPrefix(word, c.word) || ui.Visible(word) != word {
		return
	}
	if about != "" {
		word += "\t" + about
	}
	fmt.Fprintln(c.to, word)
	c.offered = true
}

// flags offers the long names of flags: first those of the command, then the global ones.
func (c *completer) flags() {
	for _, f := range slices.Concat(c.line.Command.Own(), c.line.Command.Global()) {
		c.offer(Dashed(f.Name), f.Does)
	}
	c.offer("--help", "describe the command")
}

// values offers values for a flag, each after a prefix. Typed is the beginning of the value.
func (c *completer) values(f Flag, prefix, typed string) {
	before := "" // earlier items of a list
	if f.Repeatable {
		before = typed[:strings.LastIndex(typed, ",")+1]
	}
	earlier := strings.Split(before, ",")
	if f.IsPath() {
		fmt.Fprintln(c.to, f.Kind)
	}
	for _, value := range f.Offers {
		if !slices.Contains(earlier, value) {
			c.offer(prefix+before+value, "")
		}
	}
}

// arguments offers commands, or the arguments of a command.
func (c *completer) arguments() {
	cmd := c.line.Command
	switch {
	case len(cmd.Commands) > 0:
		c.commands(cmd)
		return
	case cmd.Topics != nil:
		c.helpTopics()
		return
	case cmd.Passes:
		c.programs()
		return
	case !strings.Contains(cmd.Arguments, "["): // a choice of words
		for word := range strings.SplitSeq(cmd.Arguments, " | ") {
			c.offer(word, "")
		}
		return
	}
	usage := strings.ReplaceAll(cmd.Arguments, onlyFlags, "")
	if first, rest, _ := strings.Cut(usage, " "); first == "DIR" || first == "FILE" {
		switch {
		case len(c.line.Words) > 0:
			usage = rest
		case c.word == "" || !strings.Contains(usage, "ADDRESS"): // with these, the order is free
			usage = first
		}
	}
	if strings.Contains(usage, "ADDRESS") || strings.Contains(usage, "PATTERN") {
		c.addresses(strings.Contains(usage, "VERSION"))
	}
	switch _, _, versioned := sources.CutVersion(c.word); {
	case versioned && c.offered: // a shell would quote the @ before a version like that in the name of a file
	case strings.Contains(usage, "FILE"), strings.Contains(usage, "A B"), strings.Contains(usage, "PATH") && !cmd.OnlyDirs:
		fmt.Fprintln(c.to, File)
	case strings.Contains(usage, "PATH"), strings.Contains(usage, "DIR"):
		fmt.Fprintln(c.to, Dir)
	}
}

// programs offers programs for a command that runs another one.
func (c *completer) programs() {
	if here := c.here(c.line); here != nil {
		for _, name := range here.Programs(c.word) {
			c.offer(name, "")
		}
	}
	if strings.Contains(c.word, "/") {
		fmt.Fprintln(c.to, File)
	}
}

// commands offers the commands of a group.
func (c *completer) commands(group *Command) {
	for _, cmd := range group.Commands {
		c.offer(cmd.Name, cmd.Does)
	}
}

// helpTopics offers commands and topics for larder help.
func (c *completer) helpTopics() {
	group := c.line.root.Find(c.line.Words...)
	if group == nil {
		return
	}
	if group == c.line.root {
		for _, topic := range topicNames(group) {
			c.offer(topic, "topic")
		}
	}
	c.commands(group)
}

// addresses offers provider addresses known on this machine, and after an @ the known
// versions of a provider.
func (c *completer) addresses(versions bool) {
	here := c.here(c.line)
	if here == nil {
		return
	}
	if address, _, ok := sources.CutVersion(c.word); ok {
		if versions {
			for _, v := range here.Versions(address) {
				c.offer(address+"@"+v, "")
				c.offer(address+"=="+v, "")
			}
		}
		return
	}
	for _, address := range here.Addresses(c.word) {
		c.offer(address, "")
	}
}

// Shells are the shells that have completion scripts.
var Shells = []string{"bash", "zsh", "fish", "powershell"}

//go:embed completion
var scripts embed.FS

// Script returns the completion script of a shell. It runs larder __complete to list completions, one on each line with
// a description after a tab. A last line of :files or :dirs adds names of files or directories.
func Script(shell string) string {
	text, _ := scripts.ReadFile("completion/larder." + shell) // each of Shells has one
	return string(text)
}
