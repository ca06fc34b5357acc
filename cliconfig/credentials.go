package cliconfig

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig/credentials"
	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
)

// Token returns the bearer token for a host, and whether there is one: from the
// environment, else from a credentials block, else from the helper. It runs the
// helper at most once for each host. An error means that the helper failed, which
// differs from having no token.
func (c *Config) Token(ctx context.Context, host sources.Host) (token string, ok bool, err error) {
	t, ok := c.tokens[host]
	if !ok && c.helper != nil {
		t, err = c.helper.Token(ctx, host)
	}
	return t.Text, t.Set, err
}

// Netrc returns the user and password for a URL's host from the netrc file, and whether there are any.
// hostport includes the port if the URL has one.
func (c *Config) Netrc(hostport string) (user, password string, ok bool) {
	return c.netrc.For(hostport)
}

// readNetrc reads the user's netrc file.
func (l *loader) readNetrc(path, src string) {
	l.config.netrc = credentials.ParseNetrc(src)
	for _, login := range l.config.netrc {
		l.secrets.Add(login.Password)
		from := Place{File: path, Line: login.Line}
		l.config.noteFirst(Setting{Name: "password", Of: strings.ToLower(login.Machine), Secret: true, From: from})
	}
}

// TokenHint is what to do about the refusal of a request for which a host's token counts, with
// or without credentials sent.
func (c *Config) TokenHint(host sources.Host, sent bool) string {
	t, found := c.tokens[host]
	if !found && c.helper != nil {
		t.From = "the credentials helper " + c.helper.Name
	}
	switch {
	case sent && t.From == "":
		return "check the user and password in the URL"
	case sent:
		return fmt.Sprintf("check the token for %s from %s: "+
			"the server refused it; it may have expired, or lack access to this provider", host, t.From)
	case found && !t.Set:
		return fmt.Sprintf("add a token to %s: it has none for %s", t.From, host)
	case !found && t.From != "":
		return fmt.Sprintf("%s has no token for %s: log in with it, or %s", t.From, host, c.tokenAdvice(host))
	}
	name, _, port := strings.Cut(string(host), ":")
	if other := c.tokens[sources.Host(name)].From; port && strings.HasPrefix(other, TokenPrefix) {
		return fmt.Sprintf("%s names no port, so its token is not sent to %s: %s", other, host, c.tokenAdvice(host))
	}
	return c.tokenAdvice(host)
}

// tokenAdvice is how to configure a token for a host. Few shells can set a variable whose
// name has the colon of a port.
func (c *Config) tokenAdvice(host sources.Host) string {
	advice := fmt.Sprintf("add credentials %q { token = \"TOKEN\" } to %s", string(host), c.fileToEdit())
	if strings.Contains(string(host), ":") {
		return advice
	}
	return "set " + TokenPrefix + tokenEncoder.Replace(host.ASCII()) + ", or " + advice
}

// fileToEdit returns the file of the CLI configuration that was read first, or else the main file to create.
func (c *Config) fileToEdit() string { return cmp.Or(c.MainFile(), c.machine.mainFile(c.Engine)) }

// TokenPrefix begins the names of variables with tokens. For systems that restrict such names, "__"
// encodes "-" in the host that follows, and "_" encodes ".".
const TokenPrefix = "TF_TOKEN_"

var (
	tokenDecoder = strings.NewReplacer("__", "-", "_", ".")
	tokenEncoder = strings.NewReplacer("-", "__", ".", "_")
)

// credentialsBlock is the name of the blocks with tokens.
const credentialsBlock = "credentials"

// credentials is a field for the credentials blocks in a file, which replace those in earlier files.
// Blocks for the same host are like one block.
func (l *loader) credentials() field {
	texts := map[sources.Host]string{}
	return l.blocks(l.ofHost(func(host sources.Host, b syntax.Entry) {
		l.read(b.Value, fields{"token": func(e syntax.Entry) {
			if e.Value.Kind != syntax.String {
				l.warnf(e.Value.Place, writeQuotes, "token is %s, not a string, and is not used", e.Value.Kind)
				return
			}
			l.secrets.Add(e.Value.Text)
			texts[host] = e.Value.Text
		}})
		from := "the credentials block at " + b.Place.String()
		l.config.tokens[host] = credentials.Token{Text: texts[host], Set: texts[host] != "", From: from}
		l.config.note(Setting{Name: credentialsBlock, Of: string(host), Secret: texts[host] != "", From: b.Place})
	}))
}

// tokenVariables reads the tokens in variables, which take precedence over those in files.
func (l *loader) tokenVariables() {
	for _, assignment := range l.Environ {
		name, text, _ := strings.Cut(assignment, "=")
		rest, ok := strings.CutPrefix(name, TokenPrefix)
		if !ok {
			continue
		}
		l.secrets.Add(text)
		host, err := sources.ParsePunycodeHost(tokenDecoder.Replace(rest))
		if err != nil {
			l.warnf(Place{}, "", "%s contains no host name and is ignored: %v", name, err)
			continue
		}
		if other := l.config.tokens[host]; strings.HasPrefix(other.From, TokenPrefix) && other.Text != text {
			l.errorf(Place{}, "unset one of them", "%s and %s give different tokens for %s", other.From, name, host)
			continue
		}
		l.config.tokens[host] = credentials.Token{Text: text, Set: true, From: name}
		l.config.note(Setting{Name: credentialsBlock, Of: string(host), Secret: true, From: Place{By: name}})
	}
}
