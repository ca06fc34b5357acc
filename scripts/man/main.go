// Command man makes the manual pages in docs/man from what larder help --json says of the
// commands. Run it in the repository's directory: go run ./scripts/man
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	if err != nil {
		return err
	}
	to := filepath.Join(dir, "docs", "man")
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return err
	}
	for name, page := range made {
		if err := os.WriteFile(filepath.Join(to, name), page, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A command is described by larder help --json.
type command struct {
	Command, Job, Does, Usage, Example, About string
	Flags                                     []flag
}

// A flag is one of a command's.
type flag struct {
	Name, Short, Value, Group, Does, Variable string
	Repeatable                                bool
}

// A status is an exit status.
type status struct {
	Status        int
	Meaning, When string
}

// pages are the contents of the manual pages, by file name.
func pages(dir string) (map[string][]byte, error) {
	bin, err := os.MkdirTemp("", "man")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bin)
	larder := filepath.Join(bin, "larder")
	build := exec.Command("go", "build", "-o", larder, "./cmd/larder")
	build.Dir, build.Stderr = dir, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building larder: %w", err)
	}
	commands, err := help[command](larder)
	if err != nil {
		return nil, err
	}
	global, err := help[command](larder, "flags")
	if err != nil {
		return nil, err
	}
	statuses, err := help[status](larder, "exit-status")
	if err != nil {
		return nil, err
	}
	made := map[string][]byte{"larder.1": overview(commands, global[0].Flags, statuses)}
	for _, c := range commands {
		made[pageName(c)+".1"] = page(c, commands)
	}
	return made, nil
}

// help is what larder says of a topic, or of all commands without one.
func help[T any](larder string, topic ...string) ([]T, error) {
	cmd := exec.Command(larder, append([]string{"help", "--json"}, topic...)...)
	text, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []T
	for in := json.NewDecoder(bytes.NewReader(text)); in.More(); {
		var one T
		if err := in.Decode(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("larder help %s: empty", strings.Join(topic, " "))
	}
	return all, nil
}

// pageName is the name of a command's page.
func pageName(c command) string { return "larder-" + strings.ReplaceAll(c.Command, " ", "-") }

// overview is the page of larder itself.
func overview(commands []command, flags []flag, statuses []status) []byte {
	var p roff
	p.head("larder", "keep Terraform and OpenTofu providers at hand")
	p.synopsis("larder COMMAND [ARGUMENT...] [FLAG...]")
	p.section("COMMANDS")
	job := ""
	for _, c := range commands {
		if strings.Contains(c.Command, " ") {
			continue
		}
		if c.Job != job {
			job = c.Job
			p.line(".SS", quoted(job))
		}
		p.item(bold("larder "+c.Command), c.Does)
	}
	p.section("FLAGS")
	p.text("Every command has these flags. They can stand before the command or after it.")
	p.flags(flags)
	p.section("EXIT STATUS")
	for _, s := range statuses {
		p.item(bold(fmt.Sprint(s.Status)), s.Meaning+": "+s.When)
	}
	var pages []string
	for _, c := range commands {
		pages = append(pages, pageName(c))
	}
	p.seeAlso(pages)
	return p.Bytes()
}

// page is the page of a command.
func page(c command, commands []command) []byte {
	var p roff
	p.head(pageName(c), c.Does)
	p.synopsis(c.Usage)
	if c.About != "" {
		p.section("DESCRIPTION")
		p.text(c.About)
	}
	pages := []string{"larder"}
	var below []command
	for _, other := range commands {
		if strings.HasPrefix(other.Command, c.Command+" ") {
			below = append(below, other)
			pages = append(pages, pageName(other))
		}
	}
	if len(below) > 0 {
		p.section("COMMANDS")
		for _, other := range below {
			p.item(bold("larder "+other.Command), other.Does)
		}
	}
	if len(c.Flags) > 0 {
		p.section("FLAGS")
		p.flags(c.Flags)
	}
	if c.Example != "" {
		p.section("EXAMPLE")
		p.line(".EX")
		p.text(c.Example)
		p.line(".EE")
	}
	if parent, _, ok := strings.Cut(c.Command, " "); ok {
		pages = append(pages, "larder-"+parent)
	}
	p.seeAlso(pages)
	return p.Bytes()
}

// A roff is a manual page that is being written.
type roff struct{ bytes.Buffer }

// line writes a request with its arguments.
func (p *roff) line(words ...string) { p.WriteString(strings.Join(words, " ") + "\n") }

func (p *roff) head(name, does string) {
	p.line(`.\" Made by go run ./scripts/man; do not edit.`)
	p.line(".TH", strings.ToUpper(escaped(name)), `1 "" larder`)
	p.section("NAME")
	p.line(escaped(name), `\-`, escaped(does))
}

func (p *roff) section(title string) { p.line(".SH", title) }

func (p *roff) synopsis(usage string) {
	p.section("SYNOPSIS")
	p.text(usage)
}

// text writes a paragraph.
func (p *roff) text(text string) {
	text = escaped(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	p.line(text)
}

// item writes a paragraph with a term in front.
func (p *roff) item(term, text string) {
	p.line(".TP")
	p.line(term)
	p.text(text)
}

func (p *roff) flags(flags []flag) {
	group := ""
	several := len(flags) > 0 && flags[0].Group != flags[len(flags)-1].Group
	for _, f := range flags {
		if several && f.Group != group {
			group = f.Group
			p.line(".SS", quoted(group))
		}
		name := bold("--" + f.Name)
		if f.Short != "" {
			name = bold("-"+f.Short) + ", " + name
		}
		if f.Value != "" {
			name += ` \fI` + escaped(f.Value) + `\fR`
		}
		if f.Repeatable && !strings.HasSuffix(f.Value, "...") {
			name += "..."
		}
		if f.Variable != "" {
			f.Does += "; variable " + f.Variable
		}
		p.item(name, f.Does)
	}
}

func (p *roff) seeAlso(pages []string) {
	p.section("SEE ALSO")
	slices.Sort(pages)
	for i, name := range pages {
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		p.line(".BR", escaped(name), "(1)"+end)
	}
}

func bold(text string) string { return `\fB` + escaped(text) + `\fR` }

func quoted(text string) string { return `"` + escaped(text) + `"` }

// escaped is text that roff shows as it is.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(text)
}

// names are the names of pages, sorted.
func names(pages map[string][]byte) []string { return slices.Sorted(maps.Keys(pages)) }
