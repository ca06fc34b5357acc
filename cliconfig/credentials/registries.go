package credentials

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// Registries determine the credentials for OCI registries.
type Registries struct {
	Blocks   []Block
	Defaults Defaults
	Usual    []string // paths of Docker-style files that are read without other Defaults

	ReadFile func(ctx context.Context, path string, limit int64) ([]byte, error) // at most limit bytes
	Find     func(helper string) (path string, err error)                        // of its program; empty if there is none
	Programs *Programs

	docker  sources.Memo[struct{}, dockerFiles]
	answers sources.Memo[[2]string, oci.Credentials] // of helpers, by their names and the registry
}

// A Block is an oci_credentials block.
type Block struct {
	Of          oci.Repository  // the registry, or the beginning of the path of repositories there
	Credentials oci.Credentials // unless there is a helper; From names the block
	Helper      string          // name of a Docker credential helper
}

// Defaults are an oci_default_credentials block, or the defaults without one.
type Defaults struct {
	Place    string   // where the block is; empty if there is none
	Ambient  bool     // whether to read files of Docker and Podman
	Explicit bool     // read these files, and not those at the usual paths
	Files    []string // absolute
	Helper   string   // name of a Docker credential helper
}

// Credentials returns the credentials for a repository, or zero Credentials if there are none. It chooses among the
// CLI configuration, Docker-style files and credential helpers as OpenTofu does: the most specific ones, and the
// first of equally specific ones. It reads the files once, and runs a helper once for each registry.
func (o *Registries) Credentials(ctx context.Context, r oci.Repository) (oci.Credentials, error) {
	chosen, err := o.Choose(ctx, r)
	switch {
	case err != nil:
		return oci.Credentials{}, err
	case chosen.rank > 0 && chosen.Err != nil:
		return oci.Credentials{}, sources.WithHint(chosen.Err, "log in to %s again", r.Registry)
	case chosen.Helper != "":
		return o.ask(ctx, chosen, r.Registry)
	case chosen.credentials == oci.Credentials{From: chosen.From}:
		return oci.Credentials{}, nil
	}
	return chosen.credentials, nil
}

// A Choice is one of the credentials for a repository.
type Choice struct {
	Helper  string // name of a Docker credential helper; empty if there is none
	From    string // where they are configured; empty if there are none
	Err     error  // why credentials for the repository are not valid, these or others
	Ignored error  // why all files at the usual paths are ignored

	rank        int             // how specific they are; 0 if there are none
	credentials oci.Credentials // unless there is a helper
}

// Known reports whether the configuration contains the credentials.
func (c Choice) Known() bool { return c.credentials.From != "" }

// Ranks of choices. Those for the beginning of a path have one more for each segment.
const (
	ofAll      = 1
	ofRegistry = 2
)

// Choose returns the credentials to use for a repository. Its error is about files, and that of the Choice about
// entries.
func (o *Registries) Choose(ctx context.Context, r oci.Repository) (best Choice, err error) {
	docker, err := o.docker.Get(ctx, struct{}{}, func() (dockerFiles, error) { return o.readDocker(ctx) })
	if err != nil {
		return best, err
	}
	var problem error
	consider := func(c Choice) {
		problem = cmp.Or(problem, c.Err)
		if c.Err == nil && c.rank > best.rank && c.Helper+c.credentials.From != "" {
			best = c
		}
	}
	for _, b := range o.Blocks {
		if segments, ok := b.Of.Covers(r); ok {
			consider(Choice{rank: ofRegistry + segments, credentials: b.Credentials, Helper: b.Helper, From: b.Credentials.From})
		}
	}
	from := "the oci_default_credentials block at " + o.Defaults.Place
	consider(Choice{rank: ofAll, Helper: o.Defaults.Helper, From: from})
	for _, f := range docker.files {
		f.candidates(r, consider)
	}
	best.Err, best.Ignored = problem, docker.fault
	return best, nil
}

// ProgramName returns the name of the program of a Docker credential helper.
func ProgramName(helper string) string { return "docker-credential-" + helper }

// ask returns the answer of a Docker credential helper for a registry. It runs the program only the first time.
func (o *Registries) ask(ctx context.Context, chosen Choice, registry string) (oci.Credentials, error) {
	return o.answers.Get(ctx, [2]string{chosen.Helper, registry}, func() (oci.Credentials, error) {
		found, err := o.runDocker(ctx, chosen.Helper, registry)
		if err != nil && ctx.Err() == nil {
			advice := "log in to " + registry + " again"
			if errors.Is(err, errNoHelper) {
				advice = "install this credential helper"
			}
			err = fmt.Errorf("%s for %s: %w", ProgramName(chosen.Helper), registry, err)
			err = sources.WithHint(err, "%s, or change %s, which names the helper", advice, chosen.From)
		}
		return found, err
	})
}

// noDockerCredentials is what a Docker credential helper prints if it has no credentials.
const noDockerCredentials = "credentials not found in native keychain"

// runDocker runs a Docker credential helper, by the protocol of https://github.com/docker/docker-credential-helpers.
func (o *Registries) runDocker(ctx context.Context, helper, registry string) (found oci.Credentials, err error) {
	path, err := o.Find(helper)
	if err != nil {
		return found, err
	} else if path == "" {
		return found, errNoHelper
	}
	out, complaint, err := o.Programs.run(ctx, "https://"+registry, path, "get")
	said := text(out) // the protocol has messages in the output
	if _, failed := errors.AsType[*exec.ExitError](err); failed && said == noDockerCredentials {
		return found, nil
	}
	if said == "" || strings.HasPrefix(said, "{") {
		said = text(complaint)
	}
	if err != nil {
		return found, withText(err, said)
	}
	var answer struct{ Username, Secret string }
	if err := parse(out, &answer, "a JSON object with Username and Secret"); err != nil {
		return found, err
	}
	o.Programs.secrets.Add(answer.Secret, Basic(answer.Username, answer.Secret))
	switch {
	case answer.Username == "" && answer.Secret == "":
	case answer.Username == "<token>": // by the protocol
		found = oci.Credentials{RefreshToken: answer.Secret, From: ProgramName(helper)}
	default:
		found = oci.Credentials{Username: answer.Username, Password: answer.Secret, From: ProgramName(helper)}
	}
	return found, nil
}

var errNoHelper = errors.New("PATH has no program of this name")

// Basic returns a user and a password as Docker stores and sends them.
func Basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}
