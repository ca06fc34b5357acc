package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// policyFor returns the rules for the root module in dir: those of the site, of the user, and of the repository,
// from its top down to dir. It is nil if there are none.
func (s *Session) policyFor(dir string, config *cliconfig.Config) (*policy.Policy, error) {
	files, err := s.filesFor(dir)
	if err != nil {
		return nil, err
	}
	rules := slices.Clone(config.Policy)
	for _, f := range slices.Backward(files) {
		rules = append(rules, f.checkout.Policy...)
	}
	if len(rules) == 0 {
		return nil, nil
	}
	p := &policy.Policy{Rules: rules}
	if n := len(p.DeclaredPlatforms()); n > cliconfig.MaxPlatforms { // each is work, and a checkout may have many files
		return nil, fmt.Errorf("the policies for %s declare %d platforms; at most %d are allowed", dir, n, cliconfig.MaxPlatforms)
	}
	return p, nil
}

// namedHosts returns the hosts of the default registries, and those that the CLI configuration or the policy names.
func (m *rootModule) namedHosts() []sources.Host {
	all := []sources.Host{sources.Terraform.DefaultHost(), sources.OpenTofu.DefaultHost()}
	return slices.Concat(all, m.config.NamedHosts(), m.policy.NamedHosts())
}

// checkOverrides returns an error if the policy doesn't allow what replaces the packages of a provider for the engine.
// The root module may not require the provider: a state that larder doesn't read may.
func (m *rootModule) checkOverrides(ctx context.Context) error {
	config := m.config
	if m.flags.Config != "" { // the engine reads another one
		options := m.configOptions()
		options.ConfigFile = ""
		loaded, ds := cliconfig.Load(ctx, m.machine, config.Engine, options)
		if err := ds.Err(); err != nil {
			return err
		}
		config = loaded.At(m.dir)
	}
	all := slices.AppendSeq(slices.Clone(config.Unmanaged), maps.Keys(config.DevOverrides))
	slices.SortFunc(all, sources.Provider.Compare)
	var errs []error
	for _, p := range slices.Compact(all) {
		errs = append(errs, m.checkOverride(config, p))
	}
	return errors.Join(errs...)
}

// checkOverride returns an error if the policy doesn't allow what replaces the packages of a provider: a directory of
// dev_overrides, or a running program.
func (m *rootModule) checkOverride(config *cliconfig.Config, p sources.Provider) error {
	by, hint := "", ""
	switch dir := config.DevOverrides[p]; {
	case slices.Contains(config.Unmanaged, p):
		by, hint = "the running program in TF_REATTACH_PROVIDERS", "unset TF_REATTACH_PROVIDERS"
	case dir != "":
		set, _ := config.SettingOf("dev_overrides", p.String())
		by, hint = dir, fmt.Sprintf("remove it from dev_overrides (%s)", m.output.Shorten(set.From.String()))
	default:
		return nil
	}
	if err := m.policy.CheckOverride(p); err != nil {
		return sources.WithHint(fmt.Errorf("%s: replaced with %s: %w", p, by, err), "%s", hint)
	}
	return nil
}

// checkEngine returns an error if the policy doesn't allow an engine. It runs the engine for its version if a rule depends
// on that, in the directory and with the -chdir with which it will run, because version managers use them.
func (m *rootModule) checkEngine(ctx context.Context, program, workDir, chdir string) error {
	unknown, is := errors.AsType[*policy.Violation](m.policy.CheckEngine(m.config.Engine, sources.Version{}))
	if !is {
		return nil
	}
	if _, listed := unknown.Rule.Engines[m.config.Engine]; !listed {
		return sources.WithHint(fmt.Errorf("%s: %w", program, unknown), "%s", unknown.Hint())
	}
	line := []string{program}
	if chdir != "" {
		line = append(line, "-chdir="+chdir)
	}
	v, _, err := m.versionOf(ctx, workDir, nil, line...)
	if err != nil {
		return sources.WithHint(fmt.Errorf("%s: its version is unknown: %s; %w", program, err.Error(), unknown), "%s", unknown.Hint())
	}
	if err := m.policy.CheckEngine(m.config.Engine, v); err != nil {
		return fmt.Errorf("%s %s: %w", program, v, err)
	}
	return nil
}

