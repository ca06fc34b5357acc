package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// A session is one run of a command: the configuration of the machine, and
// what is made from it.
type session struct {
	out       *output
	launchDir string // where larder was started
	dir       string // the root module's, absolute
	config    *cliconfig.Config
	client    *fetch.Client
	flags     globals
}

// globals are the values of the global flags.
type globals struct {
	cache   string
	noCache bool
	jobs    int
	link    sources.LinkMode
	offline bool
}

// newSession reads the global flags and the configuration.
func newSession(c *cli.Context, out *output) (*session, error) {
	s := &session{out: out}
	if err := s.readFlags(c); err != nil {
		return nil, err
	}
	machine := cliconfig.This()
	s.launchDir, s.dir = machine.WorkDir, absolute(machine.WorkDir, flag[string](c, "chdir"))
	if info, err := os.Stat(s.dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", s.dir)
	}
	opts := cliconfig.Options{ConfigFile: flag[string](c, "config"), Chdir: s.dir}
	engine, err := chooseEngine(flag[string](c, "engine"), s.dir, machine, opts)
	if err != nil {
		return nil, err
	}
	config, ds := cliconfig.Load(c.Context, machine, engine, opts)
	if err := out.warnings(ds); err != nil {
		return nil, err
	}
	s.config = config
	s.client = s.newClient()
	return s, nil
}

func absolute(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

func (s *session) readFlags(c *cli.Context) error {
	s.flags = globals{
		cache:   flag[string](c, "cache"),
		noCache: flag[bool](c, "no-cache"),
		jobs:    flag[int](c, "jobs"),
		link:    sources.LinkMode(flag[string](c, "link")),
		offline: flag[bool](c, "offline"),
	}
	s.out.json = flag[bool](c, "json")
	switch {
	case flag[bool](c, "quiet"):
		s.out.level = quiet
	case flag[bool](c, "verbose"):
		s.out.level = verbose
	}
	switch s.flags.link {
	case sources.LinkAuto, sources.LinkHard, sources.LinkSymlink, sources.LinkReflink, sources.LinkCopy:
	default:
		return usageError{fmt.Errorf("--link is auto, hardlink, symlink, reflink or copy, not %q", s.flags.link)}
	}
	if s.flags.noCache && s.flags.cache != "" {
		return usageError{fmt.Errorf("--cache and --no-cache exclude each other")}
	}
	if s.flags.jobs < 0 {
		return usageError{fmt.Errorf("--jobs is a number greater than 0, not %d", s.flags.jobs)}
	}
	return nil
}

// chooseEngine decides whose defaults apply: the engine asked for, else the one
// that wrote the lock file, else tofu if there are files for it alone, else
// tofu if the machine is configured for it alone, else terraform.
func chooseEngine(asked, dir string, m cliconfig.Machine, opts cliconfig.Options) (sources.Engine, error) {
	switch asked {
	case "terraform", "tofu":
		return sources.Engine(asked), nil
	case "auto":
	default:
		return "", usageError{fmt.Errorf("--engine is auto, terraform or tofu, not %q", asked)}
	}
	if lock, _ := lockfile.Read(filepath.Join(dir, lockfile.Name)); lock != nil {
		if e, ok := lock.Engine(); ok {
			return e, nil
		}
	}
	if modules.UsesTofuFiles(dir) || cliconfig.HasOnlyTofuConfig(m, opts) {
		return sources.OpenTofu, nil
	}
	return sources.Terraform, nil
}

func (s *session) newClient() *fetch.Client {
	opts := fetch.Options{
		Proxy:     func(r *http.Request) (*url.URL, error) { return s.config.Proxy(r.URL) },
		UserAgent: "larder/" + version(),
		Token:     s.config.Token,
		Netrc:     s.config.Netrc,
		Timeout:   s.config.Registry.RequestTimeout,
		Offline:   s.flags.offline,
		Report: func(e fetch.Event) {
			s.out.say(normal, "%s: try %d: %v; trying again in %s", e.URL, e.Try, e.Err, e.Wait.Round(100*1e6))
		},
	}
	if s.config.AppendUserAgent != "" {
		opts.UserAgent += " " + s.config.AppendUserAgent
	}
	if n := s.config.Registry.DiscoveryRetries; n != nil {
		opts.Tries = *n + 1
	}
	if n := s.config.Registry.DownloadRetries; n != nil {
		opts.DownloadTries = *n + 1
	}
	return fetch.New(opts)
}
