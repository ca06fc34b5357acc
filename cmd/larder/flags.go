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
	"github.com/larder-cli/larder/sources/trust"
)

// This file contains the flags that several commands share, and the code that reads them, so
// that they mean the same everywhere.

// treeFlags select root modules and platforms, for commands that work on the root module in
// the working directory or on all root modules below it.
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

// fillFlags are the flags of commands that put packages into a store. The arguments are
// further flags of the command.
func fillFlags(more ...cli.Flag) []cli.Flag {
	strict := &cli.BoolFlag{Name: "strict", Usage: "fail if a version has no package for a platform"}
	return slices.Concat(wantedFlags(), trustFlags(), []cli.Flag{strict}, more)
}

// trustFlags set which signatures are required, for every command that fetches, installs,
// verifies or imports packages.
func trustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Category: signatureFlags, Name: "require-signed", Usage: "require a valid signature"},
		&cli.BoolFlag{Category: signatureFlags, Name: "require-trusted", Usage: "require one by a trusted key"},
		&cli.StringSliceFlag{Category: signatureFlags, Name: "trust-key", Usage: "`KEY` fingerprints of keys to trust"},
	}
}

// requirement reads --require-signed and --require-trusted.
func requirement(c *cli.Context) trust.Requirement {
	switch {
	case c.Bool("require-trusted"):
		return trust.RequireTrusted
	case c.Bool("require-signed"):
		return trust.RequireSigned
	}
	return trust.RequireNothing
}

// pruneFlags are the flags of commands that remove packages from a store. Since is the
// usage of --older-than, as in "unused for an `AGE`, such as 90d".
func pruneFlags(since string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: limitFlags, Name: "older-than", Usage: since},
		&cli.IntFlag{Category: limitFlags, Name: "keep-last", Usage: "keep the `N` newest versions of each provider"},
		&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "remove without asking"},
		dryRunFlag("show what would be removed"),
	}
}

// recursiveFlag is read into globals. Its usage describes what the command does with all
// root modules.
func recursiveFlag(usage string) cli.Flag {
	return &cli.BoolFlag{Category: selectionFlags, Name: "recursive", Aliases: []string{"R"}, Usage: usage}
}

// excludeFlag is a usage error without --recursive, because there is no search to limit.
func excludeFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: selectionFlags, Name: "exclude", Usage: "`GLOB` directories that --recursive skips"}
}

// platformsFlag is for commands that work for several platforms at once.
func platformsFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Category: selectionFlags, Name: "platform", Usage: "`OS_ARCH,...` " + usage}
}

// upgradeFlag is for commands that otherwise use the versions in lock files.
func upgradeFlag() cli.Flag {
	return &cli.BoolFlag{Category: selectionFlags, Name: "upgrade", Aliases: []string{"u"}, Usage: "newest versions allowed, not the locked ones"}
}

// lockFileFlag is read by readOnlyLockFile.
func lockFileFlag() cli.Flag {
	return &cli.StringFlag{Name: "lockfile", Usage: "`MODE` readonly: fail if the lock file would change"}
}

// readOnlyLockFile reads --lockfile, which has one value, as in the engines.
func readOnlyLockFile(c *cli.Context) (bool, error) {
	if mode := c.String("lockfile"); c.IsSet("lockfile") && mode != "readonly" {
		return false, usageError{fmt.Errorf("--lockfile must be readonly, not %q", mode)}
	}
	return c.IsSet("lockfile"), nil
}

// maxSizeFlag is read by maxSize.
func maxSizeFlag(usage string) cli.Flag { return &cli.StringFlag{Name: "max-size", Usage: usage} }

// dryRunFlag makes the session read-only: it opens plugin caches and mirrors without write
// access.
func dryRunFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "dry-run", Usage: usage} }

// orderNames are the values of --sort; the first is the default.
var orderNames = []string{"address", "size", "used", "roots"}

// thisIfNone returns the current platform if platforms is empty.
func thisIfNone(platforms []sources.Platform) []sources.Platform {
	if len(platforms) == 0 {
		return []sources.Platform{sources.CurrentPlatform()}
	}
	return platforms
}

// list reads a flag that may be repeated, without duplicates. A flag may also contain several
// values with commas between them, so values cannot contain commas.
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

// platforms reads --platform, without duplicates. Without the flag it returns none.
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

// parsePlatform parses a platform that Go supports. So a misspelt platform is an error before
// any request.
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

// platform reads a --platform with one value. It returns the zero Platform without the flag.
func platform(c *cli.Context) (p sources.Platform, err error) {
	if !c.IsSet("platform") {
		return p, nil
	}
	return parsePlatform(c.String("platform"))
}

// age reads --older-than. It returns 0 without the flag.
func age(c *cli.Context) (time.Duration, error) { return parsed(c, "older-than", ui.ParseAge) }

// maxSize reads --max-size. It returns 0 without the flag.
func maxSize(c *cli.Context) (int64, error) { return parsed(c, "max-size", ui.ParseSize) }

// parsed reads a flag with a parser. Errors name the flag and its value.
func parsed[T any](c *cli.Context, name string, parse func(string) (T, error)) (value T, err error) {
	if !c.IsSet(name) {
		return value, nil
	}
	if value, err = parse(c.String(name)); err != nil {
		return value, usageError{fmt.Errorf("--%s: %q is %w", name, c.String(name), err)}
	}
	return value, nil
}

// positive reads a flag that must be greater than 0. It returns 0 if the flag is not set and
// has no default. The flag may be global.
func positive(c *cli.Context, name, typed string) (int, error) {
	n := flag[int](c, name)
	if n < 0 || n == 0 && isSet(c, name) {
		return n, usageError{fmt.Errorf("%s must be greater than 0, not %d", typed, n)}
	}
	return n, nil
}

// oneOf fails for a value that a flag or a variable does not accept.
func oneOf[T ~string](typed string, value T, values []T) error {
	if slices.Contains(values, value) {
		return nil
	}
	err := fmt.Errorf("%s is %s, not %q", typed, ui.List("or", values), value)
	return usageError{sources.DidYouMean(err, string(value), sources.Texts(values), "")}
}

// keptText describes the packages that a prune keeps, and how many it could not remove.
func keptText(failed int, kept ...ui.Number) string {
	text := ""
	if parts := ui.Numbers(kept...); len(parts) > 0 {
		text = "; kept: " + strings.Join(parts, ", ")
	}
	if failed > 0 {
		text += fmt.Sprintf("; %d failed", failed)
	}
	return text
}

// asks reports whether a command asks for confirmation before it removes anything. It fails
// if confirmation is required but impossible.
func asks(c *cli.Context, out *ui.Output) (bool, error) {
	asks := !c.Bool("yes") && !c.Bool("dry-run")
	if asks && (out.JSON || !ui.IsTerminal(os.Stdin)) {
		return false, usageError{errors.New("cannot ask for confirmation without a terminal: add --yes or --dry-run")}
	}
	return asks, nil
}

// exclusive fails if the first flag is combined with any of the others.
func exclusive(c *cli.Context, name string, others ...string) error {
	for _, other := range others {
		if isOn(c, name) && isOn(c, other) {
			return usageError{fmt.Errorf("--%s and --%s exclude each other", name, other)}
		}
	}
	return nil
}

// isOn reports whether a flag is set, and isn't false.
func isOn(c *cli.Context, name string) bool {
	_, isBool := c.Value(name).(bool)
	return isSet(c, name) && (!isBool || flag[bool](c, name))
}

// trustKeys reads --trust-key. It returns none for commands without the flag.
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
