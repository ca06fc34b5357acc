package cliconfig

import (
	"context"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// credentials are the bearer tokens, from wherever they are configured.
type credentials struct {
	env    map[sources.Host]string
	blocks map[sources.Host]string
	helper *helper // nil if there is none
}

// Token is the bearer token for a host, and whether there is one: from the
// environment, else from a credentials block, else from the helper. A helper is
// asked at most once for each host. An error means that it gave no answer,
// which is not the same as having no credentials.
func (c *Config) Token(ctx context.Context, host sources.Host) (string, bool, error) {
	if token, ok := c.credentials.env[host]; ok {
		return token, true, nil
	}
	if token, ok := c.credentials.blocks[host]; ok {
		return token, token != "", nil
	}
	if c.credentials.helper == nil {
		return "", false, nil
	}
	return c.credentials.helper.token(ctx, host)
}

const tokenPrefix = "TF_TOKEN_"

// tokenDecoder turns the rest of a variable's name into a host: where variables
// cannot be named freely, "__" stands for "-" and "_" for ".".
var tokenDecoder = strings.NewReplacer("__", "-", "_", ".")

// envTokens are the tokens of TF_TOKEN_ variables.
func (l *loader) envTokens() map[sources.Host]string {
	tokens := map[sources.Host]string{}
	names := map[sources.Host]string{}
	for _, assignment := range l.Environ {
		name, token, _ := strings.Cut(assignment, "=")
		rest, ok := strings.CutPrefix(name, tokenPrefix)
		if !ok {
			continue
		}
		host, err := sources.ParsePunycodeHost(tokenDecoder.Replace(rest))
		if err != nil {
			l.warnf(place{}, "", "%s names no host and is not used: %v", name, err)
			continue
		}
		if other, ok := tokens[host]; ok && other != token {
			l.errorf(place{}, "unset one of them", "%s and %s give different tokens for %s", names[host], name, host)
			continue
		}
		tokens[host], names[host] = token, name
	}
	return tokens
}
