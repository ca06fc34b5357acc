package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// Flags that more than one command has are described here, with the code that reads
// them, so that they mean the same everywhere.

// treeFlags select root modules and platforms, for commands that work on the root
// module here or on all below. Does is what they do for them, as in "lock ".
func treeFlags(does string) []cli.Flag {
	return []cli.Flag{platformsFlag(does), recursiveFlag(does + "for every root module here and below"), excludeFlag()}
}

// wantedFlags select packages, for commands that put them into a store.
func wantedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "from", Usage: "`PATH` of a root module, lock file or list; may be repeated"},
		recursiveFlag("take every root module there, or here, and below"),
		excludeFlag(),
		platformsFlag(""),
		&cli.IntFlag{Name: "newest", Usage: "`N` versions where none is locked, the newest that match", Value: 1},
		&cli.BoolFlag{Name: "all-versions", Usage: "all versions that match where none is locked"},
		upgradeFlag(),
		&cli.BoolFlag{Name: "no-lock-file", Usage: "ignore lock files, even broken ones"},
	}
}

// fillFlags are those of commands that put packages into a store of the user's, with
// more of their own.
func fillFlags(more ...cli.Flag) []cli.Flag {
	strict := &cli.BoolFlag{Name: "strict", Usage: "fail if a version lacks a package for a platform"}
	return slices.Concat(wantedFlags(), []cli.Flag{strict}, trustFlags(), more)
}

// trustFlags say which signatures suffice.
func trustFlags() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "require-signed", Usage: "require a valid signature"}, trustKeyFlag()}
}

// trustKeyFlag is for commands that judge signatures without requiring any.
func trustKeyFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "trust-key", Usage: "trust the `KEY` of this fingerprint; repeatable"}
}

// pruneFlags are those of commands that remove packages from a store. Since is what
// --older-than counts from, as in "been there for an `AGE`, such as 90d".
func pruneFlags(since string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "older-than", Usage: "only what has " + since},
		&cli.IntFlag{Name: "keep-last", Usage: "keep the `N` newest versions of each provider"},
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
		dryRunFlag("tell what would go, and remove nothing"),
	}
}

// recursiveFlag is read into globals. What the command does with all root modules is in
// its usage.
func recursiveFlag(usage string) cli.Flag {
	return &cli.BoolFlag{Name: "recursive", Aliases: []string{"R"}, Usage: usage}
}

// excludeFlag is refused without --recursive: there is no search that it could limit, so
// it is a mistake.
func excludeFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "exclude", Usage: "`GLOB` of directories that --recursive passes; may be repeated"}
}

// platformsFlag is for commands that work for several platforms at once.
func platformsFlag(does string) cli.Flag {
	return &cli.StringSliceFlag{Name: "platform", Usage: does + "for `OS_ARCH`, not for this machine; may be repeated"}
}

// upgradeFlag is for commands that otherwise keep to lock files.
func upgradeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "upgrade", Aliases: []string{"u"}, Usage: "choose the newest versions, whatever is locked"}
}

// maxSizeFlag is read by maxSize.
func maxSizeFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "max-size", Usage: usage} }

// dryRunFlag makes the session read-only: plugin cache and mirrors are then opened
// without write access.
func dryRunFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "dry-run", Usage: usage} }

// thisIfNone is the platform that we run on if there are none.
func thisIfNone(platforms []sources.Platform) []sources.Platform {
	if len(platforms) == 0 {
		return []sources.Platform{sources.CurrentPlatform()}
	}
	return platforms
}

// platforms reads --platform, each platform once. Without the flag there are none.
func platforms(c *cli.Context) ([]sources.Platform, error) {
	var all []sources.Platform
	for _, name := range c.StringSlice("platform") {
		p, err := parsePlatform(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all, nil
}

// parsePlatform parses a platform. A list of them, which other tools take, gets a hint.
func parsePlatform(name string) (sources.Platform, error) {
	p, err := sources.ParsePlatform(name)
	switch {
	case err != nil && strings.Contains(name, ","):
		return p, usageError{sources.WithHint(err, "for several platforms, repeat the flag")}
	case err != nil:
		return p, usageError{err}
	}
	return p, nil
}

// platform reads a --platform that cannot be repeated, the zero one if it is not set.
func platform(c *cli.Context) (p sources.Platform, err error) {
	if !c.IsSet("platform") {
		return p, nil
	}
	return parsePlatform(c.String("platform"))
}

// age reads --older-than, 0 if it is not set.
func age(c *cli.Context) (time.Duration, error) { return parsed(c, "older-than", ui.ParseAge) }

// maxSize reads --max-size, 0 if it is not set.
func maxSize(c *cli.Context) (int64, error) { return parsed(c, "max-size", ui.ParseSize) }

// parsed reads a flag by a parser, and names the flag and its value in the error.
func parsed[T any](c *cli.Context, name string, parse func(string) (T, error)) (value T, err error) {
	if !c.IsSet(name) {
		return value, nil
	}
	if value, err = parse(c.String(name)); err != nil {
		return value, usageError{fmt.Errorf("--%s %s: %w", name, c.String(name), err)}
	}
	return value, nil
}

// positive reads a flag that is greater than 0, or 0 if it is neither set nor has a
// default. It may be a global one.
func positive(c *cli.Context, name string) (int, error) {
	n := flag[int](c, name)
	if n < 0 || n == 0 && isSet(c, name) {
		return n, usageError{fmt.Errorf("--%s must be greater than 0, not %d", name, n)}
	}
	return n, nil
}

// oneOf refuses a value that is none of those that a flag takes.
func oneOf[T ~string](name string, value T, values []T) error {
	if slices.Contains(values, value) {
		return nil
	}
	return usageError{fmt.Errorf("--%s is %s, not %q", name, ui.List("or", values), value)}
}

// asks reports whether a command asks before it removes anything. It refuses to run
// where it would have to ask and cannot.
func asks(c *cli.Context) (bool, error) {
	asks := !c.Bool("yes") && !c.Bool("dry-run")
	if asks && (flag[bool](c, "json") || !ui.IsTerminal(os.Stdin)) {
		return false, usageError{errors.New("there is no terminal to ask on: add --yes or --dry-run")}
	}
	return asks, nil
}

// exclusive refuses the first flag together with any of the others.
func exclusive(c *cli.Context, name string, others ...string) error {
	on := func(name string) bool {
		_, isBool := c.Value(name).(bool)
		return isSet(c, name) && (!isBool || flag[bool](c, name))
	}
	for _, other := range others {
		if on(name) && on(other) {
			return usageError{fmt.Errorf("--%s and --%s exclude each other", name, other)}
		}
	}
	return nil
}

// trustKeys reads --trust-key, which not every command has.
func trustKeys(c *cli.Context) (keys []sources.Fingerprint, err error) {
	for _, text := range c.StringSlice("trust-key") {
		key, err := sources.ParseFingerprint(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--trust-key: %w", err)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}
