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
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// stateFile is the name of a state in the root module. With .d, it is that of the directory of other workspaces.
const stateFile = "terraform.tfstate"

// Limits for a state. Parsing an address takes some hundred times its size in memory.
const (
	maxState     = 1 << 30 // in bytes
	maxAddress   = 2 << 10 // in bytes
	maxAddresses = 10_000
)

// A backend is the configuration of the state's location.
type backend struct {
	kind         string
	path         statePath // path of the default workspace's state, for a local backend
	workspaceDir statePath // directory of the other workspaces' states, for a local backend
}

// A statePath is a path in the configuration of a backend. Without a text it is the
// default.
type statePath struct {
	text    string
	dynamic bool // it depends on variables or functions
	invalid bool // it is a constant, but not a path
	at      place
}

// newStatePath returns the value of an argument, or the default one if attr is nil.
func newStatePath(attr *hcl.Attribute) statePath {
	if attr == nil {
		return statePath{}
	}
	v := constant(attr.Expr)
	if v == cty.NilVal {
		return statePath{dynamic: true, at: attr.Expr.Range()}
	}
	s, ok := primitive(v)
	return statePath{text: s, invalid: !v.IsNull() && (!ok || s == ""), at: attr.Expr.Range()}
}

// state adds the providers that the state of the current workspace records. If the
// state cannot be read, it notes that there may be others.
func (w *walk) state(ctx context.Context, declared *backend) {
	if w.noDataDir || w.full { // it names the state
		return
	}
	b, ok := w.backend(declared)
	workspace, named := w.workspace()
	if !ok || !named {
		return
	}
	if b.kind != "local" {
		w.tree.StateUnread = true
		return
	}
	path, name := b.path, cmp.Or(b.path.text, stateFile)
	if workspace != "default" {
		path, name = b.workspaceDir, filepath.Join(cmp.Or(b.workspaceDir.text, stateFile+".d"), workspace, stateFile)
	}
	if path.dynamic {
		w.unread(path.at, `run "`+string(w.opts.Engine)+` init" once, which records the path`, "the path of the state is not constant")
		return
	}
	file, info, err := disk.OpenFile(w.path(name))
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
			s, err = readState(disk.Reader(ctx, io.LimitReader(file, maxState)), w.opts.Engine)
		}
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		w.diags.failWith(at, fmt.Errorf("unusable state: %w", disk.Cause(err)))
		return
	}
	if s.encrypted && w.opts.Engine == sources.OpenTofu {
		w.unread(at, "", "the state is encrypted")
	}
	for _, r := range s.providers {
		w.recorded(at, r)
	}
}

// unread notes that the state cannot be read, and adds a warning.
func (w *walk) unread(at place, hint, why string) {
	w.tree.StateUnread = true
	w.diags.warn(at, hint, "%s: providers that only the state requires are not installed, and their lock entries are kept", why)
}

// backend returns the backend to use: the declared one, with the paths with which it
// was initialized, or the initialized one if none is declared.
func (w *walk) backend(declared *backend) (b *backend, ok bool) {
	if declared != nil {
		for _, p := range []statePath{declared.path, declared.workspaceDir} {
			if p.invalid || p.dynamic && w.opts.Engine == sources.Terraform {
				w.diags.fail(p.at, "", "the path of the state is not a constant string")
				return nil, false
			}
		}
	}
	initialized, ok := w.initializedBackend()
	if !ok {
		return nil, false
	}
	// The state of another backend will be migrated to the declared one.
	w.tree.StateUnread = initialized != nil && initialized.kind != "local"
	switch {
	case initialized == nil:
		return cmp.Or(declared, &backend{kind: "local"}), true
	case declared == nil || declared.kind == initialized.kind:
		return initialized, true
	default:
		return declared, true
	}
}

// initializedBackend returns the backend that the engine last used here, or nil if
// there is none.
func (w *walk) initializedBackend() (b *backend, ok bool) {
	name := filepath.Join(w.opts.DataDir, stateFile)
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
		err = sources.CheckText(src, false)
	}
	if err == nil {
		// The configuration of another backend may have other types.
		err = json.Unmarshal(src, &document)
	}
	if b := document.Backend; b != nil {
		return &backend{b.Type, statePath{text: b.Config.Path}, statePath{text: b.Config.WorkspaceDir}}, true
	}
	empty := len(src) == 0 && w.opts.Engine == sources.OpenTofu
	if err != nil && !empty && !errors.Is(err, fs.ErrNotExist) {
		w.diags.failWith(place{Filename: name}, fmt.Errorf("backend settings: %w", err))
		return nil, false
	}
	return nil, true
}

