package job

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// Arguments name paths or providers, and some texts can be either: live/net is a directory or
// a provider of type net. The code in this file distinguishes them.

// IsPathForm reports whether an argument has a form that only paths have.
func IsPathForm(arg string) bool {
	slashed := filepath.ToSlash(arg)
	return arg == "." || arg == ".." || filepath.IsAbs(arg) || strings.HasSuffix(slashed, "/") ||
		strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || strings.HasPrefix(slashed, "~/")
}

// Separate splits arguments into those that name root modules, lock files and lists of
// providers, and those that name providers. An existing directory never counts as a provider:
// Separate fails if it is not a root module.
func Separate(s *site.Site, args []string) (paths, addresses []string, err error) {
	if err := s.MisplacedVersion(args); err != nil {
		return nil, nil, err
	}
	for _, arg := range args {
		if err := misplacedPlatform(s, arg); err != nil {
			return nil, nil, err
		}
		isPath, err := isPath(s, arg)
		switch {
		case err != nil:
			return nil, nil, report.Usage(err)
		case isPath:
			paths = append(paths, arg)
		default:
			addresses = append(addresses, arg)
		}
	}
	s.Addresses = addresses
	return paths, addresses, nil
}

// misplacedPlatform returns an error if an argument is a platform, or several, and nothing else.
func misplacedPlatform(s *site.Site, arg string) error {
	first, _, _ := strings.Cut(arg, ",")
	if _, err := sources.ParseKnownPlatform(first); err == nil && !site.Exists(site.Absolute(s.WorkDir, arg)) {
		err := fmt.Errorf("%s is a platform, not a provider or a directory", arg)
		return report.Usage(sources.WithHint(err, "write platforms after --platform, with commas between them"))
	}
	return nil
}

func isPath(s *site.Site, arg string) (bool, error) {
	address, versioned := site.IsAddressForm(arg)
	path := site.Absolute(s.WorkDir, arg)
	info, statErr := os.Stat(path)
	switch exists := statErr == nil; {
	case IsPathForm(arg):
		return true, nil
	case address && versioned, !exists:
		return false, nil
	case !address:
		return true, nil
	case !info.IsDir():
		return false, nil
	case s.Flags.Recursive || IsRootModule(path):
		return true, nil
	}
	err := fmt.Errorf("%s is a directory without configuration, and may be meant as a provider", arg)
	below := ""
	if s.Flags.Searches {
		below = " with -R for root modules below it,"
	}
	const hint = "write ./%s for the directory,%s or %s for the provider"
	return false, sources.WithHint(err, hint, arg, below, fullAddress(arg))
}

// fullAddress returns an address with its namespace, and with its host if it has one. It
// returns other arguments unchanged.
func fullAddress(arg string) string {
	p, err := sources.ParseStoredProvider(arg)
	if err != nil {
		return arg
	}
	if strings.Contains(arg, "/") {
		return p.String()
	}
	return p.Display(sources.Terraform)
}

// IsRootModule reports whether dir contains configuration or a lock file.
func IsRootModule(dir string) bool {
	return new(modules.Cache).HasConfiguration(dir) || site.Exists(filepath.Join(dir, lockfile.Name))
}

// TakeRoots reads arguments that name the root modules of the command.
func TakeRoots(s *site.Site, args []string) error {
	for _, arg := range args {
		if err := misplacedPlatform(s, arg); err != nil {
			return err
		}
		if _, err := site.Existing(s.WorkDir, arg, site.Directory, "name the directory of a root module"); err != nil {
			if site.IsFile(site.Absolute(s.WorkDir, arg)) {
				err = report.Usage(err)
			}
			return err
		}
	}
	s.Roots = args
	return nil
}

// A Target is the file or directory that a command writes. The other arguments select what to
// write to it.
type Target struct {
	Command string // as typed
	What    string // as in "the directory of the mirror"
	Example string
	Is      func(path string, info os.FileInfo) bool // reports whether an existing file may be the target
}

