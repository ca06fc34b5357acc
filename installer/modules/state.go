package modules

import (
	"bufio"
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
	"github.com/larder-cli/larder/sources/disk"
)

// Limits of a state. Parsing an address takes some hundred times its memory.
const (
	maxState     = 1 << 30 // bytes
	maxAddress   = 2 << 10 // bytes
	maxAddresses = 10_000
)

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
	file, info, err := openFile(w.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	at := place{Filename: filepath.Clean(name)}
	var s state
	if err == nil {
		defer file.Close()
		if info.Size() > maxState {
			err = fmt.Errorf("larger than %d GiB", maxState>>30)
		} else {
			s, err = readState(disk.Reader(ctx, io.LimitReader(file, maxState)))
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

// A state is the part of a state file that matters here.
type state struct {
	version   int
	providers []string // addresses of configurations, each once
	encrypted bool
	old       bool // there are resources in a form older than version 4
}

// readState reads a state. An empty file is an empty state.
func readState(r io.Reader) (state, error) {
	var s state
	in := &jsonReader{Reader: bufio.NewReaderSize(r, 64<<10)}
	if _, err := in.peek(); errors.Is(err, io.EOF) {
		return state{version: 4}, nil
	}
	seen := map[string]bool{}
	err := in.object(func(name string) error { return s.member(in, name, seen) })
	if errors.Is(err, io.EOF) {
		return s, io.ErrUnexpectedEOF
	}
	if err != nil {
		return s, err
	}
	if c, err := in.peek(); !errors.Is(err, io.EOF) {
		return s, cmp.Or(err, unexpected(c))
	}
	return s, nil
}

// member reads the value of a member of the state's outermost object. Engines
// ignore the case of names.
func (s *state) member(in *jsonReader, name string, seen map[string]bool) error {
	switch {
	case strings.EqualFold(name, "version"):
		return s.readVersion(in)
	case strings.EqualFold(name, "resources"):
		return in.list(func(in *jsonReader) error { return s.resource(in, seen) })
	case strings.EqualFold(name, "modules"): // of version 3 and older
		return in.list(s.module)
	case strings.EqualFold(name, "encrypted_data"):
		s.encrypted = true
	}
	return in.skip()
}

func (s *state) readVersion(in *jsonReader) error {
	text, err := in.scalar()
	if err == nil && json.Unmarshal(text, &s.version) != nil {
		err = fmt.Errorf("format version %.20s is not a whole number", text)
	}
	return err
}

func (s *state) module(in *jsonReader) error {
	return in.object(func(name string) error {
		if !strings.EqualFold(name, "resources") {
			return in.skip()
		}
		return in.object(func(string) error {
			s.old = true
			return in.skip()
		})
	})
}

// resource reads a resource, and adds the address of its provider.
func (s *state) resource(in *jsonReader, seen map[string]bool) error {
	address := ""
	err := in.object(func(name string) (err error) {
		if !strings.EqualFold(name, "provider") {
			return in.skip()
		}
		short := false
		if address, short, err = in.text(maxAddress); err == nil && !short {
			err = fmt.Errorf("a provider address has more than %d bytes", maxAddress)
		}
		return err
	})
	if err != nil || seen[address] {
		return err
	}
	if len(seen) == maxAddresses {
		return fmt.Errorf("more than %d provider addresses", maxAddresses)
	}
	seen[address] = true
	s.providers = append(s.providers, address)
	return nil
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