const maxWorkspace = 255 // bytes in the name of a directory

// workspace returns the current workspace.
func (w *walk) workspace() (string, bool) {
	name, at := w.opts.Workspace, place{}
	hint := "set TF_WORKSPACE to the name of a workspace, or unset it"
	valid := name == url.PathEscape(name)
	if name == "" {
		hint = `select a workspace with "` + string(w.opts.Engine) + ` workspace select"`
		at.Filename = filepath.Join(w.opts.DataDir, "environment")
		src, err := readFile(w.path(at.Filename))
		if err == nil {
			err = sources.CheckText(src, true)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.diags.failWith(at, fmt.Errorf("selected workspace: %w", err))
			return "", false
		}
		name = cmp.Or(strings.TrimSpace(string(src)), "default")
	}
	// The name becomes part of a path.
	if !valid || len(name) > maxWorkspace || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		w.diags.fail(at, hint, "workspace %.80q: not a valid workspace name", name)
		return "", false
	}
	return name, true
}

// recorded adds a provider that a state records. Terraform ignores resources with an
// invalid address.
func (w *walk) recorded(at place, r recorded) {
	p, err := r.provider(w.opts.Engine)
	legacy := p
	if err != nil {
		legacy, _ = r.provider(sources.Terraform)
	}
	switch {
	case err != nil && w.opts.Engine == sources.Terraform:
		w.diags.warn(at, "", "ignored resources in the state: %v", err)
		return
	case legacy.Legacy():
		w.diags.fail(at, w.renaming(legacy), "provider %s has no namespace, as in Terraform 0.12", legacy)
		return
	case err != nil:
		w.diags.failWith(at, fmt.Errorf("unusable state: %w", err))
		return
	}
	if w.opts.Engine == sources.OpenTofu && !w.opts.KeepStateAddresses && w.needs[p] == nil &&
		p.Host == sources.Terraform.DefaultHost() {
		p.Host = sources.OpenTofu.DefaultHost()
	}
	w.require(call{dir: "."}, []need{{provider: p, at: at}})
}

// renaming returns the hint for a provider without a namespace in the state. OpenTofu can't read the addresses that
// Terraform has written.
func (w *walk) renaming(old sources.Provider) string {
	e, reason := w.opts.Engine, ""
	if old.Host != e.DefaultHost() {
		e, reason = sources.Terraform, `"tofu state replace-provider" can't read this state: `
	}
	meant := sources.Provider{Host: old.Host, Namespace: "hashicorp", Type: old.Type}
	required := slices.SortedFunc(maps.Keys(w.needs), sources.Provider.Compare)
	if i := slices.IndexFunc(required, func(p sources.Provider) bool { return p.Type == old.Type }); i >= 0 {
		meant = required[i]
	}
	return fmt.Sprintf("%srun %s state replace-provider %q %q", reason, e, old, meant)
}

// A recorded is the address of a provider configuration in a state, such as
// module.a.provider["registry.terraform.io/hashicorp/aws"].west.
type recorded struct {
	address  string
	instance bool // from an instance of a resource; only then the configuration may have a key
}

// configuration returns the address of the configuration, without its key and without
// the end of the provider's name.
func (r recorded) configuration() string {
	name, rest, _ := strings.Cut(r.address, `"]`)
	alias, _, _ := strings.Cut(rest, "[")
	return name + alias
}

// recordedForm is the form of an address, with [] for each key: the modules, the provider, which
// has only a type before Terraform 0.13, and the alias with its key.
var recordedForm = lazily(`^(?:\.module\.[^.[]+)*\.provider(?:\.([^.[]+)|\[\])(?:\.[^.[]+(\[\])?)?$`)

// provider returns the provider in the address.
func (r recorded) provider(e sources.Engine) (sources.Provider, error) {
	steps, diags := hclsyntax.ParseTraversalAbs([]byte(r.address), "", hcl.InitialPos)
	form, keys := "", []cty.Value{}
	for _, step := range steps {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			form += "." + step.Name
		case hcl.TraverseAttr:
			form += "." + step.Name
		case hcl.TraverseIndex:
			form, keys = form+"[]", append(keys, step.Key)
		}
	}
	parts := recordedForm().FindStringSubmatch(form)
	switch {
	case diags.HasErrors() || parts == nil || parts[2] != "" && !r.instance:
	case parts[1] != "":
		return sources.Provider{Host: e.DefaultHost(), Namespace: "-", Type: parts[1]}, nil
	case keys[0].Type() == cty.String:
		return sources.ParseProvider(keys[0].AsString(), e)
	}
	return sources.Provider{}, fmt.Errorf("provider %q is not an address", r.address)
}

