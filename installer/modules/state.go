package modules

import (
	"bytes"
	"cmp"
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

	"github.com/larder-cli/larder/installer/hclfile"
	"github.com/larder-cli/larder/sources"
)

// stateFile is the name of a state in the root module. With .d, it is that of the directory of other workspaces.
const stateFile = "terraform.tfstate"

// Limits for a state. Reading one takes up to three times its size in memory, and parsing an address some hundred times
// that of the address.
const (
	maxState     = hclfile.MaxMemory / 3 // in bytes
	maxAddress   = 2 << 10               // in bytes
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
func (w *walk) state(declared *backend) {
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
		w.unread(path.at, `run "`+string(w.opts.Engine)+` init" once, which records the path`,
			"the path of the state is not constant")
		return
	}
	src, err := hclfile.Read(w.path(name), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	at := place{Filename: filepath.Clean(name)}
	s := &state{engine: w.opts.Engine, seen: map[recorded]bool{}}
	if err == nil {
		hclfile.Within(3*int64(len(src)), func() { err = s.read(src) })
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		w.diags.failWith(at, fmt.Errorf("unusable state: %w", err))
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
	w.diags.warn(at, hint,
		"%s: providers that only the state requires are not installed, and their lock entries are kept", why)
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
var recordedForm = sources.Regexp(`^(?:\.module\.[^.[]+)*\.provider(?:\.([^.[]+)|\[\])(?:\.[^.[]+(\[\])?)?$`)

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

	json *json.Decoder
	seen map[recorded]bool
}

// read reads a state. An empty file is an empty state. It keeps one value at a time, so that a short text can't become
// many large values.
func (s *state) read(src []byte) error {
	if len(src) == 0 {
		s.version = 4
		return nil
	}
	if err := sources.CheckText(src[:min(len(src), 3)], false); err != nil {
		return err
	}
	s.json = json.NewDecoder(bytes.NewReader(src))
	err := s.members(map[string]func() error{
		"version":   func() error { return s.json.Decode(&s.version) },
		"resources": func() error { return s.items('[', func(string) error { return s.resource() }) },
		"modules":   func() error { return s.items('[', func(string) error { return s.module() }) }, // of version 3 and older
		"encrypted_data": func() error {
			s.encrypted = true
			return s.skip()
		},
	})
	if err == nil {
		var end json.Token
		if end, err = s.json.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = cmp.Or(err, fmt.Errorf("%v after the end", end))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("unexpected %s", wrong.Value)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// items calls read for each element of a list or member of an object, with its name. Null counts as an empty one.
func (s *state) items(open json.Delim, read func(name string) error) error {
	switch begin, err := s.json.Token(); {
	case err != nil || begin == nil:
		return err
	case begin != open:
		return fmt.Errorf("invalid value %.20q", fmt.Sprint(begin))
	}
	for s.json.More() {
		name := ""
		if open == '{' {
			key, err := s.json.Token()
			if err != nil {
				return err
			}
			name = fmt.Sprint(key)
		}
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := s.json.Token()
	return err
}

// members reads the members of an object for which there is a function, and skips others. As in the engines, the case
// of names is ignored.
func (s *state) members(read map[string]func() error) error {
	return s.items('{', func(name string) error {
		for known, do := range read {
			if strings.EqualFold(name, known) {
				return do()
			}
		}
		return s.skip()
	})
}

// A skipped value is read, and not kept.
type skipped struct{}

// UnmarshalJSON implements [json.Unmarshaler].
func (skipped) UnmarshalJSON([]byte) error { return nil }

func (s *state) skip() error { return s.json.Decode(&skipped{}) }

// module reads a module of version 3 and notes whether it has resources.
func (s *state) module() error {
	return s.members(map[string]func() error{"resources": func() error {
		return s.items('{', func(string) error {
			s.old = true
			return s.skip()
		})
	}})
}

// resource reads a resource and adds the address of its provider. In OpenTofu's
// states the instances may have addresses instead, which differ only in their keys.
func (s *state) resource() error {
	var r, own recorded
	lacks := false // whether an instance has no address
	instance := func(string) error {
		one := recorded{instance: true}
		err := s.members(map[string]func() error{"provider": s.provider(&one)})
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
	members := map[string]func() error{"provider": s.provider(&r)}
	if s.engine == sources.OpenTofu {
		members["instances"] = func() error { return s.items('[', instance) }
	}
	err := s.members(members)
	if err != nil || own.address != "" && (r.address != "" || !lacks) {
		return err
	}
	return s.add(r)
}

// provider reads the address of a provider configuration. It is empty for null.
func (s *state) provider(r *recorded) func() error {
	return func() error {
		r.address = ""
		err := s.json.Decode(&r.address)
		if err == nil && len(r.address) > maxAddress {
			err = fmt.Errorf("a provider address has more than %d bytes", maxAddress)
		}
		return err
	}
}

// add adds an address, unless it is a duplicate.
func (s *state) add(r recorded) error {
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
