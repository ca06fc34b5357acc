package cliconfig

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// A login is an entry of a netrc file.
type login struct {
	machine        string
	fallback       bool // the default entry, for all machines
	user, password string
}

// Netrc returns the user and password for a URL's host, and whether there are any.
// hostport includes the port if the URL has one.
func (c *Config) Netrc(hostport string) (user, password string, ok bool) {
	var chosen login
	for _, l := range c.logins {
		if l.fallback {
			chosen = l
		} else if strings.EqualFold(l.machine, hostport) {
			chosen = l
			break
		}
	}
	return chosen.user, chosen.password, chosen.user != "" || chosen.password != ""
}

// readNetrc reads the user's netrc file: words separated by white space, on any number of lines.
// Problems are only warnings, because the file belongs to other programs. Libraries for such files,
// like that of engines, refuse a file for one word that they don't know, and can't read the quotes of
// curl.
func (l *loader) readNetrc(path, src string) {
	start, end := 0, 0             // of the last word
	next := func() (word string) { // returns "" at the end of the file
		found := netrcWord.FindStringSubmatchIndex(src[end:])
		if found == nil {
			start = len(src)
			return ""
		}
		word = src[end+found[0] : end+found[1]]
		if found[2] >= 0 {
			word = netrcEscapes.Replace(src[end+found[2] : end+found[3]])
		}
		start, end = end+found[0], end+found[1]
		return word
	}
	skipTo := func(what *regexp.Regexp) { end += what.FindStringIndex(src[end:])[0] }
	at, counted := Place{File: path, Line: 1}, 0
	lineOf := func(start int) Place { // counts each line once, as there may be many entries
		at.Line += strings.Count(src[counted:start], "\n")
		counted = start
		return at
	}
	current := new(login) // values before the first machine belong to no entry
	begin := func(from Place, entry login) {
		l.config.noteFirst(Setting{Name: "password", Of: strings.ToLower(entry.machine), Secret: true, From: from})
		l.config.logins = append(l.config.logins, entry)
		current = &l.config.logins[len(l.config.logins)-1]
	}
	warned := false
	for word := next(); start < len(src); word = next() {
		switch {
		case src[start] == '#': // only here, because a password may begin with #
			skipTo(lineEnd)
		case word == "machine":
			begin(lineOf(start), login{machine: next()})
		case word == "default":
			begin(lineOf(start), login{fallback: true})
		case word == "login":
			current.user = next()
		case word == "password":
			current.password = next()
			l.secrets.Add(current.password)
		case word == "account":
			next()
		case word == "macdef":
			skipTo(macroEnd)
		case !warned: // one warning suffices if the file is not a netrc file at all
			from := lineOf(start)
			from.Column = 1 + utf8.RuneCountInString(src[strings.LastIndexByte(src[:start], '\n')+1:start])
			l.warnf(from, "", "unknown word in a netrc file, ignored")
			warned = true
		}
	}
}

var (
	// netrcWord is a word, or a text in double quotes as curl allows it. A quote that is not
	// closed on its line is an ordinary character.
	netrcWord    = regexp.MustCompile(`"((?:\\.|[^"\\\n])*)"|[^ \t\r\n]+`)
	netrcEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`, `\`, "")

	lineEnd  = regexp.MustCompile(`\n|$`)
	macroEnd = regexp.MustCompile(`\n\r*(?:\n|$)|$`) // an empty line
)
