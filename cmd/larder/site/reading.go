package site

import (
	"context"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A Reading is how the root modules of a site are read. The zero value is for a command after which no engine runs:
// modules that are not installed are missing, and an unknown value gives a warning.
type Reading struct {
	// Line is the engine's command line that follows, whose flags and TF_CLI_ARGS count. It is nil if none follows.
	Line *programs.Invocation

	// Release returns the version of the Terraform that runs in dir. It is nil if that isn't known.
	Release func(ctx context.Context, dir string) sources.Version

	// Get installs missing modules, or newer ones if update is true. If it is nil, modules stay as they are.
	Get func(ctx context.Context, m *Root, tree *modules.Tree, update bool) error

	Certain bool // a requirement that depends on an unknown value is an error
	Empty   bool // a missing configuration is no reason for a message
	Mute    bool // there are no warnings about the configuration: the engine has its own
}

// installs reports whether an engine installs providers next, by a line that may be in a program.
func (r Reading) installs() bool { return r.Line != nil && (r.Line.Init || r.Line.Wrapper) }

// newTerraform is the first release of Terraform whose get takes variables, and whose init doesn't install providers
// with development overrides.
var newTerraform, _ = sources.ParseVersion("1.15.0-alpha")

// IsNewTerraform reports whether the engine that runs in the root module is Terraform 1.15 or a later release.
func (m *Root) IsNewTerraform(ctx context.Context) bool {
	release := m.Reading.Release
	return m.Config.Engine == sources.Terraform && release != nil && release(ctx, m.Dir).Compare(newTerraform) >= 0
}

// LoadOptions returns the options with which the configuration is read.
func (m *Root) LoadOptions(ctx context.Context) modules.Options {
	opts := modules.Options{
		Engine:             m.Config.Engine,
		DataDir:            m.Config.DataDir,
		TestsAlone:         func() bool { return m.readsTestsAlone(ctx) },
		Workspace:          m.Config.Workspace,
		KeepStateAddresses: !m.Config.TranslateStateAddresses,
		Inputs:             m.inputs(),
		Cache:              &m.Modules,
	}
	if line := m.Reading.Line; line != nil {
		opts.TestDir, opts.NoBackend, opts.KeepModules = line.TestDir, line.NoBackend, line.KeepModules
		opts.Here = !line.Wrapper && m.Dir == m.WorkDir
	}
	return opts
}

// inputs returns the values of variables: those on the engine's command line, or else those in the environment.
func (s *Site) inputs() modules.Inputs {
	line := s.Reading.Line
	if line == nil || line.Variables == nil {
		init := programs.ReadLine(s.Machine, []string{string(sources.Terraform), "init"})
		line = &init
	}
	return modules.Inputs{Environ: s.Machine.InputVariables(), Flags: line.Variables}
}
