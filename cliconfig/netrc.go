package cliconfig

import (
	"strings"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A netrc is the user's file of passwords, which other programs share.
type netrc []login

// A login is an entry of a netrc.
type login struct {
	machine        string
	fallback       bool // the default entry, for all machines
	user, password string
}

// Netrc returns the user and password for a URL's host, and whether there are any.
// hostport includes the port if the URL has one.
func (c *Config) Netrc(hostport string) (user, password string, ok bool) {
	return c.netrc.find(hostport)
}

func (n netrc) find(hostport string) (user, password string, ok bool) {
	var chosen login
	for _, l := range n {
		if l.fallback {
			chosen = l
		} else if strings.EqualFold(l.machine, hostport) {
			chosen = l
			break
		}
	}
	return chosen.user, chosen.password, chosen.user != "" || chosen.password != ""
}

// netrcFile is the user's netrc file, whether or not it exists.
func (l *loader) netrcFile() string {
	name := l.getenv("NETRC")
	if name == "" && l.GOOS == "windows" {
		name = l.below(l.home(), "_netrc")
	} else if name == "" {
		name = l.below(l.home(), ".netrc")
	}
	if name == "" {
		return ""
	}
	return l.abs(l.WorkDir, name)
}

// loadNetrc reads the user's netrc file, if there is one. Problems in it are only
// warnings, because the file belongs to other programs.
func (l *loader) loadNetrc() netrc {
	name, origin := l.netrcFile(), " (named by NETRC)"
	if l.getenv("NETRC") == "" {
		origin = ""
		if name == "" || !l.exists(name) {
			return nil
		}
	}
	src, err := l.read(name)
	if err != nil {
		l.warnf(place{file: name}, "", "%v%s", disk.Cause(err), origin)
		return nil
	}
	l.files = append(l.files, file{name, "netrc"})
	n, warnings := parseNetrc(name, string(src))
	for _, login := range n {
		l.secrets.Add(login.password)
	}
	l.diags = append(l.diags, warnings...)
	return n
}

// parseNetrc parses a netrc file: entries of words separated by white space.
func parseNetrc(file, src string) (netrc, sources.Diagnostics) {
	var n netrc
	var warnings sources.Diagnostics
	var current *login
	words := &netrcWords{rest: src, at: place{file: file, line: 1, column: 1}}
	for {
		at, word, ok := words.next(true)
		if !ok {
			return n, warnings
		}
		switch word {
		case "machine", "default":
			n = append(n, login{fallback: word == "default"})
			current = &n[len(n)-1]
			if word == "machine" {
				_, current.machine, _ = words.next(false)
			}
		case "login", "password", "account":
			_, value, _ := words.next(false)
			current.set(word, value)
		case "macdef":
			words.skipMacro()
		default:
			if warnings == nil { // one warning suffices if the file is not a netrc file at all
				w := fault(at, "", "unknown word in a netrc file, ignored")
				w.Warning = true
				warnings = append(warnings, *w)
			}
		}
	}
}

// set sets a field of l. Values before the first machine belong to no entry.
func (l *login) set(what, value string) {
	switch {
	case l == nil:
	case what == "login":
		l.user = value
	case what == "password":
		l.password = value
	}
}

// netrcWords splits a netrc file into words.
type netrcWords struct {
	rest string
	at   place
}

// skip skips the first n bytes of the rest.
func (w *netrcWords) skip(n int) {
	text := w.rest[:n]
	w.rest = w.rest[n:]
	if lines := strings.Count(text, "\n"); lines > 0 {
		w.at.line += lines
		w.at.column = 1
		text = text[strings.LastIndexByte(text, '\n')+1:]
	}
	w.at.column += utf8.RuneCountInString(text)
}

// next returns the next word and its position. Between entries a word that begins
// with # begins a comment. Elsewhere it does not, because a password may begin with
// #.
func (w *netrcWords) next(comments bool) (at place, word string, ok bool) {
	for {
		w.skip(len(w.rest) - len(strings.TrimLeft(w.rest, netrcSpace)))
		if !comments || !strings.HasPrefix(w.rest, "#") {
			break
		}
		w.skip(lineEnd(w.rest))
	}
	at = w.at
	if w.rest == "" {
		return at, "", false
	}
	if word, n, ok := unquote(w.rest); ok {
		w.skip(n)
		return at, word, true
	}
	end := strings.IndexAny(w.rest, netrcSpace)
	if end < 0 {
		end = len(w.rest)
	}
	word = w.rest[:end]
	w.skip(end)
	return at, word, true
}

const netrcSpace = " \t\r\n"

// lineEnd returns the index of the end of the first line of s.
func lineEnd(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// unquote parses a word in double quotes, as curl allows it, and returns its length
// in bytes. A quote that is not closed on its line is an ordinary character.
func unquote(s string) (word string, n int, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", 0, false
	}
	escapes := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t'}
	var b strings.Builder
	for i := 1; i < lineEnd(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), i + 1, true
		case s[i] == '\\' && i+1 < lineEnd(s):
			i++
			c, special := escapes[s[i]]
			if !special {
				c = s[i]
			}
			b.WriteByte(c)
		default:
			b.WriteByte(s[i])
		}
	}
	return "", 0, false
}

// skipMacro skips a macro, which ends at an empty line.
func (w *netrcWords) skipMacro() {
	for w.rest != "" {
		w.skip(min(lineEnd(w.rest)+1, len(w.rest)))
		if strings.TrimRight(w.rest[:lineEnd(w.rest)], "\r") == "" {
			return
		}
	}
}
