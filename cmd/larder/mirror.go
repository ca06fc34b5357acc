package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:        "mirror",
		Usage:       "make mirrors and look after them",
		ArgsUsage:   "COMMAND [FLAG...]",
		Description: "\"larder help mirror COMMAND\" tells more.",
		Subcommands: []*cli.Command{
			mirrorSyncCommand(out), mirrorListCommand(out), mirrorVerifyCommand(out),
			mirrorIndexCommand(out), mirrorPruneCommand(out), mirrorDiffCommand(out),
		},
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("mirror " + c.Args().First())
			}
			return usageError{errors.New("mirror needs a command: sync, list, verify, index, prune or diff")}
		},
	}
}

// mirrorArgument is the directory of a mirror that a command is about, which must be
// its only argument.
func (s *session) mirrorArgument(c *cli.Context) (string, error) {
	if c.NArg() != 1 || c.Args().First() == "" {
		return "", usageError{fmt.Errorf("%s takes one argument, the directory of the mirror", commandPath(c.Command))}
	}
	return s.existing(c.Args().First())
}

// existing is the directory of a mirror that is there.
func (s *session) existing(dir string) (string, error) {
	dir = absolute(s.dir, dir)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	if err != nil {
		return "", sources.WithHint(err, "name the directory of a mirror; larder mirror sync makes one")
	}
	return dir, nil
}

// openMirror opens the mirror in dir for those who look after it. The caller closes
// it.
func (m *rootModule) openMirror(c *cli.Context, dir string, opts builder.Options) (*builder.Builder, error) {
	opts.Warn = m.out.WarnOf
	opts.Waiting, opts.LockTimeout = m.out.WaitingForMirror(dir), m.flags.lockTimeout
	opts = m.mirrorOptions(opts)
	var err error
	if opts.Key, err = m.recordKey(); err != nil {
		return nil, err
	}
	return builder.Open(c.Context, dir, opts)
}

// noCache refuses to make a mirror of a plugin cache, or in one: a cache takes in
// and lets go packages whoever they are for, and engines write to it as they like.
func (m *rootModule) noCache(dir string) error {
	for _, cache := range []string{m.cacheRoot(), m.config.PluginCacheDir, m.config.DefaultCacheDir} {
		if cache != "" && within(dir, cache) {
			err := fmt.Errorf("%s is in the plugin cache %s, which cannot be a mirror", dir, cache)
			if within(cache, dir) {
				err = fmt.Errorf("%s is the plugin cache, which cannot be a mirror", dir)
			}
			return usageError{sources.WithHint(err, "choose another directory for the mirror")}
		}
	}
	if cachedir.IsCache(dir) {
		err := fmt.Errorf("%s is a plugin cache, which cannot be a mirror", dir)
		return usageError{sources.WithHint(err, "choose another directory for the mirror")}
	}
	return nil
}

// mirrorHere is the mirror that a command is about, with the configuration of where
// we are. One that is to change is no plugin cache.
func mirrorHere(c *cli.Context, out *ui.Output, opts builder.Options) (*rootModule, *builder.Builder, error) {
	s, err := newSession(c, out)
	if err != nil {
		return nil, nil, err
	}
	dir, err := s.mirrorArgument(c)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.root(c.Context, s.dir, out)
	if err != nil {
		return nil, nil, err
	}
	if !opts.ReadOnly {
		if err := m.noCache(dir); err != nil {
			return nil, nil, err
		}
	}
	b, err := m.openMirror(c, dir, opts)
	return m, b, err
}
