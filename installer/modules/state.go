package modules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources"
)

// maxState bounds the size of a state, of which only one resource at a time is
// held in memory.
const maxState = 1 << 30

// A backend says where the state is. Only local ones matter here.
type backend struct {
	kind         string
	path         string // of the state of the default workspace; may be empty
	workspaceDir string // of the states of the others; may be empty
}

// state adds the providers that the state of the current workspace records, if
// it is on this machine.
func (w *walk) state(ctx context.Context, b *backend) {
	if b == nil {
		b = w.initialisedBackend()
	}
	workspace, ok := w.workspace()
	if b.kind != "local" || !ok {
		return
	}
	name := cmp.Or(b.path, "terraform.tfstate")
	if workspace != "default" {
		name = filepath.Join(cmp.Or(b.workspaceDir, "terraform.tfstate.d"), workspace, "terraform.tfstate")
	}
	file, err := openFile(w.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	at := place{Filename: filepath.Clean(name)}
	var s state
	if err == nil {
		defer file.Close()
		limited := &io.LimitedReader{R: file, N: maxState}
		if s, err = readState(ctx, limited); limited.N == 0 {
			err = fmt.Errorf("larger than %d GiB", maxState>>30)
		}
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		w.diags.failWith(at, fmt.Errorf("unusable state: %w", err))
		return
	}
	if s.encrypted {
		w.diags.warn(at, "", "the state is encrypted: providers that only it records are not considered")
	}
	for _, recorded := range s.providers {
		w.recorded(at, recorded)
	}
}

// initialisedBackend is the backend that the engine last used here.
func (w *walk) initialisedBackend() *backend {
	name := filepath.Join(w.opts.DataDir, "terraform.tfstate")
	src, err := readFile(w.path(name))
	var document struct {
		Backend *struct {
			Type   string
			Config struct {
				Path         string
				WorkspaceDir string `json:"workspace_dir"`
			}
		}
	}
	if err == nil {
		// That of another backend may have other types in its place.
		err = json.Unmarshal(src, &document)
	}
	if b := document.Backend; b != nil {
		return &backend{b.Type, b.Config.Path, b.Config.WorkspaceDir}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.diags.fail(place{Filename: name}, "", "backend settings: %v", err)
	}
	return &backend{kind: "local"}
}

const maxWorkspace = 255 // bytes in the name of a directory

// workspace is the current workspace.
func (w *walk) workspace() (string, bool) {
	name, at := w.opts.Workspace, place{}
	if name == "" {
		at.Filename = filepath.Join(w.opts.DataDir, "environment")
		src, err := readFile(w.path(at.Filename))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.diags.fail(at, "", "selected workspace: %v", err)
			return "", false
		}
		name = cmp.Or(strings.TrimSpace(string(src)), "default")
	}
	// It becomes part of a path.
	if len(name) > maxWorkspace || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		w.diags.fail(at, "", "workspace %.80q: not a name that a workspace can have", name)
		return "", false
	}
	return name, true
}

// recorded adds a provider that a state records.
func (w *walk) recorded(at place, s string) {
	p, err := stateProvider(s, w.opts.Engine)
	if err != nil {
		w.diags.failWith(at, fmt.Errorf("unusable state: %w", err))
		return
	}
	if w.opts.Engine == sources.OpenTofu && !w.opts.KeepStateAddresses && w.needs[p] == nil &&
		p.Host == sources.Terraform.DefaultHost() {
		p.Host = sources.OpenTofu.DefaultHost()
	}
	w.require([]need{{provider: p, at: at}})
}

// stateProvider is the provider in a state's address of a configuration for it,
// such as module.a.provider["registry.terraform.io/hashicorp/aws"].west.
func stateProvider(s string, e sources.Engine) (sources.Provider, error) {
	unreadable := fmt.Errorf("provider %q is no address", s)
	steps, diags := hclsyntax.ParseTraversalAbs([]byte(s), "", hcl.InitialPos)
	if diags.HasErrors() {
		return sources.Provider{}, unreadable
	}
	for len(steps) > 2 && stepName(steps[0]) == "module" {
		steps = steps[2:]
	}
	if len(steps) < 2 || stepName(steps[0]) != "provider" {
		return sources.Provider{}, unreadable
	}
	switch next := steps[1].(type) {
	case hcl.TraverseIndex:
		if next.Key.Type() == cty.String {
			return sources.ParseProvider(next.Key.AsString(), e)
		}
	case hcl.TraverseAttr:
		return sources.Provider{Host: e.DefaultHost(), Namespace: "-", Type: next.Name}, nil
	}
	return sources.Provider{}, unreadable
}

func stepName(step hcl.Traverser) string {
	switch step := step.(type) {
	case hcl.TraverseRoot:
		return step.Name
	case hcl.TraverseAttr:
		return step.Name
	default:
		return ""
	}
}

// A state is what we need of one.
type state struct {
	version   int
	providers []string // addresses of configurations, each once
	encrypted bool
	old       bool // there are resources in a form older than version 4
}

// readState reads a state. An empty file is an empty state.
func readState(ctx context.Context, r io.Reader) (state, error) {
	var s state
	dec := json.NewDecoder(r)
	switch start, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return state{version: 4}, nil
	case err != nil:
		return s, err
	case start != json.Delim('{'):
		return s, errors.New("not a JSON object")
	}
	for dec.More() {
		if err := s.member(ctx, dec); err != nil {
			return s, whole(err)
		}
	}
	_, err := dec.Token()
	return s, whole(err)
}

// whole tells an end too early from one that is due.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// member reads a member of the state's outermost object.
func (s *state) member(ctx context.Context, dec *json.Decoder) error {
	key, err := dec.Token()
	if err != nil {
		return err
	}
	switch key {
	case "version":
		return dec.Decode(&s.version)
	case "resources":
		return s.resources(ctx, dec)
	case "modules": // of version 3 and older
		var modules []struct{ Resources map[string]json.RawMessage }
		err := dec.Decode(&modules)
		for _, m := range modules {
			s.old = s.old || len(m.Resources) > 0
		}
		return err
	case "encrypted_data":
		s.encrypted = true
	}
	return dec.Decode(&json.RawMessage{})
}

// resources reads the list of resources, one at a time.
func (s *state) resources(ctx context.Context, dec *json.Decoder) error {
	start, err := dec.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errors.New("resources are not a list")
	}
	seen := map[string]bool{}
	for dec.More() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var resource struct{ Provider string }
		if err := dec.Decode(&resource); err != nil {
			return err
		}
		if !seen[resource.Provider] {
			seen[resource.Provider] = true
			s.providers = append(s.providers, resource.Provider)
		}
	}
	_, err = dec.Token()
	return err
}

// check refuses what other releases of the engine wrote.
func (s *state) check() error {
	switch {
	case s.encrypted:
		return nil
	case s.version < 1:
		return errors.New("no format version")
	case s.version > 4:
		return fmt.Errorf("format version %d is newer than any known", s.version)
	case s.version < 4 && s.old:
		return sources.WithHint(fmt.Errorf("providers in format version %d have no namespace", s.version),
			"upgrade it by applying once with Terraform 0.13")
	default:
		return nil
	}
}
