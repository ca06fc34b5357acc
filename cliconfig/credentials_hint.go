package cliconfig

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// A blockToken is the token of a credentials block.
type blockToken struct {
	text string // empty if the block has none
	at   place
}

// tokenOrigin is where the token for a host is configured; empty if it is nowhere.
func (c *Config) tokenOrigin(host sources.Host) string {
	if _, ok := c.credentials.env[host]; ok {
		return c.credentials.names[host]
	}
	if block, ok := c.credentials.blocks[host]; ok {
		return "the credentials block at " + block.at.String()
	}
	if c.credentials.helper != nil {
		return "the credentials helper " + c.credentials.helper.name
	}
	return ""
}

// TokenHint is what to do about the refusal of a request for which a host's token counts, with
// or without credentials sent.
func (c *Config) TokenHint(host sources.Host, sent bool) string {
	origin := c.tokenOrigin(host)
	block, blocked := c.credentials.blocks[host]
	switch {
	case origin != "" && sent:
		return fmt.Sprintf("check the token for %s from %s: it was refused; it may have expired, or may not read this provider", host, origin)
	case sent:
		return "check the user and password in the URL"
	case blocked && block.text == "":
		return fmt.Sprintf("add a token to %s: it has none for %s", origin, host)
	case origin != "" && c.credentials.helper != nil && !blocked:
		return fmt.Sprintf("%s has no token for %s: log in with it, or %s", origin, host, c.tokenAdvice(host))
	}
	name, _, port := strings.Cut(string(host), ":")
	if variable := c.credentials.names[sources.Host(name)]; port && variable != "" {
		return fmt.Sprintf("%s names no port, so its token is not sent to %s: %s", variable, host, c.tokenAdvice(host))
	}
	return c.tokenAdvice(host)
}

// tokenEncoder is the reverse of tokenDecoder.
var tokenEncoder = strings.NewReplacer("-", "__", ".", "_")

// tokenAdvice is how to configure a token for a host. Few shells can set a variable whose
// name has the colon of a port.
func (c *Config) tokenAdvice(host sources.Host) string {
	file := c.machine.mainFile(c.Engine)
	for _, f := range c.files {
		if f.why != larderFileReason && f.why != larderVariable {
			file = f.path
			break
		}
	}
	advice := fmt.Sprintf("add credentials %q { token = \"TOKEN\" } to %s", string(host), file)
	if strings.Contains(string(host), ":") {
		return advice
	}
	return "set " + tokenPrefix + tokenEncoder.Replace(host.ASCII()) + ", or " + advice
}
