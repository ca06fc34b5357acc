// Package credentials asks for the credentials that a configuration names, when they are required: it runs credentials
// helpers, and reads the files of Docker and Podman.
package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
)

// Limits for a credentials helper.
const (
	helperTimeout = 2 * time.Minute // it may have to prompt a person
	maxAnswer     = 1 << 20
	maxComplaint  = 4 << 10
)

// A Token is the bearer token of a host.
type Token struct {
	Text string // may be empty in a configuration, and then prevents running the helper
	From string // where it is configured, for messages
	Set  bool   // whether the token is to be sent; that in a variable may be empty, as for engines
}

// A Helper is a credentials helper of the CLI configuration: a program that returns tokens.
type Helper struct {
	Name     string
	Path     string
	Args     []string // before those of each run
	Programs *Programs

	answers sources.Memo[sources.Host, Token]
}

// Token returns the helper's token for a host, or the zero Token. It runs the helper only the first time.
func (h *Helper) Token(ctx context.Context, host sources.Host) (Token, error) {
	return h.answers.Get(ctx, host, func() (t Token, err error) {
		out, complaint, err := h.Programs.run(ctx, "", h.Path, append(slices.Clone(h.Args), "get", host.ASCII())...)
		if err != nil {
			err = withText(err, text(complaint))
		} else {
			var object map[string]any
			err = parse(out, &object, "a JSON object")
			t.Text, t.Set = object["token"].(string)
			h.Programs.secrets.Add(t.Text)
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("credentials helper %s for %s: %w", h.Name, host, err)
		}
		return t, err
	})
}

// Programs run programs that return credentials, one at a time: several can't prompt a person at once.
type Programs struct {
	environ []string
	dir     string
	secrets *sources.Secrets
	turn    *semaphore.Weighted
}

// NewPrograms returns Programs that run in a directory and add what they return to the secrets, which may be nil.
func NewPrograms(environ []string, dir string, secrets *sources.Secrets) *Programs {
	return &Programs{environ, dir, secrets, semaphore.NewWeighted(1)}
}

// run runs a program, with a time limit, and returns the beginning of its output and of its error output.
func (p *Programs) run(
	ctx context.Context, input, path string, args ...string,
) (out, complaint *sources.Head, err error) {
	out, complaint = &sources.Head{Limit: maxAnswer}, &sources.Head{Limit: maxComplaint}
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return out, complaint, err
	}
	defer p.turn.Release(1)
	limited, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, path, args...)
	cmd.Env, cmd.Dir = p.environ, p.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), out, complaint
	cmd.WaitDelay = time.Second // for child processes of the program
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if limited.Err() != nil {
		err = fmt.Errorf("no answer within %s", helperTimeout)
	}
	return out, complaint, err
}

// withText adds what a program has printed to its error.
func withText(err error, text string) error {
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text[:min(len(text), maxComplaint)])
}

// parse parses the output of a program, which is JSON. Its errors don't quote it, because it may contain a secret.
func parse(out *sources.Head, to any, what string) error {
	if out.Cut {
		return fmt.Errorf("answer is larger than %d bytes", out.Limit)
	}
	if json.Unmarshal(out.Bytes(), to) != nil {
		return fmt.Errorf("answer is not %s", what)
	}
	return nil
}

// text returns the output of a program as text, without space around it.
func text(out *sources.Head) string {
	return string(bytes.TrimSpace(bytes.ToValidUTF8(out.Bytes(), []byte("�"))))
}
