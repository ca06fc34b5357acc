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
	r := &netrcReader{src: src}
	current := new(login) // values before the first machine belong to no entry
	counted, line := 0, 1 // line is that of byte counted
	begin := func(start int, entry login) {
		line += strings.Count(src[counted:start], "\n")
		counted = start
		l.config.noteFirst(Setting{Name: "password", Of: strings.ToLower(entry.machine), Secret: true, From: Place{File: path, Line: line}})
		l.config.logins = append(l.config.logins, entry)
		current = &l.config.logins[len(l.config.logins)-1]
	}
	warned := false
	for {
		start, word, ok := r.next()
		switch {
		case !ok:
			return
		case src[start] == '#': // only here, because a password may begin with #
			r.skipTo(lineEnd)
		case word == "machine":
			begin(start, login{machine: r.value()})
		case word == "default":
			begin(start, login{fallback: true})
		case word == "login":
			current.user = r.value()
		case word == "password":
			current.password = r.value()
			l.secrets.Add(current.password)
		case word == "account":
			r.value()
		case word == "macdef":
			r.skipTo(macroEnd)
		case !warned: // one warning suffices if the file is not a netrc file at all
			l.warnf(r.where(path, start), "", "unknown word in a netrc file, ignored")
			warned = true
		}
	}
}

// A netrcReader splits a netrc file into words.
type netrcReader struct {
	src string
	at  int // how much of src has been read, in bytes
}

var (
	// netrcWord is a word, or a text in double quotes as curl allows it. A quote that is not
	// closed on its line is an ordinary character.
	netrcWord    = regexp.MustCompile(`"((?:\\.|[^"\\\n])*)"|[^ \t\r\n]+`)
	netrcEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`, `\`, "")

	lineEnd  = regexp.MustCompile(`\n|$`)
	macroEnd = regexp.MustCompile(`\n\r*(?:\n|$)|$`) // an empty line
)

// next returns the next word and where it begins.
func (r *netrcReader) next() (start int, word string, ok bool) {
	rest := r.src[r.at:]
	found := netrcWord.FindStringSubmatchIndex(rest)
	if found == nil {
		return 0, "", false
	}
	start = r.at + found[0]
	r.at += found[1]
	if found[2] >= 0 {
		return start, netrcEscapes.Replace(rest[found[2]:found[3]]), true
	}
	return start, rest[found[0]:found[1]], true
}

// value returns the next word, or "" at the end of the file.
func (r *netrcReader) value() string {
	_, word, _ := r.next()
	return word
}

// skipTo skips what precedes an end, which matches the end of the file too.
func (r *netrcReader) skipTo(end *regexp.Regexp) { r.at += end.FindStringIndex(r.src[r.at:])[0] }

// place returns the line and column of an index.
func (r *netrcReader) where(file string, index int) Place {
	before := r.src[:index]
	line := before[strings.LastIndexByte(before, '\n')+1:]
	return Place{File: file, Line: 1 + strings.Count(before, "\n"), column: 1 + utf8.RuneCountInString(line)}
}
