package server

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Tokens are the SHA-256 of tokens, by name.
type Tokens map[string][sha256.Size]byte

// ErrNoTokens is the error of a file without tokens.
var ErrNoTokens = errors.New("there is no token")

// ParseTokens parses a file of tokens. Each line is a name and the SHA-256 of a token in hexadecimal digits. Empty
// lines, and lines that begin with "#", mean nothing. The errors name the line, and never its contents.
func ParseTokens(text []byte) (Tokens, error) {
	all := Tokens{}
	lines := bufio.NewScanner(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))) // which some editors add
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(strings.TrimSuffix(lines.Text(), "  -")) // which sha256sum adds
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		var sum []byte
		err := error(nil)
		if len(fields) == 2 {
			sum, err = hex.DecodeString(fields[1])
		}
		if len(fields) != 2 || err != nil || len(sum) != sha256.Size {
			err := fmt.Errorf("line %d is not a name and the SHA-256 of a token", n)
			return nil, sources.WithHint(err, `printf %%s "$TOKEN" | sha256sum prints the SHA-256 of a token`)
		}
		if [sha256.Size]byte(sum) == sha256.Sum256(nil) {
			err := fmt.Errorf("line %d has the SHA-256 of nothing", n)
			return nil, sources.WithHint(err, "set TOKEN before you compute its SHA-256")
		}
		if _, twice := all[fields[0]]; twice {
			return nil, fmt.Errorf("line %d has the name of an earlier line", n)
		}
		all[fields[0]] = [sha256.Size]byte(sum)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, ErrNoTokens
	}
	return all, nil
}

// name returns the name of a token. All tokens are compared, so the time doesn't depend on the token.
func (t Tokens) name(token string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(token))
	for n, want := range t {
		if subtle.ConstantTimeCompare(sum[:], want[:]) == 1 {
			name, ok = n, true
		}
	}
	return name, ok
}

// goodFor is how long the URL of an archive is valid. Engines follow it at once, but may have to wait for slots.
const goodFor = 10 * time.Minute

// admit returns an error if the client must not make the request. Archives and evidence have signed URLs, because
// engines send no tokens with them.
func (x *exchange) admit() error {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		x.w.Header().Set("Allow", "GET, HEAD")
		return errMethod
	}
	if x.opts.Agent != "" && strings.Contains(x.r.UserAgent(), x.opts.Agent) {
		return errLoop
	}
	if x.opts.Tokens == nil || x.kind == health || x.kind == discovery {
		return nil
	}
	x.w.private = true
	if (x.kind == archive || x.kind == proof || x.kind == sums) && x.r.URL.Query().Has("signature") {
		if name, ok := x.validURL(); ok {
			x.served.Token = name
			return nil
		}
		if x.r.Header.Get("Authorization") == "" { // a token suffices
			return errExpired
		}
	}
	var token string
	if given := x.r.Header.Values("Authorization"); len(given) == 1 { // of several, a proxy may have looked at another one
		scheme, text, _ := strings.Cut(given[0], " ")
		if token = text; !strings.EqualFold(scheme, "Bearer") {
			_, token, _ = x.r.BasicAuth() // the password that a browser asks for
		}
	}
	if token = strings.TrimSpace(token); token == "" {
		return errNoToken
	}
	name, known := x.opts.Tokens().name(token)
	if !known {
		return errUnknownToken
	}
	x.served.Token = name
	return nil
}

// signature returns the query of a URL of this server, with which the URL suffices, where a token is required. It is
// for the client that made the request.
func (x *exchange) signature(path string) string {
	if x.opts.Tokens == nil {
		return ""
	}
	until := strconv.FormatInt(x.opts.Now().Add(goodFor).Truncate(time.Minute).Unix(), 10)
	name := x.served.Token
	signed := x.sign(path, until, name, x.opts.Tokens()[name])
	return "?" + url.Values{"client": {name}, "expires": {until}, "signature": {signed}}.Encode()
}

// sign returns the signature of a URL that is valid until a time, for the client with a token. Only the path may
// contain spaces.
func (x *exchange) sign(path, until, name string, token [sha256.Size]byte) string {
	return x.opts.Key.Derive(fmt.Sprintf("URL of larder serve: %s %s %x %s%s", until, name, token, x.host, path))
}

// validURL reports whether the URL has a valid signature that has not expired, and returns the name of the token, which
// must still be valid.
func (x *exchange) validURL() (name string, ok bool) {
	query := x.r.URL.Query()
	until, name := query.Get("expires"), query.Get("client")
	seconds, err := strconv.ParseInt(until, 10, 64)
	token, known := x.opts.Tokens()[name]
	valid := hmac.Equal([]byte(query.Get("signature")), []byte(x.sign(x.r.URL.Path, until, name, token)))
	return name, err == nil && known && valid && x.opts.Now().Before(time.Unix(seconds, 0))
}

// Client returns the address of the client that made a request.
func (s *Server) Client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // of a socket
	}
	if s.opts.BehindProxy {
		text := forwarded(r, "For")
		if addr, err := netip.ParseAddr(text); err == nil {
			return addr.WithZone("").String() // which may be any text
		}
		if addr, err := netip.ParseAddrPort(text); err == nil { // some proxies add the port
			return addr.Addr().WithZone("").String()
		}
	}
	return host
}

// forwarded returns the last element of a header X-Forwarded-…, which the proxy has added. Those before it, which may
// be in lines of their own, are from the client or from other proxies.
func forwarded(r *http.Request, what string) string {
	lines := r.Header.Values("X-Forwarded-" + what)
	if len(lines) == 0 {
		return ""
	}
	last := lines[len(lines)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// HostOf returns the host under which the client of a request knows the server. The error matches [sources.ErrNotFound]
// if no provider can have such a host.
func (s *Server) HostOf(r *http.Request) (sources.Host, error) {
	if s.opts.Host != "" {
		return s.opts.Host, nil
	}
	return s.asked(r)
}

// asked returns the host of a request, as the client or the proxy states it.
func (s *Server) asked(r *http.Request) (sources.Host, error) {
	name := r.Host
	if s.opts.BehindProxy {
		name = cmp.Or(forwarded(r, "Host"), name)
	}
	h, err := sources.ParsePunycodeHost(strings.TrimSuffix(strings.ToLower(name), ":443"))
	if err != nil {
		return "", sources.ErrNotFound
	}
	return h, nil
}
