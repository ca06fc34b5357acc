package line

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// flagsElsewhere maps flags of other programs to those of larder.
var flagsElsewhere = map[string]string{"C": "chdir"}

// elsewhere maps commands of other programs, and words for jobs, to commands of larder.
var elsewhere = map[string]string{
	"mirror create": "mirror sync", "mirror add": "mirror sync", "cache add": "prefetch", "cache clean": "cache prune",
	"cache clear": "cache prune", "cache gc": "cache prune", "cache ls": "cache list", "cache rm": "cache prune",
	"cache remove": "cache prune", "bundle list": "bundle show", "bundle ls": "bundle show", "mirror ls": "mirror list",
	"init": "install", "i": "install", "sync": "mirror sync", "add": "prefetch", "get": "prefetch", "fetch": "prefetch",
	"download": "prefetch", "pull": "prefetch", "warm": "prefetch", "update": "install --upgrade",
	"upgrade": "install --upgrade", "ls": "list, cache list", "clean": "cache prune",
	"gc": "cache prune", "du": "cache stats",
	"providers": "list, explain", "providers lock": "lock", "providers mirror": "mirror sync", "man": "help",
	"sbom": "list --format cyclonedx", "inventory": "list",
	"show": "explain, bundle show", "status": "outdated, verify", "lint": "check", "policy": "check",
}

var errUnknownCommand = errors.New("unknown command")

// unknownCommand returns the error for words whose last one names no command. Its hint suggests
// similar commands.
func unknownCommand(root *Command, words []string) error {
	err := fmt.Errorf("%w %q", errUnknownCommand, strings.Join(words, " "))
	if meant := meantCommands(root, words); len(meant) > 0 {
		return sources.WithHint(err, "did you mean %s?", ui.List("or", meant))
	}
	before := words[:len(words)-1]
	if group := root.Find(before...); len(before) > 0 && group != nil && len(group.Commands) > 0 {
		return sources.WithHint(err, "larder help %s lists its commands", strings.Join(before, " "))
	}
	return sources.WithHint(err, "larder help lists the commands")
}

// meantCommands returns the quoted commands that words may stand for: one with another name, those of the
// same name in other groups, or one with a similar name.
func meantCommands(root *Command, words []string) (quoted []string) {
	before, last := words[:len(words)-1], words[len(words)-1]
	group := root.Find(before...)
	if group == nil {
		group = root
	}
	var names, meant []string
	for _, c := range group.Commands {
		names = append(append(names, c.Name), c.Aliases...)
	}
	for _, c := range root.All() {
		if strings.HasSuffix(" "+c.Path, " "+last) && len(before) < 2 {
			meant = append(meant, c.Path)
		}
	}
	other, near := elsewhere[strings.Join(words, " ")], sources.Nearest(last, names)
	switch {
	case last == "help" && len(before) > 0:
		meant = []string{"help " + strings.Join(before, " ")}
	case other != "":
		meant = strings.Split(other, ", ")
	case meant == nil && near != "":
		meant = []string{strings.Join(append(slices.Clone(before), near), " ")}
	}
	for _, command := range meant {
		quoted = append(quoted, fmt.Sprintf("%q", command))
	}
	return quoted
}

// unknownFlag returns the error for a flag that a command does not have, as typed.
func unknownFlag(root, cmd *Command, typed string) error {
	name := strings.TrimLeft(typed, "-")
	err := fmt.Errorf("unknown flag %q", typed)
	if cmd.Path != "" {
		err = fmt.Errorf("unknown flag %q for larder %s", typed, cmd.Path)
	}
	var known, owners []string
	for _, f := range cmd.AllFlags() {
		known = append(known, f.Name)
	}
	for _, c := range root.All() {
		if flagNamed(c.Own(), name) != nil {
			owners = append(owners, "larder "+c.Path)
		}
	}
	switch near := cmp.Or(flagsElsewhere[name], sources.Nearest(name, known)); {
	case near != "":
		return sources.WithHint(err, "did you mean %q?", Dashed(near))
	case len(owners) > 0 && cmd.Path == "":
		err = fmt.Errorf("%s must follow the command", typed)
		return sources.WithHint(err, "write it after the command, as in %s %s", owners[0], Dashed(name))
	case len(owners) > 0:
		return sources.WithHint(err, "it is a flag of %s", ui.Some(owners, 3))
	case cmd.Path == "":
		return sources.WithHint(err, "larder help flags lists the flags of every command")
	}
	return sources.WithHint(err, "larder help %s lists its flags", cmd.Path)
}
