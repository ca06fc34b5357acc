package line

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// elsewhere maps commands of other programs, and words for jobs, to commands of larder.
var elsewhere = map[string]string{
	"mirror create": "mirror sync", "mirror add": "mirror sync", "cache add": "prefetch", "cache clean": "cache prune",
	"init": "install", "i": "install", "sync": "mirror sync", "update": "install --upgrade", "upgrade": "install --upgrade",
	"add": "prefetch", "get": "prefetch", "download": "prefetch", "fetch": "prefetch", "pull": "prefetch", "warm": "prefetch",
	"ls": "cache list", "list": "cache list, versions", "clean": "cache prune", "gc": "cache prune", "du": "cache stats",
	"providers": "outdated, explain", "providers lock": "lock", "providers mirror": "mirror sync", "man": "help",
	"show": "explain, bundle show", "status": "outdated, verify", "lint": "check", "policy": "check",
}

// formerly maps former names of flags to those they have now, for commands that have the new one.
var formerly = map[string]string{"strict": "require-platforms"}

// An unknownCommandError is the error for words that name no command.
type unknownCommandError struct{ words []string }

// Error names the command as typed.
func (e *unknownCommandError) Error() string {
	return fmt.Sprintf("unknown command %q", strings.Join(e.words, " "))
}

func isUnknownCommand(err error) bool {
	_, unknown := errors.AsType[*unknownCommandError](err)
	return unknown
}

// unknownCommand returns the error for words whose last one names no command. Its hint suggests
// similar commands.
func unknownCommand(root *Command, words []string) error {
	err := &unknownCommandError{words}
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
func meantCommands(root *Command, words []string) []string {
	before, last := words[:len(words)-1], words[len(words)-1]
	group := root.Find(before...)
	if group == nil {
		group = root
	}
	var names, same []string
	for _, c := range group.Visible() {
		names = append(append(names, c.Name), c.Aliases...)
	}
	for _, c := range root.All() {
		if strings.HasSuffix(" "+c.Path, " "+last) && len(before) < 2 {
			same = append(same, fmt.Sprintf("%q", c.Path))
		}
	}
	other, near := elsewhere[strings.Join(words, " ")], sources.Nearest(last, names)
	switch {
	case last == "help" && len(before) > 0:
		return []string{fmt.Sprintf("%q", "help "+strings.Join(before, " "))}
	case other != "":
		var quoted []string
		for command := range strings.SplitSeq(other, ", ") {
			quoted = append(quoted, fmt.Sprintf("%q", command))
		}
		return quoted
	case len(same) == 0 && near != "":
		return []string{fmt.Sprintf("%q", strings.Join(append(slices.Clone(before), near), " "))}
	}
	return same
}

// unknownFlag returns the error for a flag that a command does not have, as typed. Of combined switches, it is the
// only unknown one.
func unknownFlag(root, cmd *Command, typed string) error {
	name := strings.TrimLeft(typed, "-")
	unknown := strings.Map(func(letter rune) rune {
		if f := cmd.flag(string(letter)); f != nil && f.Value == "" {
			return -1
		}
		return letter
	}, name)
	if !strings.HasPrefix(typed, "--") && utf8.RuneCountInString(unknown) == 1 && nearestFlag(cmd, name) == "" {
		name, typed = unknown, "-"+unknown
	}
	err := fmt.Errorf("unknown flag %q", typed)
	if cmd.Path != "" {
		err = fmt.Errorf("unknown flag %q for larder %s", typed, cmd.Path)
	}
	var owners []string
	for _, c := range root.All() {
		if flagNamed(c.Own(), name) != nil {
			owners = append(owners, "larder "+c.Path)
		}
	}
	switch near := nearestFlag(cmd, name); {
	case flagNamed(cmd.Flags, formerly[name]) != nil:
		return sources.WithHint(err, "it is %s now", Dashed(formerly[name]))
	case near != "":
		return sources.WithHint(err, "did you mean %q?", Dashed(near))
	case len(owners) > 0 && cmd.Path == "":
		return sources.WithHint(err, "write it after the command, as in %s %s", owners[0], Dashed(name))
	case len(owners) == 1:
		return sources.WithHint(err, "only %s has this flag", owners[0])
	case len(owners) > 1:
		return sources.WithHint(err, "%s have this flag", ui.Some(owners, 3))
	case cmd.Path == "":
		return sources.WithHint(err, "larder help flags lists the flags of every command")
	}
	return sources.WithHint(err, "larder help %s lists its flags", cmd.Path)
}

// nearestFlag returns the flag of a command with a name similar to a mistyped one, or "".
func nearestFlag(cmd *Command, name string) string {
	var known []string
	for _, f := range cmd.Flags {
		known = append(known, f.Name)
	}
	return sources.Nearest(name, known)
}
