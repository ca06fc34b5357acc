package cliconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// An ociConfig determines the credentials for OCI registries. All Configs of a [Load] share it.
type ociConfig struct {
	blocks   []ociBlock
	defaults ociDefaults

	tokenServers map[sources.Host]sources.Host // by registry, of Larder's own files

	problems sources.Diagnostics // in the blocks; Terraform ignores them

	machine Machine
	secrets *sources.Secrets
	turn    *semaphore.Weighted // of all helpers
	docker  sources.Memo[struct{}, dockerFiles]
	answers sources.Memo[[2]string, oci.Credentials] // of helpers, by their names and the registry
}

func newOCIConfig(m Machine, secrets *sources.Secrets) *ociConfig {
	return &ociConfig{
		machine: m, secrets: secrets, turn: semaphore.NewWeighted(1), defaults: ociDefaults{ambient: true},
		tokenServers: map[sources.Host]sources.Host{},
	}
}

// OCICredentials returns the credentials for a repository, or zero Credentials if there are none. It chooses among the
// CLI configuration, Docker-style files and credential helpers as OpenTofu does: the most specific ones, and the
// first of equally specific ones. It reads the files once, and runs a helper once for each registry.
func (c *Config) OCICredentials(ctx context.Context, r oci.Repository) (oci.Credentials, error) {
	if err := c.oci.problems.Err(); err != nil {
		return oci.Credentials{}, err
	}
	chosen, err := c.oci.choose(ctx, r)
	switch {
	case err != nil:
		return oci.Credentials{}, err
	case chosen.rank > 0 && chosen.err != nil:
		return oci.Credentials{}, sources.WithHint(chosen.err, "log in to %s again", r.Registry)
	case chosen.helper != "":
		return c.oci.ask(ctx, chosen, r.Registry)
	case chosen.credentials == oci.Credentials{From: chosen.from}:
		return oci.Credentials{}, nil
	}
	return chosen.credentials, nil
}

// A candidate is one of the credentials for a repository. Its rank is 0 if there are none.
type candidate struct {
	rank        int             // how specific they are
	credentials oci.Credentials // unless there is a helper
	helper      string          // name of a Docker credential helper
	from        string          // where they are configured
	err         error           // why credentials for the repository are not valid, these or others
	ignored     error           // why all files at the usual paths are ignored
}

// Ranks of candidates. Those for the beginning of a path have one more for each segment.
const (
	ofAll      = 1
	ofRegistry = 2
)

// choose returns the credentials to use for a repository. Its error is about files, and that of the candidate about
// entries.
func (o *ociConfig) choose(ctx context.Context, r oci.Repository) (best candidate, err error) {
	docker, err := o.docker.Get(ctx, struct{}{}, func() (dockerFiles, error) { return o.readDocker(ctx) })
	if err != nil {
		return best, err
	}
	var problem error
	consider := func(c candidate) {
		problem = cmp.Or(problem, c.err)
		if c.err == nil && c.rank > best.rank && c.helper+c.credentials.From != "" {
			best = c
		}
	}
	for _, b := range o.blocks {
		if segments, ok := b.of.Covers(r); ok {
			consider(candidate{rank: ofRegistry + segments, credentials: b.credentials, helper: b.helper, from: b.credentials.From})
		}
	}
	defaults := "the " + ociDefaultsName + " block at " + o.defaults.Place.String()
	consider(candidate{rank: ofAll, helper: o.defaults.helper, from: defaults})
	for _, f := range docker.files {
		f.candidates(r, consider)
	}
	best.err, best.ignored = problem, docker.fault
	return best, nil
}

// dockerProgram returns the name of the program of a Docker credential helper.
func dockerProgram(helper string) string { return "docker-credential-" + helper }