// Pick finds the target among arguments in any order. A provider's address is never the target.
// If several arguments may be the target, that is a usage error.
func Pick(s *site.Site, t Target, args []string) (path string, others []string, err error) {
	if len(args) == 0 || slices.Contains(args, "") {
		return "", nil, report.Usage(fmt.Errorf("%s needs %s", t.Command, t.What))
	}
	if err := s.MisplacedVersion(args); err != nil {
		return "", nil, err
	}
	var sure, likely []int // indices of arguments that may be the target
	for i, arg := range args {
		address, versioned := site.IsAddressForm(arg)
		path := site.Absolute(s.WorkDir, arg)
		info, err := os.Stat(path)
		switch {
		case !IsPathForm(arg) && address && versioned:
		case err == nil:
			if t.Is(path, info) {
				sure = append(sure, i)
			}
		case IsPathForm(arg) || !address:
			sure = append(sure, i)
		case !strings.Contains(arg, "/"):
			likely = append(likely, i)
		}
	}
	if len(sure) == 0 {
		sure = likely
	}
	if len(sure) == 1 {
		i := sure[0]
		return args[i], slices.Delete(slices.Clone(args), i, i+1), nil
	}
	if len(sure) == 0 {
		return "", nil, report.Usage(noTarget(s, t, args))
	}
	first, second := args[sure[0]], args[sure[1]]
	err = fmt.Errorf("%s needs %s, which may be %s or %s", t.Command, t.What, first, second)
	return "", nil, report.Usage(ambiguous(s, err, first, second, slices.Equal(sure, likely)))
}

// ambiguous adds a hint to the error for two arguments that may be the target. New means that both may be providers.
// Larder creates the target, so the second one is more likely to be misspelled.
func ambiguous(s *site.Site, err error, first, second string, isNew bool) error {
	for _, arg := range []string{second, first} {
		if near := s.NearestDir(arg); near != "" && !site.Exists(site.Absolute(s.WorkDir, arg)) {
			return sources.WithHint(err, "did you mean %s instead of %s?", near, arg)
		}
	}
	if !isNew {
		return sources.WithHint(err, "name root modules and lock files with --from")
	}
	return sources.WithHint(err, "write ./%s for a path, and %s for a provider", first, fullAddress(second))
}

// ListsProviders reports whether a file with this path is configuration or a lock file.
func ListsProviders(path string) bool {
	return modules.IsConfiguration(filepath.Base(path)) || strings.HasSuffix(path, ".lock.hcl")
}

// noTarget returns the error for arguments without a target.
func noTarget(s *site.Site, t Target, args []string) error {
	for _, arg := range args {
		address, versioned := site.IsAddressForm(arg)
		info, err := os.Stat(site.Absolute(s.WorkDir, arg))
		if err == nil && !info.IsDir() && !ListsProviders(arg) { // otherwise it may be what to put there
			return sources.WithHint(fmt.Errorf("%s is a file, not %s", arg, t.What),
				"name a directory, which is created if it is missing")
		}
		if address && !versioned && err != nil {
			err := fmt.Errorf("%s needs %s, and %s may be a provider", t.Command, t.What, arg)
			return sources.WithHint(err, "write ./%s if it is a directory or file", arg)
		}
	}
	if info, err := os.Stat(site.Absolute(s.WorkDir, args[0])); err == nil && info.IsDir() {
		return sources.WithHint(fmt.Errorf("%s needs %s besides the directory %s", t.Command, t.What, args[0]),
			"write it first, as in larder %s %s %s", t.Command, t.Example, site.ShellQuoted(asPath(args[0])))
	}
	return fmt.Errorf("%s needs %s besides %s", t.Command, t.What, args[0])
}

// asPath returns a path in a form that no provider's address has.
func asPath(typed string) string {
	if filepath.IsAbs(typed) || strings.HasPrefix(typed, ".") {
		return typed
	}
	return "." + string(filepath.Separator) + typed
}

// MaxVersions is how many versions a message names.
const MaxVersions = 5

// ParseRelease parses ADDRESS@VERSION.
func ParseRelease(text string, e sources.Engine) (p sources.Provider, v sources.Version, err error) {
	address, version, ok := sources.CutVersion(text)
	if !ok {
		err := fmt.Errorf("%q is not of the form ADDRESS@VERSION", text)
		return p, v, report.Usage(sources.WithHint(err, "write an @ before the version, as in hashicorp/random@3.7.2"))
	}
	if p, err = sources.ParseProvider(address, e); err == nil {
		v, err = sources.ParseVersion(version)
	}
	if err != nil {
		return p, v, report.Usage(err)
	}
	return p, v, nil
}