// A state is the part of a state file that this package reads.
type state struct {
	engine    sources.Engine // the engine whose rules apply
	version   int
	providers []recorded // without duplicates
	encrypted bool
	old       bool // there are resources in a format older than version 4
}

// A stateReader reads a state.
type stateReader struct {
	jsonReader
	state
	seen map[recorded]bool
}

// readState reads a state. An empty file is an empty state.
func readState(r io.Reader, e sources.Engine) (state, error) {
	s := &stateReader{
		jsonReader: jsonReader{Reader: bufio.NewReaderSize(r, 64<<10)},
		state:      state{engine: e},
		seen:       map[recorded]bool{},
	}
	begin, err := s.Peek(3)
	if len(begin) == 0 && errors.Is(err, io.EOF) {
		return state{engine: e, version: 4}, nil
	}
	if err := sources.CheckText(begin, false); err != nil {
		return s.state, err
	}
	err = s.object(
		member{"version", s.readVersion},
		member{"resources", func() error { return s.list(s.resource) }},
		member{"modules", func() error { return s.list(s.module) }}, // of version 3 and older
		member{"encrypted_data", func() error {
			s.encrypted = true
			return s.skip()
		}},
	)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		var c byte
		if c, err = s.peek(); errors.Is(err, io.EOF) {
			return s.state, nil
		}
		err = cmp.Or(err, unexpected(c))
	}
	return s.state, err
}

func (s *stateReader) readVersion() error {
	text, err := s.scalar()
	if err == nil && json.Unmarshal(text, &s.version) != nil {
		err = fmt.Errorf("format version %.20s is not a whole number", text)
	}
	return err
}

// module reads a module of version 3 and notes whether it has resources.
func (s *stateReader) module() error {
	return s.object(member{"resources", func() error {
		return s.items('{', func(r *jsonReader, _ []byte) error {
			s.old = true
			return r.skip()
		})
	}})
}

// resource reads a resource and adds the address of its provider. In OpenTofu's
// states the instances may have addresses instead, which differ only in their keys.
func (s *stateReader) resource() error {
	var r, own recorded
	lacks := false // whether an instance has no address
	instance := func() error {
		one := recorded{instance: true}
		err := s.object(s.provider(&one))
		if err != nil || one.address == "" {
			lacks = true
			return err
		}
		if own.address != "" && own.configuration() != one.configuration() {
			return fmt.Errorf("instances of one resource have the providers %q and %q", own.address, one.address)
		}
		own = one
		return s.add(own)
	}
	members := []member{s.provider(&r)}
	if s.engine == sources.OpenTofu {
		members = append(members, member{"instances", func() error { return s.list(instance) }})
	}
	err := s.object(members...)
	if err != nil || own.address != "" && (r.address != "" || !lacks) {
		return err
	}
	return s.add(r)
}

// provider reads the address of a provider configuration. It is empty for null.
func (s *stateReader) provider(r *recorded) member {
	return member{"provider", func() error {
		r.address = ""
		if c, err := s.peek(); err == nil && c == 'n' {
			_, err := s.scalar()
			return err
		}
		address, err := s.text(maxAddress)
		if err == nil && address == nil {
			err = fmt.Errorf("a provider address has more than %d bytes", maxAddress)
		}
		r.address = string(address)
		return err
	}}
}

// add adds an address, unless it is a duplicate.
func (s *stateReader) add(r recorded) error {
	if s.seen[r] {
		return nil
	}
	if len(s.seen) == maxAddresses {
		return fmt.Errorf("more than %d provider addresses", maxAddresses)
	}
	s.seen[r] = true
	s.providers = append(s.providers, r)
	return nil
}

// check returns an error for a state in a format that the engine cannot read.
func (s *state) check() error {
	switch {
	case s.encrypted && s.engine == sources.OpenTofu:
		return nil
	case s.encrypted && s.version < 1:
		return errors.New("it is encrypted; only OpenTofu can read it")
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
