package cliconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	answers sources.Memo[sources.Host, hostToken]
}

// token returns the helper's token for a host, or the zero token. It runs the helper only the first time.
func (h *helper) token(ctx context.Context, host sources.Host) (hostToken, error) {
	return h.answers.Get(ctx, host, func() (t hostToken, err error) {
		out, complaint, err := h.program.run(ctx, "", "get", host.ASCII())
		if err != nil {
			err = withText(err, complaint.text())
		} else {
			var object map[string]any
			err = out.parse(&object, "a JSON object")
			t.text, t.set = object["token"].(string)
			h.secrets.Add(t.text)
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("credentials helper %s for %s: %w", h.name, host, err)
		}
		return t, err
	})
}

// A program returns credentials.
type program struct {
	path string
	args []string // before those of each run
	env  []string
	dir  string
	turn *semaphore.Weighted // held during a run: several programs can't prompt a person at a time
}

// run runs the program, with a time limit, and returns the beginning of its output and of its error output.
func (p program) run(ctx context.Context, input string, args ...string) (out, complaint *head, err error) {
	out, complaint = &head{limit: maxAnswer}, &head{limit: maxComplaint}
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return out, complaint, err
	}
	defer p.turn.Release(1)
	limited, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(limited, p.path, slices.Concat(p.args, args)...)
	cmd.Env, cmd.Dir = p.env, p.dir
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

// parse parses the data, which is JSON. Its errors do not quote the data, because that may contain a secret.
func (h *head) parse(to any, what string) error {
	if h.cut {
		return fmt.Errorf("answer is larger than %d bytes", h.limit)
	}
	if json.Unmarshal(h.kept, to) != nil {
		return fmt.Errorf("answer is not %s", what)
	}
	return nil
}

// text returns the data as text, without space around it.
func (h *head) text() string {
	return string(bytes.TrimSpace(bytes.ToValidUTF8(h.kept, []byte("�"))))
}

// chooseHelper sets the credentials helper, if a block names one and its program is installed.
func (l *loader) chooseHelper() {
	b := l.helper
	if b.Line == 0 {
		return
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
	program := program{path, b.args, l.Environ, l.WorkDir, l.config.oci.turn}
	l.config.helper = &helper{name: b.name, program: program, secrets: l.secrets}
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
