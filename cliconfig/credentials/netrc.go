package credentials

import (
	"regexp"
	"strings"
)

// A Login is an entry of a netrc file.
type Login struct {
	Machine        string
	Default        bool // for all machines
	User, Password string
	Line           int
}

// A Netrc has the entries of a netrc file, in order.
type Netrc []Login

// For returns the user and password for a URL's host, and whether there are any.
// hostport includes the port if the URL has one.
func (n Netrc) For(hostport string) (user, password string, ok bool) {
	var chosen Login
	for _, l := range n {
		if l.Default {
			chosen = l
		} else if strings.EqualFold(l.Machine, hostport) {
			chosen = l
			break
		}
	}
	return chosen.User, chosen.Password, chosen.User != "" || chosen.Password != ""
}

// ParseNetrc parses a netrc file: words separated by white space, on any number of lines. It skips unknown words.
// Libraries for such files, like that of engines, refuse a file for
// one word that they don't know, and can't read the quotes of curl.
func ParseNetrc(src string) (all Netrc) {
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
	at, counted := 1, 0
	here := func() int { // counts each line once, as there may be many entries
		at += strings.Count(src[counted:start], "\n")
		counted = start
		return at
	}
	current := new(Login) // values before the first machine belong to no entry
	begin := func(l Login) {
		all = append(all, l)
		current = &all[len(all)-1]
	}
	for word := next(); start < len(src); word = next() {
		switch {
		case src[start] == '#': // only here, because a password may begin with #
			skipTo(lineEnd)
		case word == "machine":
			begin(Login{Line: here(), Machine: next()})
		case word == "default":
			begin(Login{Line: here(), Default: true})
		case word == "login":
			current.User = next()
		case word == "password":
			current.Password = next()
		case word == "account":
			next()
		case word == "macdef":
			skipTo(macroEnd)
		}
	}
	return all
}

var (
	// netrcWord is a word, or a text in double quotes as curl allows it. A quote that is not
	// closed on its line is an ordinary character.
	netrcWord    = regexp.MustCompile(`"((?:\\.|[^"\\\n])*)"|[^ \t\r\n]+`)
	netrcEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`, `\`, "")

	lineEnd  = regexp.MustCompile(`\n|$`)
	macroEnd = regexp.MustCompile(`\n\r*(?:\n|$)|$`) // an empty line
)
