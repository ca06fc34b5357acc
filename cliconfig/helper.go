package cliconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
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

// A helper is a credentials helper: a program that returns tokens.
type helper struct {
	name    string
	program program
	secrets *sources.Secrets

	turn    *semaphore.Weighted // held during a call; guards answers
	answers map[sources.Host]answer
}

type answer struct {
	token string
	ok    bool
	err   error
}

// token returns the helper's answer for a host. It runs the helper only the first
// time.
func (h *helper) token(ctx context.Context, host sources.Host) answer {
	if err := h.turn.Acquire(ctx, 1); err != nil {
		return answer{err: err}
	}
	defer h.turn.Release(1)
	a, ok := h.answers[host]
	if !ok {
		a = h.ask(ctx, host)
		if ctx.Err() == nil {
			h.answers[host] = a
		}
	}
	return a
}

// ask runs the helper.
func (h *helper) ask(ctx context.Context, host sources.Host) (a answer) {
	out, complaint, err := h.program.run(ctx, "", "get", host.ASCII())
	switch {
	case ctx.Err() != nil:
		return answer{err: ctx.Err()}
	case err != nil:
		if text := complaint.text(); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
	default:
		a.token, a.ok, err = parseAnswer(out)
		h.secrets.Add(a.token)
	}
	if err != nil {
		a.err = fmt.Errorf("credentials helper %s for %s: %w", h.name, host, err)
	}
	return a
}

// A program returns credentials.
type program struct {
	path string
	args []string // before those of each run
	env  []string
	dir  string
}

// run runs the program, with a time limit, and returns the beginning of its output and of its error output.
func (p program) run(ctx context.Context, input string, args ...string) (out, complaint *head, err error) {
	limited, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	out, complaint = &head{limit: maxAnswer}, &head{limit: maxComplaint}
	cmd := exec.CommandContext(limited, p.path, slices.Concat(p.args, args)...)
	cmd.Env, cmd.Dir = p.env, p.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), out, complaint
	cmd.WaitDelay = time.Second // for child processes of the program
	err = cmd.Run()
	if limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer within %s", helperTimeout)
	}
	return out, complaint, err
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

// text returns the data as text, without space around it.
func (h *head) text() string {
	return string(bytes.TrimSpace(bytes.ToValidUTF8(h.kept, []byte("�"))))
}

// chooseHelper sets the credentials helper, if a block names one and its program is installed.
func (l *loader) chooseHelper() {
	if len(l.helpers) == 0 {
		return
	}
	b := l.helpers[0]
	for _, other := range l.helpers[1:] {
		l.errorf(other.Place, "keep one of them", "second credentials_helper, %q; the first is %q at %s", other.name, b.name, b.Place)
	}
	var dirs []string
	for _, data := range l.dataDirs(l.engine) {
		plugins := l.join(data, "plugins")
		dirs = append(dirs, plugins, l.join(plugins, l.GOOS+"_"+l.GOARCH))
	}
	path := l.newestHelper(dirs, b.name)
	l.config.note(Setting{Name: "credentials_helper", Value: b.name, From: b.Place})
	if path == "" {
		l.warnf(b.Place, "put it into one of "+strings.Join(dirs, ", "),
			"terraform-credentials-%s is not installed, so it provides no credentials", b.name)
		return
	}
	l.config.helper = &helper{
		name: b.name, program: program{path, b.args, l.Environ, l.WorkDir}, secrets: l.secrets,
		turn: semaphore.NewWeighted(1), answers: map[sources.Host]answer{},
	}
}

// newestHelper returns the newest program for a helper in directories, or "" if there is none. One
// without a version in its name is the oldest. Old names end in the version of a protocol.
func (l *loader) newestHelper(dirs []string, name string) (path string) {
	program := regexp.MustCompile(`(?i)^terraform-credentials-` + regexp.QuoteMeta(name) + `(?:_v(.+?)(?:_x.*)?)?(?:\.exe)?$`)
	var newest sources.Version
	for _, dir := range dirs {
		entries, _ := l.Files.ReadDir(dir)
		for _, e := range entries {
			file := l.join(dir, e.Name())
			m := program.FindStringSubmatch(e.Name())
			if m == nil || l.isDir(file) {
				continue
			}
			v, err := sources.ParseVersion(cmp.Or(m[1], "0.0.0"))
			if err == nil && (path == "" || v.Compare(newest) > 0) {
				path, newest = file, v
			}
		}
	}
	return path
}
