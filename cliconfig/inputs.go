package cliconfig

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// An Input is a file or a variable that Load reads.
type Input struct {
	Name  string // path of the file, or name of the variable
	What  string // what it is for
	State string // of a file one of the states; a variable's value, "set" if it may be secret, empty if it isn't set
	By    string // flag or variable that names the file
	Fault string // why it has no effect; empty if it has one, or isn't set
	Usual bool   // most machines set the variable, and it says little about providers
}

// The states of files.
const (
	FileRead     = "read"
	FileMissing  = "not found"
	FileUnread   = "not read"         // exists, but another file is read instead
	FileFaulty   = "has errors"       // some of its settings may have no effect
	FileUnparsed = "cannot be parsed" // none of its settings are known
	FileLocked   = "cannot be read"   // likewise
)

// Incomplete reports whether a file that may have installation methods has settings that are not known, because of an
// error.
func (c *Config) Incomplete() bool {
	return slices.ContainsFunc(c.files, func(f Input) bool {
		return (f.What == mainFile || f.What == moreFile || f.What == ownFile) &&
			(f.State == FileUnparsed || f.State == FileLocked)
	})
}

// InputFiles are the files that Load looks for, in order, each with those that are not read because a flag or a
// variable names it.
func (c *Config) InputFiles() []Input { return slices.Clone(c.files) }

// InputVariables are the variables that Load reads, in groups. Tokens are listed if they
// are set.
func (c *Config) InputVariables() (all []Input) {
	for _, v := range c.variables() {
		if v.form&tofuOnly != 0 && c.Engine != sources.OpenTofu {
			continue
		}
		in := Input{Name: v.name, What: v.what, State: c.machine.Getenv(v.name), Usual: v.form&usual != 0}
		if small := strings.ToLower(v.name); in.State == "" && v.form&lower != 0 && c.machine.Getenv(small) != "" {
			in.Name, in.State = small, c.machine.Getenv(small)
		}
		if in.State != "" {
			in.Fault = c.fault(in)
			switch {
			case v.form&proxy != 0:
				in.State = cmp.Or(proxyHost(in.State), "set")
			case v.form&(hidden|secret|link) != 0:
				in.State = "set"
			}
		}
		all = append(all, in)
	}
	all = append(all, Input{Name: TokenPrefix + "HOST", What: "token for a host, . written as _"})
	for _, assignment := range c.machine.Environ {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, TokenPrefix) {
			all = append(all, Input{Name: name, What: "token", State: "set"})
		}
	}
	return all
}

// fault returns why a variable that is set has no effect, or "".
func (c *Config) fault(v Input) string {
	if v.Name == "SSL_CERT_FILE" && c.CertificateFault != "" {
		return "ignored: " + c.CertificateFault
	}
	if v.Name == "SSL_CERT_DIR" && !slices.ContainsFunc(strings.Split(v.State, ":"), c.machine.isDir) {
		return "ignored: there is no such directory"
	}
	for _, s := range c.Settings {
		if slices.Contains(s.Overrides, Place{By: v.Name}) {
			return "overridden by " + s.From.String()
		}
	}
	return ""
}

// proxyHost returns the host and port of a proxy, or "" if they can't be told from a password.
func proxyHost(text string) string {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.User == nil && strings.Contains(text, "@") {
		return ""
	}
	return u.Host
}
