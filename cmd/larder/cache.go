package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

func cacheCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "cache",
		Usage:     "look after the plugin cache",
		ArgsUsage: "COMMAND [FLAG...]",
		Description: "Works on any plugin cache, whoever filled it, while others install from it.\n" +
			"\"larder help cache COMMAND\" tells more.",
		Subcommands: []*cli.Command{
			cachePathCommand(out), cacheListCommand(out), cacheStatsCommand(out),
			cacheVerifyCommand(out), cacheRepairCommand(out), cachePruneCommand(out),
			cacheKeyCommand(out), cacheExportCommand(out), cacheImportCommand(out), cacheForgetCommand(out),
		},
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("cache " + c.Args().First())
			}
			return usageError{errors.New("cache needs a command: path, list, stats, verify, repair, prune, key, export, import or forget")}
		},
	}
}

func cachePathCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:  "path",
		Usage: "tell where the plugin cache is",
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			k, err := newKeeper(c, out)
			if err != nil {
				return err
			}
			out.result("cache", struct {
				Path string `json:"path"`
			}{k.path}, "%s", k.path)
			return nil
		},
	}
}

// A keeper looks after the plugin cache.
type keeper struct {
	*rootModule
	path  string
	cache *cachedir.Dir // nil if there is none yet
}

// newKeeper finds out where the cache is, and makes none.
func newKeeper(c *cli.Context, out *output) (*keeper, error) {
	s, err := newSession(c, out)
	if err != nil {
		return nil, err
	}
	if s.flags.noCache {
		return nil, usageError{errors.New("--no-cache leaves no cache to look after")}
	}
	m, err := s.root(c.Context, s.dir, out)
	if err != nil {
		return nil, err
	}
	k := &keeper{rootModule: m, path: m.cacheRoot()}
	if k.path == "" {
		return nil, errors.New("there is no place for a plugin cache")
	}
	return k, nil
}

// openCache opens the cache, if there is one, and says so if not. It is opened for
// reading only unless the command changes it.
func openCache(c *cli.Context, out *output, changes bool) (*keeper, error) {
	k, err := newKeeper(c, out)
	if err != nil {
		return nil, err
	}
	k.flags.readOnly = k.flags.readOnly || !changes
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		out.say(normal, "there is no plugin cache in %s yet", k.path)
		return k, nil
	}
	opts, err := k.cacheOptions()
	if err != nil {
		return k, err
	}
	opts.Shared, opts.KeepOld = k.engineCache(), changes
	k.cache, err = k.openCache(k.path, opts)
	return k, err
}

// rootsFlag is for those commands that must know who uses what.
func rootsFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "roots", Usage: "count root modules in `DIR` and below too; may be repeated"}
}

// use is who uses the cache, as far as it is known or can be found below the
// directories of the flag.
func (k *keeper) use(c *cli.Context) (cachedir.ListOptions, error) {
	opts := cachedir.ListOptions{Locked: selections, Evidence: k.out.json}
	for _, dir := range c.StringSlice("roots") {
		found, err := k.findRoots(c.Context, dir)
		if err != nil {
			return opts, err
		}
		opts.Roots = append(opts.Roots, found...)
	}
	return opts, nil
}

func (k *keeper) findRoots(ctx context.Context, dir string) ([]cachedir.Root, error) {
	k.out.say(verbose, "looking for root modules in %s", dir)
	found, err := cachedir.FindRoots(ctx, absolute(k.dir, dir))
	if err == nil && len(found) == 0 {
		k.out.warn("there is no root module in %s or below that has been initialised", dir)
	}
	return found, err
}

// selections are the versions that the lock file in dir selects.
func selections(dir string) (cachedir.Selections, error) {
	file, ds := lockfile.Read(filepath.Join(dir, lockfile.Name))
	if err := ds.Err(); err != nil {
		return nil, err
	}
	selected := cachedir.Selections{}
	for _, e := range file.Entries() {
		selected[e.Provider] = e.Version
	}
	return selected, nil
}

// cachedPackage is a package in the cache, in JSON.
type cachedPackage struct {
	Provider string   `json:"provider"`
	Version  string   `json:"version"`
	Platform string   `json:"platform"`
	Size     int64    `json:"size"`
	Freed    int64    `json:"freed"`
	Used     string   `json:"used,omitempty"`
	Roots    []string `json:"roots"`
	Linked   bool     `json:"linked"`
	Verdict  string   `json:"verdict"`
	Evidence bool     `json:"evidence"`
	H1       string   `json:"h1,omitempty"`
	Origin   string   `json:"origin,omitempty"`
	Target   string   `json:"target,omitempty"`
	signature
}

func cached(e cachedir.Entry, by signature) cachedPackage {
	p := cachedPackage{
		Provider: e.ID.Provider.String(), Version: e.ID.Version.String(), Platform: e.ID.Platform.String(),
		Size: e.Size, Freed: e.Freed, Roots: append([]string{}, e.Roots...), Linked: e.Linked,
		Verdict: e.Verdict.String(), Evidence: e.Evidence, H1: string(e.H1), Origin: e.Origin, Target: e.Target, signature: by,
	}
	if !e.Used.IsZero() {
		p.Used = e.Used.UTC().Format("2006-01-02T15:04:05Z")
	}
	return p
}

// ourselves reports whether it is this process that holds the lock.
func ourselves(h cachedir.Holder) bool {
	here, err := os.Hostname()
	return err == nil && h.Host == here && h.PID == os.Getpid()
}

// waitingToWrite says that another process is writing to a mirror.
func (o *output) waitingToWrite(dir string) func(disk.Holder) {
	return func(h disk.Holder) {
		by := "another larder process"
		if h.PID != 0 {
			by = fmt.Sprintf("%s (pid %d on %s)", by, h.PID, h.Host)
		}
		o.say(normal, "waiting for %s to finish writing to %s", by, dir)
	}
}

// waitingFor says which process is waited for.
func waitingFor(h cachedir.Holder) string {
	whole := h.ID.Version == (sources.Version{})
	switch {
	case whole && h.PID == 0:
		return "the processes that install from the plugin cache"
	case h.PID == 0:
		return "another process"
	case ourselves(h):
		return "another root module"
	}
	who := fmt.Sprintf("process %d on %s, at work since %s", h.PID, h.Host, h.Since.Local().Format("15:04:05"))
	if whole {
		who += ", to clean the plugin cache"
	}
	return who
}
