package main

import (
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// This file contains the flags that several commands share, and the code that reads them, so
// that they mean the same everywhere.

// The jobs of commands, in the order of help.
const (
	forModules   = "Root modules"
	forQuestions = "Questions"
	forStores    = "Plugin cache and mirrors"
	forLarder    = "" // the last lines of help name them
)

// The headings of flags.
const (
	selectionFlags = "Selection"
	limitFlags     = "Limits"
	signatureFlags = "Signatures"
)

// The defaults of --platform.
const (
	thisOne  = "this machine's"
	declared = "the policy's or this machine's"
)

// treeFlags select root modules and platforms, for commands that work on the root module in
// the working directory or on all root modules below it.
func treeFlags(platforms string) []line.Flag {
	return []line.Flag{recursiveFlag, excludeFlag, platformsDefault(platforms)}
}

// wantedFlags select packages, for commands that put them into a store.
var wantedFlags = []line.Flag{
	{Group: selectionFlags, Name: "from", Value: "FROM", Kind: line.File, Repeatable: true,
		Does: "root modules, lock files, .tf files, or a place"},
	recursiveFlag,
	excludeFlag,
	platformsDefault(declared),
	{Group: selectionFlags, Name: "newest", Value: "N", Kind: line.Number,
		Does: "fetch N versions if none is locked", Default: "1", Excludes: "all-versions"},
	{Group: selectionFlags, Name: "all-versions", Does: "fetch all allowed versions if none is locked"},
	upgradeFlag,
	{Group: selectionFlags, Name: "no-lock-file", Does: "ignore lock files, even those with errors"},
}

// fillFlags are the flags of commands that put packages into a store. The arguments are
// further flags of the command.
func fillFlags(more ...line.Flag) []line.Flag {
	complete := line.Flag{Name: "require-platforms", Does: "fail if a version has no package for a platform"}
	return slices.Concat(wantedFlags, trustFlags, []line.Flag{complete}, more)
}

// trustFlags set which signatures are required, for every command that fetches, installs,
// verifies or imports packages.
var trustFlags = []line.Flag{
	{Group: signatureFlags, Name: "require-signed", Does: "require a valid signature"},
	{Group: signatureFlags, Name: "require-trusted", Does: "require a signature by a trusted key"},
	{Group: signatureFlags, Name: "trust-key", Value: "KEY", Repeatable: true,
		Does: "trust the key with this fingerprint"},
}

// requirement reads --require-signed and --require-trusted.
func requirement(l *line.Line) trust.Requirement {
	switch {
	case l.Bool("require-trusted"):
		return trust.RequireTrusted
	case l.Bool("require-signed"):
		return trust.RequireSigned
	}
	return trust.RequireNothing
}

// pruneFlags are the flags of commands that remove packages from a store. Older is what --older-than does.
func pruneFlags(older string) []line.Flag {
	return []line.Flag{
		{Group: limitFlags, Name: "older-than", Value: "AGE", Kind: line.Age, Does: older},
		{Group: limitFlags, Name: "keep-last", Value: "N", Kind: line.Number,
			Does: "keep the N newest versions of each provider"},
		{Name: "yes", Short: "y", Does: "remove without asking"},
		dryRunFlag("show what would be removed"),
	}
}

// Flags that mean the same in each of their commands.
var (
	// recursiveFlag is read for every command that has it.
	recursiveFlag = line.Flag{Group: selectionFlags, Name: "recursive", Short: "R", Alias: "r",
		Does: "find root modules in the directories below as well"}
	// excludeFlag is a usage error without --recursive, because there is no search to limit.
	excludeFlag = line.Flag{Group: selectionFlags, Name: "exclude", Value: "GLOB", Repeatable: true,
		Does: "skip directories that match GLOB, with --recursive"}
	// strictFlag is for commands that check hashes in lock files, and means the same in each of them.
	strictFlag = line.Flag{Name: "strict", Does: "report every hash that no known package has"}
	// upgradeFlag is for commands that otherwise use the versions in lock files.
	upgradeFlag = line.Flag{Group: selectionFlags, Name: "upgrade", Short: "u",
		Does: "ignore locked versions, choose the newest allowed"}
	// endpointFlag is for commands that work with places.
	endpointFlag = line.Flag{Name: "endpoint", Value: "URL",
		Does: "use this S3-compatible store for s3://", Default: "AWS"}
	// htmlFlag writes the page for people, which commands that change the mirror then renew.
	htmlFlag = line.Flag{Name: "html", Does: "write index.html, a page for browsers"}
	// writeConfigFlag writes a CLI configuration for a mirror.
	writeConfigFlag = line.Flag{Name: "write-config", Value: "FILE", Kind: line.File,
		Does: "write a CLI configuration that uses the mirror"}
	// rootsFlag is for commands that need the root modules that use the cache.
	rootsFlag = line.Flag{Group: selectionFlags, Name: "roots", Value: "DIR", Kind: line.Dir, Repeatable: true,
		Does: "search DIR for more root modules that use the cache"}
)

// platformsFlag is for commands that work for several platforms at once.
func platformsFlag(does string) line.Flag {
	return line.Flag{Group: selectionFlags, Name: "platform", Value: "OS_ARCH,...", Repeatable: true, Does: does,
		Offers: commonPlatforms}
}

// platformsDefault is platformsFlag for what the command works for without it.
func platformsDefault(otherwise string) line.Flag {
	f := platformsFlag("platforms")
	f.Default = otherwise
	return f
}

// commonPlatforms are the platforms that most providers support.
var commonPlatforms = []string{
	"linux_amd64", "linux_arm64", "darwin_arm64", "darwin_amd64", "windows_amd64", "windows_arm64", "windows_386",
	"linux_386", "linux_arm", "freebsd_amd64", "freebsd_386", "freebsd_arm", "freebsd_arm64", "openbsd_amd64",
	"openbsd_386", "solaris_amd64",
}

// installFlags are the flags of commands that install from sources that the engines' init takes too.
func installFlags(dryRun string) []line.Flag {
	return []line.Flag{
		{Name: "lockfile", Value: "MODE", Does: "readonly refuses other versions, frozen any change", Offers: lockModes},
		{Name: "plugin-dir", Value: "DIR", Kind: line.Dir, Repeatable: true, Does: "install only from the mirror in DIR"},
		{Name: "paranoid", Does: "rehash every file, ignore hash records"},
		dryRunFlag(dryRun),
	}
}

var lockModes = []string{string(installer.LockReadOnly), string(installer.LockFrozen)}

// maxSizeFlag limits a size.
func maxSizeFlag(does string) line.Flag {
	return line.Flag{Name: "max-size", Value: "SIZE", Kind: line.Size, Does: does}
}

// allowEmptyFlag is for jobs of CI systems that run in every directory.
var allowEmptyFlag = line.Flag{Name: "allow-empty", Does: "succeed if there is no root module"}

// dryRunFlag makes the run read-only: it opens plugin caches and mirrors without write
// access.
func dryRunFlag(does string) line.Flag { return line.Flag{Name: "dry-run", Does: does} }

// each parses texts. It fails if one of them is wrong.
func each[T any](texts []string, parse func(string) (T, error)) (all []T, err error) {
	for _, text := range texts {
		one, err := parse(text)
		if err != nil {
			return nil, report.Usage(err)
		}
		all = append(all, one)
	}
	return all, nil
}

// choiceFlag takes one of some values. The first is the default.
func choiceFlag[T ~string](name, value string, values []T) line.Flag {
	return line.Flag{Name: name, Value: value, Kind: line.Choice, Does: oneOf(values), Default: string(values[0]),
		Offers: sources.Texts(values)}
}

// oneOf returns the values of a flag as its description.
func oneOf[T ~string](values []T) string { return ui.List("or", values) }

// readFill reads fillFlags and the arguments, for commands that put packages into a store.
func readFill(l *line.Line) job.FillRequest {
	return job.FillRequest{
		Arguments: l.Words, RequirePlatforms: l.Bool("require-platforms"), Keep: l.Bool("keep"),
		Versions: installer.SelectOptions{All: l.Bool("all-versions"), Newest: max(1, l.Number("newest"))},
	}
}

// readFrom reads --from, which names paths and at most one place.
func readFrom(l *line.Line) (paths []string, place site.PlaceRequest, err error) {
	for _, from := range l.Texts("from") {
		switch {
		case !site.IsPlace(from):
			paths = append(paths, from)
		case place.Place != "":
			err := fmt.Errorf("--from names two places: %s and %s", place.Place, from)
			return nil, place, report.Usage(sources.WithHint(err, "run the command once for each of them"))
		default:
			place.Place = from
		}
	}
	return paths, place, nil
}

// needsMirror is what commands need that work on one mirror.
const needsMirror = "needs one directory, that of the mirror"
