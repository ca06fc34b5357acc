package site

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// PolicyFor returns the rules for the root module in dir: those of the site, of the user, and of the repository,
// from its top down to dir. It is nil if there are none.
func (s *Site) PolicyFor(dir string, config *cliconfig.Config) (*policy.Policy, error) {
	files, err := s.FilesFor(dir)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(config.Policy)
	for _, f := range slices.Backward(files) {
		rules = append(rules, f.Checkout.Policy...)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	p := &policy.Policy{Rules: rules}
	if n := len(p.DeclaredPlatforms()); n > cliconfig.MaxPlatforms { // each is work, and a checkout may have many files
		const text = "the policies for %s declare %d platforms; at most %d are allowed"
		return nil, fmt.Errorf(text, dir, n, cliconfig.MaxPlatforms)
	}
	return p, nil
}

// NamedHosts returns the hosts of the default registries, and those that the CLI configuration or the policy names.
func (m *Root) NamedHosts() []sources.Host {
	all := []sources.Host{sources.Terraform.DefaultHost(), sources.OpenTofu.DefaultHost()}
	return slices.Concat(all, m.Config.NamedHosts(), m.Policy.NamedHosts())
}

// CheckOverrides returns an error if the policy doesn't allow what replaces the packages of a provider for the engine.
// The root module may not require the provider: a state that larder doesn't read may.
func (m *Root) CheckOverrides(ctx context.Context) error {
	config := m.Config
	if m.Flags.Config != "" { // the engine reads another one
		options := m.configOptions()
		options.ConfigFile = ""
		loaded, ds := cliconfig.Load(ctx, m.Machine, config.Engine, options)
		if err := ds.Err(); err != nil {
			return err
		}
		config = loaded.At(m.Dir)
	}
	all := slices.AppendSeq(slices.Clone(config.Unmanaged), maps.Keys(config.DevOverrides))
	slices.SortFunc(all, sources.Provider.Compare)
	var errs []error
	for _, p := range slices.Compact(all) {
		errs = append(errs, m.CheckOverride(config, p))
	}
	return errors.Join(errs...)
}

// CheckOverride returns an error if the policy doesn't allow what replaces the packages of a provider: a directory of
// dev_overrides, or a running program.
func (m *Root) CheckOverride(config *cliconfig.Config, p sources.Provider) error {
	by, hint := "", ""
	switch dir := config.DevOverrides[p]; {
	case slices.Contains(config.Unmanaged, p):
		by, hint = "the running program in TF_REATTACH_PROVIDERS", "unset TF_REATTACH_PROVIDERS"
	case dir != "":
		set, _ := config.Setting("dev_overrides", p.String())
		by, hint = dir, fmt.Sprintf("remove it from dev_overrides (%s)", m.Output.Shorten(set.From.String()))
	default:
		return nil
	}
	if err := m.Policy.CheckOverride(p); err != nil {
		return sources.WithHint(fmt.Errorf("%s: replaced with %s: %w", p, by, err), "%s", hint)
	}
	return nil
}

// CheckEngine returns an error if the policy doesn't allow an engine. It runs the engine for its version if a rule
// depends on that, in the directory and with the -chdir with which it will run, because version managers use them.
func (m *Root) CheckEngine(ctx context.Context, program, workDir, chdir string) error {
	return m.AllowsEngine(program, func() (sources.Version, error) {
		line := []string{program}
		if chdir != "" {
			line = append(line, "-chdir="+chdir)
		}
		v, _, err := m.VersionOf(ctx, workDir, nil, line...)
		return v, err
	})
}

// AllowsEngine returns an error about the subject if the policy doesn't allow the engine of the root module. Version is
// called if a rule depends on the version. Without it, such a rule refuses nothing.
func (m *Root) AllowsEngine(subject string, version func() (sources.Version, error)) error {
	unknown, is := errors.AsType[*policy.Violation](m.Policy.CheckEngine(m.Config.Engine, sources.Version{}))
	if !is {
		return nil
	}
	_, listed := unknown.Rule.Engines[m.Config.Engine]
	switch {
	case !listed:
		return sources.WithHint(fmt.Errorf("%s: %w", subject, unknown), "%s", unknown.Hint())
	case version == nil:
		return nil
	}
	v, err := version()
	if err != nil {
		err := fmt.Errorf("%s: its version is unknown: %s; %w", subject, err.Error(), unknown)
		return sources.WithHint(err, "%s", unknown.Hint())
	}
	if err := m.Policy.CheckEngine(m.Config.Engine, v); err != nil {
		return fmt.Errorf("%s %s: %w", subject, v, err)
	}
	return nil
}

// AcceptLocked is [installer.AcceptLocked] for the sources of the root module.
func (m *Root) AcceptLocked(ctx context.Context, p sources.Provider, v sources.Version) error {
	return installer.AcceptLocked(ctx, m.Policy, p, v, func() (sources.Listing, error) {
		source, err := m.Source(ctx)
		if err != nil {
			return sources.Listing{}, err
		}
		return source.Versions(ctx, p)
	})
}

// CheckSelected returns an error if the policy doesn't allow what replaces providers, or what the lock file selects.
// Where a rule is about signatures, it checks the installed packages.
func (m *Root) CheckSelected(ctx context.Context) error {
	if err := m.CheckOverrides(ctx); err != nil {
		return err
	}
	if m.Lock == nil {
		return m.LockProblems.Err()
	}
	var errs []error
	for _, e := range m.Lock.Entries() {
		errs = append(errs, sources.InPackage(PackageOf(e), m.AcceptLocked(ctx, e.Provider, e.Version)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if m.Policy.AboutSignatures() {
		errs = append(errs, m.checkSignatures(ctx))
	}
	return errors.Join(errs...)
}

// checkSignatures returns an error for installed packages that are not signed or approved as the policy requires. A
// package that is not installed is no error here, because the engine reports it.
func (m *Root) checkSignatures(ctx context.Context) error {
	store, done, err := m.Store()
	if err != nil {
		return err
	}
	defer done()
	installed := store.Workdir(m.Dir, filepath.Join(m.Config.DataDir, "providers"))
	defer installed.Close()
	var errs []error
	for _, e := range m.Lock.Entries() {
		if _, signed := m.Policy.SignedBy(e.Provider); !signed && !m.Judge().NeedsApproval(e.Provider) {
			continue
		}
		held, err := installed.Get(ctx, PackageOf(e))
		if err == nil {
			err = m.Judge().Check(held.ID, m.Judge().Report(held.ID.Provider, held.Proof))
		} else if errors.Is(err, sources.ErrNotFound) {
			err = nil
		}
		errs = append(errs, sources.InPackage(PackageOf(e), err))
	}
	return errors.Join(errs...)
}

// PackageOf returns the package of a locked version for this platform.
func PackageOf(e lockfile.Entry) sources.PackageID {
	return sources.PackageID{Provider: e.Provider, Version: e.Version, Platform: sources.CurrentPlatform()}
}
