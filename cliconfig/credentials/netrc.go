package credentials

import (
	"regexp"
	"strings"

	"github.com/larder-cli/larder/sources"
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
	words := netrcWord().FindAllStringSubmatchIndex(src, -1)
	next := func() (word string) { // returns "" at the end of the file
		if len(words) == 0 {
			return ""
		}
		at := words[0]
		if words = words[1:]; at[2] >= 0 {
			return netrcEscapes.Replace(src[at[2]:at[3]])
		}
		return src[at[0]:at[1]]
	}
	current := new(Login) // values before the first machine belong to no entry
	line, counted := 1, 0 // each line is counted once, as there may be many entries
	for len(words) > 0 {
		start, end := words[0][0], words[0][1]
		skipTo := func(what *regexp.Regexp) {
			end += what.FindStringIndex(src[end:])[0]
			for len(words) > 0 && words[0][0] < end {
				words = words[1:]
			}
		}
		switch word := next(); {
		case src[start] == '#': // only here, because a password may begin with #
			skipTo(lineEnd())
		case word == "machine", word == "default":
			line, counted = line+strings.Count(src[counted:start], "\n"), start
			all = append(all, Login{Line: line, Default: word == "default"})
			if current = &all[len(all)-1]; !current.Default {
				current.Machine = next()
			}
		case word == "login":
			current.User = next()
		case word == "password":
			current.Password = next()
		case word == "account":
			next()
		case word == "macdef":
			skipTo(macroEnd())
		}
	}
	return all
}

var (
	// netrcWord is a word, or a text in double quotes as curl allows it. A quote that is not
	// closed on its line is an ordinary character.
	netrcWord    = sources.Regexp(`"((?:\\.|[^"\\\n])*)"|[^ \t\r\n]+`)
	netrcEscapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`, `\`, "")

	lineEnd  = sources.Regexp(`\n|$`)
	macroEnd = sources.Regexp(`\n\r*(?:\n|$)|$`) // an empty line
)
