package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

func installCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Usage:     "install the providers that the root module here needs",
		ArgsUsage: "[FLAG...]",
		Description: "Does the provider part of terraform init and tofu init: same versions, same\n" +
			"lock file, same tree. Exit status: 0 installed, 1 something could not be,\n" +
			"2 used wrongly, 130 interrupted.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "upgrade", Aliases: []string{"u"}, Usage: "choose the newest versions, whatever is locked"},
			&cli.StringFlag{Name: "lockfile", Usage: "`MODE` readonly: refuse to change the lock file"},
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "install from `DIR` alone; may be repeated"},
			&cli.StringSliceFlag{Name: "platform", Usage: "install for `OS_ARCH` instead of this platform; may be repeated"},
			&cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Usage: "install for every root module below"},
			&cli.BoolFlag{Name: "require-signed", Usage: "refuse packages that are less than signed"},
			&cli.BoolFlag{Name: "paranoid", Usage: "believe no record, hash everything"},
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be installed, and write nothing"},
		},
		Action: func(c *cli.Context) error { return install(c, out) },
	}
}

func install(c *cli.Context, out *output) error {
	if err := noArguments(c); err != nil {
		return err
	}
	platforms, err := parsePlatforms(c.StringSlice("platform"))
	if err != nil {
		return err
	}
	mode := c.String("lockfile")
	switch {
	case mode != "" && mode != "readonly":
		return usageError{fmt.Errorf("--lockfile is readonly or left out, not %q", mode)}
	case mode != "" && c.Bool("upgrade"):
		return usageError{errors.New("--upgrade and --lockfile readonly exclude each other")}
	}
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	return s.installHere(c, installer.Options{
		Engine:        s.config.Engine,
		Platforms:     platforms,
		Jobs:          s.flags.jobs,
		Upgrade:       c.Bool("upgrade"),
		RequireSigned: c.Bool("require-signed"),
		EngineCache:   s.engineCache(),
		Trust:         trust.Options{EnforceGPGValidation: s.config.EnforceSignatures, EnforceGPGExpiration: s.config.EnforceKeyExpiry},
		Report:        out.event,
	})
}

func parsePlatforms(names []string) ([]sources.Platform, error) {
	var platforms []sources.Platform
	for _, name := range names {
		p, err := sources.ParsePlatform(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--platform: %w", err)}
		}
		if !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	return platforms, nil
}

// installHere installs what the root module in the session's directory needs.
func (s *session) installHere(c *cli.Context, opts installer.Options) error {
	ctx := c.Context
	root, err := s.root(ctx)
	if err != nil || root == nil {
		return err
	}
	root.ReadOnlyLock, root.DryRun = c.String("lockfile") == "readonly", c.Bool("dry-run")
	from, err := s.source(ctx, c.StringSlice("plugin-dir"))
	if err != nil {
		return err
	}
	to, err := s.store(root.DataDir)
	if err != nil {
		return err
	}
	result, err := installer.New(from, to, s.client, opts).Install(ctx, *root)
	s.out.installed(result)
	return err
}

// root is the root module here: what it requires, and what is locked for it.
// It is nil if there is none.
func (s *session) root(ctx context.Context) (*installer.Root, error) {
	tree, treeProblems := modules.Load(ctx, s.dir, modules.Options{
		Engine:             s.config.Engine,
		DataDir:            s.config.DataDir,
		Workspace:          s.config.Workspace,
		KeepStateAddresses: !s.config.TranslateStateAddresses,
	})
	lock, lockProblems := lockfile.Read(filepath.Join(s.dir, lockfile.Name))
	if err := s.out.warnings(append(treeProblems, lockProblems...)); err != nil {
		return nil, err
	}
	if s.config.Engine == sources.OpenTofu {
		if warning := lock.Migrate(); warning != "" {
			s.out.warn("%s", warning)
		}
	}
	if tree.Empty {
		s.out.say(normal, "there is no configuration in %s: nothing to install", s.dir)
		return nil, nil
	}
	found := &installer.Root{Dir: s.dir, DataDir: s.config.DataDir, Lock: lock}
	for _, r := range tree.Requirements {
		if slices.Contains(s.config.Unmanaged, r.Provider) {
			found.Unmanaged = append(found.Unmanaged, r.Provider)
		} else {
			found.Requirements = append(found.Requirements, r)
		}
	}
	return found, nil
}

// installedPackage is a line of install's result in JSON.
type installedPackage struct {
	Provider string           `json:"provider"`
	Version  string           `json:"version"`
	Platform string           `json:"platform"`
	How      installer.How    `json:"how"`
	Verdict  sources.Verdict  `json:"verdict"`
	KeyID    string           `json:"key_id,omitempty"`
	Source   string           `json:"source,omitempty"`
	Link     sources.LinkMode `json:"link,omitempty"`
	H1       sources.Hash     `json:"h1,omitempty"`
}

// installed writes what was installed and what became of the lock file.
func (o *output) installed(result *installer.Result) {
	for _, p := range result.Packages {
		id := p.Package.ID
		o.result("package", installedPackage{
			Provider: id.Provider.String(), Version: id.Version.String(), Platform: id.Platform.String(),
			How: p.How, Verdict: p.Package.Verdict, KeyID: p.KeyID, Source: p.Source, Link: p.Link, H1: p.Package.H1,
		}, "%s  %s", id, strings.Join(about(p), ", "))
	}
	for _, w := range result.Warnings {
		o.warn("%s", w)
	}
	if result.Lock.Written {
		o.say(normal, "wrote %s: %s", lockfile.Name, result.Lock)
	}
}

// about lists what there is to say about an installed package.
func about(p installer.Outcome) []string {
	verdict := p.Package.Verdict.String()
	if p.KeyID != "" {
		verdict += " with key " + p.KeyID
	}
	words := []string{string(p.How), verdict}
	if p.Link != "" {
		words = append(words, string(p.Link))
	}
	return words
}
