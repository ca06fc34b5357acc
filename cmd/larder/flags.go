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
// module here or on all below.
func treeFlags() []cli.Flag {
	return []cli.Flag{recursiveFlag("root modules in PATH and below"), excludeFlag(), platformsFlag("platforms, instead of this machine's")}
}

// wantedFlags select packages, for commands that put them into a store.
func wantedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Category: selectionFlags, Name: "from", Usage: "`PATH` root modules, lock files or .tf files"},
		recursiveFlag("root modules in PATH and below"),
		excludeFlag(),
		platformsFlag("platforms, instead of this machine's"),
		&cli.IntFlag{Category: selectionFlags, Name: "newest", Usage: "`N` number of versions to take where none is locked", Value: 1},
		&cli.BoolFlag{Category: selectionFlags, Name: "all-versions", Usage: "every version allowed, where none is locked"},
		upgradeFlag(),
		&cli.BoolFlag{Category: selectionFlags, Name: "no-lock-file", Usage: "ignore lock files, even those with errors"},
	}
}

// fillFlags are those of commands that put packages into a store of the user's, with
// more of their own.
func fillFlags(more ...cli.Flag) []cli.Flag {
	strict := &cli.BoolFlag{Name: "strict", Usage: "fail if a version has no package for a platform"}
	return slices.Concat(wantedFlags(), trustFlags(), []cli.Flag{strict}, more)
}

// trustFlags say which signatures suffice.
func trustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Category: signatureFlags, Name: "require-signed", Usage: "require a valid signature"}, trustKeyFlag(),
	}
}

// trustKeyFlag is for commands that judge signatures without requiring any.
func trustKeyFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: signatureFlags, Name: "trust-key", Usage: "`KEY` fingerprints of keys to trust"}
}

// pruneFlags are those of commands that remove packages from a store. Since is what
// --older-than counts from, as in "unused for an `AGE`, such as 90d".
func pruneFlags(since string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: limitFlags, Name: "older-than", Usage: since},
		&cli.IntFlag{Category: limitFlags, Name: "keep-last", Usage: "keep the `N` newest versions of each provider"},
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "remove without asking"},
		dryRunFlag("show what would be removed"),
	}
}

// recursiveFlag is read into globals. What the command does with all root modules is in
// its usage.
func recursiveFlag(usage string) cli.Flag {
	return &cli.BoolFlag{Category: selectionFlags, Name: "recursive", Aliases: []string{"R"}, Usage: usage}
}

// excludeFlag is refused without --recursive: there is no search that it could limit, so
// it is a mistake.
func excludeFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: selectionFlags, Name: "exclude", Usage: "`GLOB` directories that --recursive skips"}
}

// platformsFlag is for commands that work for several platforms at once.
func platformsFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Category: selectionFlags, Name: "platform", Usage: "`OS_ARCH,...` " + usage}
}

// upgradeFlag is for commands that otherwise keep to lock files.
func upgradeFlag() cli.Flag {
	return &cli.BoolFlag{Category: selectionFlags, Name: "upgrade", Aliases: []string{"u"}, Usage: "newest versions allowed, not the locked ones"}
}

// maxSizeFlag is read by maxSize.
func maxSizeFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "max-size", Usage: usage} }

// dryRunFlag makes the session read-only: plugin cache and mirrors are then opened
// without write access.
func dryRunFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "dry-run", Usage: usage} }

// orderNames are the values of --sort; the first is the default.
var orderNames = []string{"address", "size", "used", "roots"}

// thisIfNone is the platform that we run on if there are none.
func thisIfNone(platforms []sources.Platform) []sources.Platform {
	if len(platforms) == 0 {
		return []sources.Platform{sources.CurrentPlatform()}
	}
	return platforms
}

// list reads a flag that may be repeated, each value once. Several values may stand in one,
// with commas between them, so it isn't for values that may contain commas.
func list(c *cli.Context, name string) []string {
	var all []string
	for _, values := range c.StringSlice(name) {
		for value := range strings.SplitSeq(values, ",") {
			if value = strings.TrimSpace(value); !slices.Contains(all, value) {
				all = append(all, value)
			}
		}
	}
	return all
}

// platforms reads --platform, each platform once. Without the flag there are none.
func platforms(c *cli.Context) ([]sources.Platform, error) {
	var all []sources.Platform
	for _, name := range list(c, "platform") {
		p, err := parsePlatform(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// parsePlatform parses a platform that Go has programs for. A misspelt one is refused
// before any source is queried for it.
func parsePlatform(name string) (sources.Platform, error) {
	p, err := sources.ParsePlatform(name)
	if err == nil && sources.KnownPlatform(p) {
		return p, nil
	}
	err = fmt.Errorf("platform %q is unknown", name)
	if near := sources.NearestPlatform(name); near != "" {
		return p, usageError{sources.WithHint(err, "did you mean %q?", near)}
	}
	return p, usageError{sources.WithHint(err, "write it as OS_ARCH, such as linux_amd64 or darwin_arm64")}
}

// platform reads a --platform that takes one platform, the zero one if it is not set.
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
		return value, usageError{fmt.Errorf("--%s: %q is %w", name, c.String(name), err)}
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
	err := fmt.Errorf("--%s is %s, not %q", name, ui.List("or", values), value)
	return usageError{sources.DidYouMean(err, string(value), sources.Texts(values), "")}
}

// asks reports whether a command asks before it removes anything. It refuses to run
// where it would have to ask and cannot.
func asks(c *cli.Context) (bool, error) {
	asks := !c.Bool("yes") && !c.Bool("dry-run")
	if asks && (flag[bool](c, "json") || !ui.IsTerminal(os.Stdin)) {
		return false, usageError{errors.New("cannot ask for confirmation without a terminal: add --yes or --dry-run")}
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
	for _, text := range list(c, "trust-key") {
		key, err := sources.ParseFingerprint(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--trust-key: %w", err)}
		}
		keys = append(keys, key)
	}
	return keys, nil
}
