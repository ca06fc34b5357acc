// Command man makes the manual pages in docs/man from what larder help --json says of the
// commands. Run it in the repository's directory: go run ./scripts/man
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/larder-cli/larder/cmd/larder/line"
)

func main() {
	if err := write("."); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// write replaces the pages of the repository in dir. Pages of commands that no longer exist
// are removed.
func write(dir string) error {
	made, err := pages(dir)
	to := filepath.Join(dir, "docs", "man")
	if err == nil {
		err = errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755))
	}
	for name, page := range made {
		err = errors.Join(err, os.WriteFile(filepath.Join(to, name), page, 0o644))
	}
	return err
}

// A described is a line of larder help --json: a command, the global flags or an exit status.
type described struct {
	Type                                      string
	Command, Job, Does, Usage, Example, About string
	Aliases                                   []string
	Flags                                     []flag
	Status                                    int
	Meaning, When                             string
}

// A flag is one of a command's.
type flag struct {
	Name, Short, Alias, Value, Group, Does, Variable string
	Repeatable                                       bool
}

// A page is the contents of the template.
type page struct {
	described
	Statuses []described
	Commands []described // that the page lists
	See      []string
}

// pages returns the contents of the manual pages, by file name.
func pages(dir string) (map[string][]byte, error) {
	build := exec.Command("go", "tool", "-n", "larder") // in the build cache
	build.Dir, build.Stderr = dir, os.Stderr
	built, err := build.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool: %w", err)
	}
	larder := strings.TrimSpace(string(built))
	commands, err := help(larder, "help")
	global, err2 := help(larder, "flags", "flags")
	statuses, err3 := help(larder, "exit_status", "exit-status")
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	all := []page{{described: described{
		Does:  "download, verify and share Terraform and OpenTofu providers",
		Usage: "larder COMMAND [ARGUMENT...] [FLAG...]", Flags: global[0].Flags,
	}, Statuses: statuses}}
	for _, c := range commands {
		all = append(all, page{described: c})
	}
	made := map[string][]byte{}
	for _, p := range all {
		for _, other := range commands {
			parent, _, isBelow := strings.Cut(other.Command, " ")
			if isBelow && p.Command == parent || !isBelow && p.Command == "" {
				p.Commands = append(p.Commands, other)
			}
			sameJob := !isBelow && p.Job == other.Job && p.Command != ""
			if p.Command == "" || sameJob || isBelow && (p.Command == parent || p.Command == other.Command) {
				p.See = append(p.See, other.PageName(), "larder-"+parent)
			}
		}
		p.See = slices.DeleteFunc(append(p.See, "larder"), func(name string) bool { return name == p.PageName() })
		slices.Sort(p.See)
		p.See = slices.Compact(p.See)
		var b bytes.Buffer
		if err := layout.Execute(&b, p); err != nil {
			return nil, err
		}
		made[p.PageName()+".1"] = b.Bytes()
	}
	return made, nil
}

// help returns what larder says of a topic, or of all commands without one: the lines of this type.
func help(larder, kind string, topic ...string) (found []described, err error) {
	cmd := exec.Command(larder, append([]string{"help", "--json"}, topic...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	for in := json.NewDecoder(bytes.NewReader(text)); err == nil && in.More(); {
		var one described
		if err = in.Decode(&one); one.Type == kind {
			found = append(found, one)
		}
	}
	if err == nil && len(found) == 0 {
		err = errors.New("nothing")
	}
	if err != nil {
		return nil, fmt.Errorf("larder help %s: %w", strings.Join(topic, " "), err)
	}
	return found, nil
}

// PageName returns the name of a command's page, or larder's without a command.
func (d described) PageName() string {
	return strings.TrimSuffix("larder-"+strings.ReplaceAll(d.Command, " ", "-"), "-")
}

// Term returns how a page shows a flag.
func (f flag) Term() string {
	name := `\fB` + escaped("--"+f.Name) + `\fR`
	for _, short := range []string{f.Short, f.Alias} {
		if short != "" {
			name = `\fB` + escaped("-"+short) + `\fR, ` + name
		}
	}
	if f.Value != "" {
		name += ` \fI` + escaped(f.Value) + `\fR`
	}
	if f.Repeatable && !strings.HasSuffix(f.Value, "...") {
		name += "..."
	}
	return name
}

// A group is what stands below one heading. If there is only one, it has none.
type group[T any] struct {
	Name string
	All  []T
}

// grouped sorts what a page lists by heading. Headings, and what is below each, keep their order.
func grouped[T any](all []T, heading func(T) string) (groups []group[T]) {
	for _, one := range all {
		i := slices.IndexFunc(groups, func(g group[T]) bool { return g.Name == heading(one) })
		if i < 0 {
			i, groups = len(groups), append(groups, group[T]{Name: heading(one)})
		}
		groups[i].All = append(groups[i].All, one)
	}
	if len(groups) == 1 {
		groups[0].Name = ""
	}
	return groups
}

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"upper":    strings.ToUpper,
	"text":     escaped,
	"guides":   func() string { return escaped(line.Guides) },
	"commands": func(all []described) any { return grouped(all, func(c described) string { return c.Job }) },
	"flags":    func(all []flag) any { return grouped(all, func(f flag) string { return f.Group }) },
}).Parse(`.\" Made by go run ./scripts/man; do not edit.
.TH {{.PageName | text | upper}} 1 "" larder
.SH NAME
{{text .PageName}} \- {{text .Does}}
.SH SYNOPSIS
{{text .Usage}}
{{range .Aliases}}.br
larder {{text .}}
{{end}}{{with .About}}.SH DESCRIPTION
{{text .}}
{{end}}{{with .Commands}}.SH COMMANDS
{{range commands .}}{{with .Name}}.SS "{{text .}}"
{{end}}{{range .All}}.TP
\fBlarder {{text .Command}}\fR
{{text .Does}}
{{end}}{{end}}{{end}}{{with .Flags}}.SH FLAGS
{{if not $.Command}}Every command has these flags. They can stand before the command or after it.
{{end}}{{range flags .}}{{with .Name}}.SS "{{text .}}"
{{end}}{{range .All}}.TP
{{.Term}}
{{text .Does}}{{with .Variable}}; variable {{text .}}{{end}}
{{end}}{{end}}{{end}}{{with .Example}}.SH EXAMPLE
.EX
{{text .}}
.EE
{{end}}{{with .Statuses}}.SH EXIT STATUS
{{range .}}.TP
\fB{{.Status}}\fR
{{text .Meaning}}: {{text .When}}
{{end}}{{end}}.SH SEE ALSO
{{range $i, $name := .See}}{{if $i}},
{{end}}.BR {{text $name}} (1){{end}}
.PP
Guides: {{guides}}
`))

// escaped returns text that roff shows unchanged, also where a line begins like a request.
func escaped(text string) string {
	roff := strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "\n.", "\n\\&.", "\n'", "\n\\&'")
	return strings.TrimPrefix(roff.Replace("\n"+text), "\n")
}
