package cliconfig

import (
	"cmp"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/syntax"
)

// A Setting is what a file or a variable sets, and where. Settings exist to explain a configuration:
// other fields of the [Config] contain what is in force.
type Setting struct {
	Name      string  // as in a file, also if a variable sets it; installation methods have their own places
	Of        string  // host, provider or pattern that it applies to; empty if it applies to everything
	Value     string  // for people; empty for a block, and for a secret
	Secret    bool    // the value is a secret
	From      Place   // where it is set
	Overrides []Place // where it is set too, without effect; those that lost last are first
}

// A Place is where a setting is.
type Place = syntax.Place

// Setting returns the setting of a name, and whether it is set. If of is empty, it applies to everything.
func (c *Config) Setting(name, of string) (s Setting, ok bool) {
	i := c.index(name, of)
	if i >= 0 {
		s = c.Settings[i]
	}
	return s, i >= 0
}

// index returns the index of a setting, or -1.
func (c *Config) index(name, of string) int {
	return slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Name == name && s.Of == of })
}

// Override notes a setting of a flag, which overrides files and variables. It only changes the Settings of this Config.
func (c *Config) Override(s Setting) {
	c.Settings = slices.Clone(c.Settings)
	c.note(s)
}

// note notes a setting, which overrides the one that was noted before.
func (c *Config) note(s Setting) {
	i := c.index(s.Name, s.Of)
	if i < 0 {
		c.Settings = append(c.Settings, s)
		return
	}
	s.Overrides = append([]Place{c.Settings[i].From}, c.Settings[i].Overrides...)
	c.Settings[i] = s
}

// noteFirst notes a setting, which has no effect if one was noted before.
func (c *Config) noteFirst(s Setting) {
	if i := c.index(s.Name, s.Of); i >= 0 {
		c.Settings[i].Overrides = append(c.Settings[i].Overrides, s.From)
		return
	}
	c.note(s)
}

// noteVariable notes what a variable sets, if it is set.
func (l *loader) noteVariable(variable, name string, secret bool) {
	value := l.Getenv(variable)
	if value == "" {
		return
	}
	if secret {
		value = ""
	}
	l.config.note(Setting{Name: name, Value: value, Secret: secret, From: Place{By: variable}})
}

// yielding is a field that yields what each entry that it reads without an error sets.
func (l *loader) yielding(of string, read field, yield func(s Setting)) field {
	return func(e syntax.Entry) {
		before := len(l.diags)
		if read(e); len(l.diags) > before {
			return
		}
		s := Setting{Name: e.Key, Of: of, Value: e.Value.Text, From: e.Place}
		if e.Value.Kind == syntax.List {
			var items []string
			for _, n := range e.Value.Items {
				items = append(items, n.Text)
			}
			s.Value = cmp.Or(strings.Join(items, ", "), "none")
		}
		yield(s)
	}
}

// noting is a field that notes each entry that it reads without an error.
func (l *loader) noting(read field) field { return l.yielding("", read, l.config.note) }
