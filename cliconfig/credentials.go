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

// credentials are the configured bearer tokens.
type credentials struct {
	env    map[sources.Host]string
	names  map[sources.Host]string // of the variables in env
	blocks map[sources.Host]blockToken
	helper *helper // nil if there is none
}

// Token returns the bearer token for a host, and whether there is one: from the
// environment, else from a credentials block, else from the helper. It runs the
// helper at most once for each host. An error means that the helper failed, which
// differs from having no token.
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

// tokenDecoder decodes the host in a variable's name: for systems that restrict the
// names of variables, "__" encodes "-" and "_" encodes ".".
var tokenDecoder = strings.NewReplacer("__", "-", "_", ".")

// envTokens returns the tokens in TF_TOKEN_ variables, and the names of these.
func (l *loader) envTokens() (tokens, names map[sources.Host]string) {
	tokens, names = map[sources.Host]string{}, map[sources.Host]string{}
	for _, assignment := range l.Environ {
		name, token, _ := strings.Cut(assignment, "=")
		rest, ok := strings.CutPrefix(name, tokenPrefix)
		if !ok {
			continue
		}
		l.secrets.Add(token)
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

// Limits for a credentials helper.
const (
	helperTimeout = 2 * time.Minute // it may have to prompt a person
	maxAnswer     = 1 << 20
	maxComplaint  = 4 << 10
)

// A helper is a credentials helper: a program that returns tokens.
type helper struct {
	name, path string
	args       []string
	env        []string
	dir        string
	secrets    *sources.Secrets

	turn    chan struct{} // holds a value during a call; guards answers
	answers map[sources.Host]answer
}

type answer struct {
	token string
	ok    bool
	err   error
}

// token returns the helper's token for a host. It runs the helper only the first
// time.
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
	cmd.WaitDelay = time.Second // for child processes of the helper
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case limited.Err() != nil:
		return "", false, fmt.Errorf("credentials helper %s for %s: no answer in %s", h.name, host, helperTimeout)
	case err != nil:
		return "", false, fmt.Errorf("credentials helper %s for %s: %w", h.name, host, withComplaint(err, complaint))
	}
	token, ok, err = parseAnswer(out)
	h.secrets.Add(token)
	if err != nil {
		return "", false, fmt.Errorf("credentials helper %s for %s: %w", h.name, host, err)
	}
	return token, ok, nil
}

// withComplaint adds the helper's standard error output to err.
func withComplaint(err error, complaint *head) error {
	text := strings.TrimSpace(strings.ToValidUTF8(string(complaint.kept), "�"))
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// parseAnswer parses the helper's output. Its errors do not quote the output, because
// that may contain a secret.
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

// A head keeps the beginning of the data written to it.
type head struct {
	kept  []byte
	limit int
	cut   bool // whether more than the limit was written
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.cut = h.cut || n < len(p)
	return len(p), nil
}

// findHelper returns the newest program for a credentials_helper block, or nil if
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
		name: b.name, path: path, args: b.args, env: l.Environ, dir: l.WorkDir, secrets: l.secrets,
		turn: make(chan struct{}, 1), answers: map[sources.Host]answer{},
	}
}

// helperVersion returns the version in the name of a helper's program, 0.0.0 if the
// name has none, and whether file is that program. Case is ignored.
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
	text, _, _ = strings.Cut(text, "_x") // the protocol version, as in old names
	v, err := sources.ParseVersion(text)
	return v, err == nil
}