// isDockerHelper reports whether the name of a Docker credential helper can be part of a file name.
func (m Machine) isDockerHelper(name string) bool {
	return name != "" && !strings.ContainsAny(name, m.ForOS(`/\`, "/"))
}

// ask returns the answer of a Docker credential helper for a registry. It runs the program only the first time.
func (o *ociConfig) ask(ctx context.Context, chosen candidate, registry string) (oci.Credentials, error) {
	return o.answers.Get(ctx, [2]string{chosen.helper, registry}, func() (oci.Credentials, error) {
		found, err := o.runDocker(ctx, chosen.helper, registry)
		if err != nil && ctx.Err() == nil {
			advice := "log in to " + registry + " again"
			if errors.Is(err, errNoHelper) {
				advice = "install this credential helper"
			}
			err = fmt.Errorf("%s for %s: %w", dockerProgram(chosen.helper), registry, err)
			err = sources.WithHint(err, "%s, or change %s, which names the helper", advice, chosen.from)
		}
		return found, err
	})
}

// noDockerCredentials is what a Docker credential helper prints if it has no credentials.
const noDockerCredentials = "credentials not found in native keychain"

// runDocker runs a Docker credential helper, by the protocol of https://github.com/docker/docker-credential-helpers.
func (o *ociConfig) runDocker(ctx context.Context, helper, registry string) (found oci.Credentials, err error) {
	path, err := o.machine.dockerHelper(helper)
	if err != nil {
		return found, err
	}
	program := program{path, nil, o.machine.Environ, o.machine.WorkDir, o.turn}
	out, complaint, err := program.run(ctx, "https://"+registry, "get")
	text := out.text() // the protocol has messages in the output
	if _, failed := errors.AsType[*exec.ExitError](err); failed && text == noDockerCredentials {
		return found, nil
	}
	if text == "" || strings.HasPrefix(text, "{") {
		text = complaint.text()
	}
	if err != nil {
		return found, withText(err, text)
	}
	var answer struct{ Username, Secret string }
	if err := out.parse(&answer, "a JSON object with Username and Secret"); err != nil {
		return found, err
	}
	o.secrets.Add(answer.Secret, basic(answer.Username, answer.Secret))
	switch {
	case answer.Username == "" && answer.Secret == "":
	case answer.Username == "<token>": // by the protocol
		found = oci.Credentials{RefreshToken: answer.Secret, From: dockerProgram(helper)}
	default:
		found = oci.Credentials{Username: answer.Username, Password: answer.Secret, From: dockerProgram(helper)}
	}
	return found, nil
}

// dockerHelper returns the path of the program of a Docker credential helper.
func (m Machine) dockerHelper(name string) (string, error) {
	if !m.isDockerHelper(name) {
		return "", fmt.Errorf("%.40q can't be the name of a credential helper", name)
	}
	for _, path := range m.Programs(dockerProgram(name)) {
		if info, err := m.Files.Stat(path); err == nil && (m.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return path, nil
		}
	}
	return "", errNoHelper
}

var errNoHelper = errors.New("PATH has no program of this name")

// OCITokenServer returns the server, as HOST or HOST:PORT, that may get the credentials for a registry although it is
// not in its domain, or nothing.
func (c *Config) OCITokenServer(registry string) string {
	host, err := sources.ParseHost(registry)
	if err != nil {
		return ""
	}
	return c.oci.tokenServers[host].ASCII()
}

// OCIHint is what to do about the refusal of a request about a repository, with or without credentials sent.
func (c *Config) OCIHint(r oci.Repository, sent bool) string {
	ctx := context.Background() // nearly always, the files have been read
	chosen, err := c.oci.choose(ctx, r)
	if err != nil {
		return ""
	}
	rights := ""
	if r.Registry == "ghcr.io" {
		rights = "; a token of GitHub needs the scope read:packages, and write:packages to push"
	}
	from := chosen.from
	if chosen.helper != "" {
		from = fmt.Sprintf("%s (named by %s)", dockerProgram(chosen.helper), from)
	}
	switch {
	case sent:
		return fmt.Sprintf("check the credentials for %s from %s: the registry refused them; they may have expired, or lack access to this repository%s", r.Registry, from, rights)
	case chosen.credentials.From != "":
		return fmt.Sprintf("check the name of the repository: the registry refused the request before it got the credentials for %s from %s", r.Registry, from)
	case chosen.helper != "":
		return fmt.Sprintf("%s has no credentials for %s: log in with it, or %s%s", from, r.Registry, c.ociAdvice(r.Registry), rights)
	case chosen.err != nil:
		return fmt.Sprintf("%v: %s%s", chosen.err, c.ociAdvice(r.Registry), rights)
	case chosen.ignored != nil:
		return fmt.Sprintf("repair or remove a file with an error, "+
			"which makes Larder and OpenTofu ignore all files of Docker and Podman: %v", chosen.ignored)
	}
	return c.ociAdvice(r.Registry) + rights
}

// ociAdvice is how to configure credentials for a registry. The programs that log in write to files that are only read
// by default. Docker and ORAS write those of Docker Hub under the name of a URL, which OpenTofu skips.
func (c *Config) ociAdvice(registry string) string {
	advice := fmt.Sprintf("add %s %q { username = \"USER\" password = \"PASSWORD\" } to %s", ociBlockName, registry, c.fileToEdit())
	switch {
	case !c.oci.defaults.ambient || c.oci.defaults.explicit:
		return advice
	case registry == "docker.io":
		return "log in with podman login docker.io, or " + advice
	}
	return fmt.Sprintf("log in with docker login %[1]s, podman login %[1]s or oras login %[1]s, or %[2]s", registry, advice)
}
