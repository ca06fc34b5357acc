package sources

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Secrets are texts that must not be shown, such as tokens. The zero Secrets has none,
// and so has a nil pointer. It is safe for concurrent use.
type Secrets struct {
	mu    sync.RWMutex
	known map[string]bool
	forms []form // of all secrets, as a server or an error may repeat them
}

// A form is a way in which a secret is written.
type form struct {
	text  string
	whole bool // it is only found as separate words
}

const (
	minSecret = 6  // bytes; shorter texts occur in others
	longWord  = 12 // bytes; shorter secrets are only found as separate words
	beginning = 16 // bytes; what begins like a secret may be a part of it that was cut off
)

// Add adds secrets, and the parts after a space in them, as in "Bearer TOKEN". It ignores
// texts that can't be told from ordinary words and numbers.
func (s *Secrets) Add(secrets ...string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[string]bool{}
	}
	for _, secret := range secrets {
		secret = strings.TrimSpace(secret)
		if _, credentials, ok := strings.Cut(secret, " "); ok {
			s.add(strings.TrimSpace(credentials))
		}
		s.add(secret)
	}
}

func (s *Secrets) add(secret string) {
	if s.known[secret] || ordinary(secret) {
		return
	}
	s.known[secret] = true
	for _, text := range escaped(secret) {
		if text = strings.ReplaceAll(text, `\`, ""); !ordinary(text) { // see unescaped
			s.forms = append(s.forms, form{text, len(secret) < longWord})
		}
	}
	for _, text := range inBase64(secret) {
		if !ordinary(text) {
			s.forms = append(s.forms, form{text: text})
		}
	}
	slices.SortFunc(s.forms, func(a, b form) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	s.forms = slices.Compact(s.forms)
}

// AddURL adds the password of a URL, or else its user, and the values in its query. The URL
// may be invalid.
func (s *Secrets) AddURL(text string) {
	_, err := url.Parse(text)
	if _, rest, ok := strings.Cut(text, "://"); ok {
		text = rest
	}
	rest, query, _ := strings.Cut(text, "?")
	if err == nil { // otherwise a password may contain a slash
		rest, _, _ = strings.Cut(rest, "/")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, ok := strings.Cut(rest[:at], ":")
		if !ok {
			password = user
		}
		s.addEscaped(password, url.PathUnescape)
		s.Add(base64.StdEncoding.EncodeToString([]byte(rest[:at])))
	}
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		s.addEscaped(value, url.QueryUnescape)
	}
}

// addEscaped adds a part of a URL, as it is and without its escapes.
func (s *Secrets) addEscaped(part string, unescape func(string) (string, error)) {
	s.Add(part)
	if plain, err := unescape(part); err == nil {
		s.Add(plain)
	}
}

// ordinary reports whether a text is too short for a secret, or an ordinary word or number.
func ordinary(text string) bool {
	is := func(low, high rune) bool {
		return !strings.ContainsFunc(text, func(r rune) bool { return r < low || r > high })
	}
	return len(text) < minSecret || len(text) < longWord && (is('a', 'z') || is('0', '9'))
}

// escaped returns a secret as it is, and as it is written in URLs, JSON and quotes.
func escaped(secret string) []string {
	text, _ := json.Marshal(secret) // which never fails
	plain, _ := JSON(secret)
	all := []string{secret, strconv.Quote(secret), string(text), strings.TrimSpace(string(plain))}
	for i, quoted := range all[1:] {
		all[i+1] = quoted[1 : len(quoted)-1]
	}
	for _, text := range []string{url.QueryEscape(secret), url.PathEscape(secret), url.User(secret).String()} {
		all = append(all, text, lowerEscapes(text))
	}
	return all
}

// inBase64 returns the digits of a secret in base64. Where other text precedes it, there are
// three ways. The digits that also depend on the text before and after are left out.
func inBase64(secret string) (all []string) {
	for i, skip := range []int{0, 2, 3} {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			digits := encoding.EncodeToString([]byte(strings.Repeat("x", i) + secret))
			if (i+len(secret))%3 > 0 {
				digits = digits[:len(digits)-1]
			}
			all = append(all, digits[skip:])
		}
	}
	return all
}

// lowerEscapes returns a text with its escapes in lower case: %2f for %2F.
func lowerEscapes(text string) string {
	parts := strings.Split(text, "%")
	for i, part := range parts[1:] {
		parts[i+1] = strings.ToLower(part[:2]) + part[2:]
	}
	return strings.Join(parts, "%")
}

// passwords are those in URLs, whatever the URL is. Messages may show USER:PASSWORD.
var passwords = Regexp(`(://)[^\s/"'<>@]*:[^\s/"'<>]*@`)

// Redact returns text with … in place of secrets and of passwords in URLs. Text may be
// JSON: names of members remain.
func (s *Secrets) Redact(text string) string {
	if strings.Contains(text, "://") && strings.Contains(text, "@") && !strings.Contains(text, "USER:PASSWORD@") {
		text = passwords().ReplaceAllString(text, "$1…@")
	}
	if s == nil {
		return text
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	plain := strings.ReplaceAll(text, `\`, "")
	if !slices.ContainsFunc(s.forms, func(f form) bool { return strings.Contains(plain, f.head()) }) {
		return text
	}
	plain, at := unescaped(text)
	var b strings.Builder
	kept := 0 // what is before in text has been written
	for i := 0; i < len(plain); {
		n := s.secretAt(plain, i)
		if n == 0 {
			i++
			continue
		}
		b.WriteString(text[kept:at[i]] + "…")
		i += n
		kept = at[i]
	}
	return b.String() + text[kept:]
}

// unescaped returns text without backslashes, because a text in quotes, in JSON, may be escaped
// several times, and the position in text of each byte with its backslashes.
func unescaped(text string) (plain string, at []int) {
	var b strings.Builder
	begin := 0
	for i := range len(text) {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			at = append(at, begin)
			begin = i + 1
		}
	}
	return b.String(), append(at, begin)
}

// secretAt returns the length of the secret at a position, or 0. What begins like a secret may
// be one that was cut off.
func (s *Secrets) secretAt(text string, i int) int {
	n, whole := 0, true
	for _, f := range s.forms {
		if strings.HasPrefix(text[i:], f.head()) {
			n, whole = max(n, common(text[i:], f.text)), whole && f.whole
		}
	}
	switch {
	case n == 0, whole && (wordEnds(text[:i]) || wordBegins(text[i+n:])), namesMember(text[i+n:]):
		return 0
	}
	return n
}

// namesMember reports whether what follows a word shows that it is the name of a member in JSON. In a message, a blank
// follows the colon.
func namesMember(after string) bool {
	return strings.HasPrefix(after, `":`) && !strings.HasPrefix(after, `": `)
}

// head returns the beginning by which a form is recognized.
func (f form) head() string { return f.text[:min(len(f.text), beginning)] }

// common returns the length of the longest common beginning of two texts.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func wordBegins(text string) bool { return strings.IndexFunc(text, inWord) == 0 }

func wordEnds(text string) bool {
	return text != "" && strings.LastIndexFunc(text, inWord) == len(text)-1
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
