package cliconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// credentials are the bearer tokens, from wherever they are configured.
type credentials struct {
	env    map[sources.Host]string
	names  map[sources.Host]string // of the variables in env
	blocks map[sources.Host]blockToken
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
		return token.text, token.text != "", nil
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

// envTokens are the tokens of TF_TOKEN_ variables, and the names of these.
func (l *loader) envTokens() (tokens, names map[sources.Host]string) {
	tokens, names = map[sources.Host]string{}, map[sources.Host]string{}
	for _, assignment := range l.Environ {
		name, token, _ := strings.Cut(assignment, "=")
		rest, ok := strings.CutPrefix(name, tokenPrefix)
		if !ok {
			continue
		}
		host, err := sources.ParsePunycodeHost(tokenDecoder.Replace(rest))
		if err != nil {
			l.warnf(place{}, "", "%s contains no host name and is ignored: %v", name, err)
			continue
		}
		if other, ok := tokens[host]; ok && other != token {
			l.errorf(place{}, "unset one of them", "%s and %s give different tokens for %s", names[host], name, host)
			continue
		}
		tokens[host], names[host] = token, name
	}
	return tokens, names
}

// Limits on a credentials helper.
const (
	helperTimeout = 2 * time.Minute // it may have to ask a person
	maxAnswer     = 1 << 20
	maxComplaint  = 4 << 10
)

// A helper is a credentials helper: a program that knows tokens.
type helper struct {
	name, path string
	args       []string
	env        []string
	dir        string

	turn    chan struct{} // holds a value while a call is on; guards answers
	answers map[sources.Host]answer
}

type answer struct {
	token string
	ok    bool
	err   error
}

// token asks the helper for a host's token, unless it has been asked before.
func (h *helper) token(ctx context.Context, host sources.Host) (string, bool, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	a, ok := h.answers[host]
	if !ok {
		a.token, a.ok, a.err = h.ask(ctx, host)
		if ctx.Err() == nil {
			h.answers[host] = a
		}
	}
	return a.token, a.ok, a.err
}

// ask runs the helper.
func (h *helper) ask(ctx context.Context, host sources.Host) (token string, ok bool, err error) {
	limited, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	out, complaint := &head{limit: maxAnswer}, &head{limit: maxComplaint}
	args := append(append([]string{}, h.args...), "get", host.ASCII())
	cmd := exec.CommandContext(limited, h.path, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.WaitDelay = time.Second // for what the helper may have started
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case limited.Err() != nil:
		return "", false, fmt.Errorf("credentials helper %s for %s: no answer in %s", h.name, host, helperTimeout)
	case err != nil:
		return "", false, fmt.Errorf("credentials helper %s for %s: %w", h.name, host, withComplaint(err, complaint))
	}
	token, ok, err = parseAnswer(out)
	if err != nil {
		return "", false, fmt.Errorf("credentials helper %s for %s: %w", h.name, host, err)
	}
	return token, ok, nil
}

// withComplaint adds what the helper wrote to its standard error.
func withComplaint(err error, complaint *head) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(complaint.kept), "�"))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// parseAnswer reads the object that a helper prints. Errors do not quote it, as
// it may hold a secret.
func parseAnswer(out *head) (token string, ok bool, err error) {
	if out.cut {
		return "", false, fmt.Errorf("answer is larger than %d bytes", maxAnswer)
	}
	var object map[string]any
	if err := json.Unmarshal(out.kept, &object); err != nil {
		return "", false, errors.New("answer is not a JSON object")
	}
	token, ok = object["token"].(string)
	return token, ok, nil
}

// A head keeps the beginning of what is written to it.
type head struct {
	kept  []byte
	limit int
	cut   bool // something was written exceeds the limit
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut = h.cut || n < len(p)
	return len(p), nil
}

// findHelper finds the newest program for a credentials_helper block, nil if
// there is none.
func (l *loader) findHelper(b helperBlock) *helper {
	var path string
	var newest sources.Version
	var searched []string
	for _, data := range l.dataDirs(l.engine) {
		plugins := l.join(data, "plugins")
		for _, dir := range []string{plugins, l.join(plugins, l.GOOS+"_"+l.GOARCH)} {
			searched = append(searched, dir)
			for _, name := range l.names(dir) {
				v, ok := helperVersion(name, b.name)
				if !ok || l.isDir(l.join(dir, name)) || path != "" && v.Compare(newest) <= 0 {
					continue
				}
				path, newest = l.join(dir, name), v
			}
		}
	}
	if path == "" {
		l.warnf(b.place, "put it into one of "+strings.Join(searched, ", "),
			"terraform-credentials-%s is not installed, so it provides no credentials", b.name)
		return nil
	}
	return &helper{
		name: b.name, path: path, args: b.args, env: l.Environ, dir: l.WorkDir,
		turn: make(chan struct{}, 1), answers: map[sources.Host]answer{},
	}
}

// helperVersion is the version in the name of a helper's program, 0.0.0 if it
// has none, and whether file is that program at all. Case does not count.
func helperVersion(file, helper string) (sources.Version, bool) {
	name := strings.TrimSuffix(strings.ToLower(file), ".exe")
	rest, ok := strings.CutPrefix(name, "terraform-credentials-"+strings.ToLower(helper))
	if ok && rest == "" {
		rest = "_v0.0.0"
	}
	text, hasVersion := strings.CutPrefix(rest, "_v")
	if !ok || !hasVersion {
		return sources.Version{}, false
	}
	text, _, _ = strings.Cut(text, "_x") // the protocol, as in names of old
	v, err := sources.ParseVersion(text)
	return v, err == nil
}