// checkUnprepared returns an error if the policy doesn't allow an engine's command in dir, for which nothing is installed.
// Without a policy, it reads only the files that could have one.
func (e *execution) checkUnprepared(ctx context.Context, dir string) error {
	files, err := e.filesFor(dir)
	if err != nil {
		return err
	}
	inCheckout := slices.ContainsFunc(files, func(f checkoutFiles) bool { return len(f.checkout.Policy) > 0 })
	if !inCheckout && !e.machine.HasPolicy(ctx) {
		return nil
	}
	workDir := e.workDir
	e.workDir, e.readsArguments, e.runsHere, e.mayBeEmpty, e.mutesWarnings = dir, true, true, true, true
	e.flags.Config, e.flags.NoLockFile = "", false // flags of Larder don't change what this command runs
	m, err := e.rootFor(ctx, e.command.Engine, filepath.Join(dir, lockfile.Name), e.output)
	if err != nil {
		return err
	}
	if err := m.checkEngine(ctx, e.program, workDir, e.command.Dir); err != nil {
		return err
	}
	rule, about := m.policy.AboutProviders()
	switch {
	case !about:
		return nil
	case e.command.Unforeseen != "":
		err := fmt.Errorf("%s installs providers that larder can't check beforehand, which the policy (%s) forbids", e.command.Unforeseen, rule.Place())
		return sources.WithHint(err, wayToForesee)
	case e.command.Downloads != "":
		err := fmt.Errorf("%s downloads providers that larder can't check beforehand, which the policy (%s) forbids", e.command.Downloads, rule.Place())
		return sources.WithHint(err, "%s and larder mirror sync download only what the policy allows", e.again("lock"))
	case e.command.NoProviders:
		return nil
	}
	return m.checkSelected(ctx)
}

// checkSelected returns an error if the policy doesn't allow what replaces providers, or what the lock file selects.
// Where a rule is about signatures, it checks the installed packages.
func (m *rootModule) checkSelected(ctx context.Context) error {
	if err := m.checkOverrides(ctx); err != nil {
		return err
	}
	if m.lock == nil {
		return m.lockProblems.Err()
	}
	var errs []error
	for _, e := range m.lock.Entries() {
		err := m.policy.Learn(ctx, e.Provider, e.Version)
		if err == nil {
			err = m.policy.Check(e.Provider, e.Version)
		}
		errs = append(errs, sources.InPackage(packageOf(e), err))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if m.policy.AboutSignatures() {
		errs = append(errs, m.checkSignatures(ctx))
	}
	return errors.Join(errs...)
}

// checkSignatures returns an error for installed packages that are not signed as the policy requires. A package that is
// not installed is no error here, because the engine reports it.
func (m *rootModule) checkSignatures(ctx context.Context) error {
	store, done, err := m.store()
	if err != nil {
		return err
	}
	defer done()
	installed := store.Workdir(m.dir, filepath.Join(m.config.DataDir, "providers"))
	defer installed.Close()
	var errs []error
	for _, e := range m.lock.Entries() {
		if _, signed := m.policy.SignedBy(e.Provider); !signed {
			continue
		}
		held, err := installed.Get(ctx, packageOf(e))
		if err == nil {
			err = m.judge().Check(held.ID, m.judge().Report(held.ID.Provider, held.Proof))
		} else if errors.Is(err, sources.ErrNotFound) {
			err = nil
		}
		errs = append(errs, sources.InPackage(packageOf(e), err))
	}
	return errors.Join(errs...)
}

// packageOf returns the package of a locked version for this platform.
func packageOf(e lockfile.Entry) sources.PackageID {
	return sources.PackageID{Provider: e.Provider, Version: e.Version, Platform: sources.CurrentPlatform()}
}
