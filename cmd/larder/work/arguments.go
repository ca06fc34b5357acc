package work

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// Arguments name paths or providers, and some texts can be either: live/net is a directory or
// a provider of type net. The code in this file distinguishes them.

// isPathForm reports whether an argument has a form that only paths have.
func isPathForm(arg string) bool {
	slashed := filepath.ToSlash(arg)
	return arg == "." || arg == ".." || filepath.IsAbs(arg) || strings.HasSuffix(slashed, "/") ||
		strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || strings.HasPrefix(slashed, "~/")
}

// isAddressForm reports whether an argument can be a provider's address, and whether it
// continues with a version or a constraint.
func isAddressForm(arg string) (is, versioned bool) {
	address, _, versioned := sources.CutVersion(arg)
	_, err := sources.ParseStoredProvider(address)
	return err == nil, versioned
}

// separate splits arguments into those that name root modules, lock files and lists of
// providers, and those that name providers. An existing directory never counts as a provider:
// separate fails if it is not a root module.
func (s *Session) separate(args []string) (paths, addresses []string, err error) {
	if err := s.misplacedVersion(args); err != nil {
		return nil, nil, err
	}
	for _, arg := range args {
		isPath, err := s.isPath(arg)
		switch {
		case err != nil:
			return nil, nil, report.Usage(err)
		case isPath:
			paths = append(paths, arg)
		default:
			addresses = append(addresses, arg)
		}
	}
	s.addresses = addresses
	return paths, addresses, nil
}

func (s *Session) isPath(arg string) (bool, error) {
	address, versioned := isAddressForm(arg)
	path := Absolute(s.workDir, arg)
	info, statErr := os.Stat(path)
	switch exists := statErr == nil; {
	case isPathForm(arg):
		return true, nil
	case address && versioned, !exists:
		return false, nil
	case !address:
		return true, nil
	case !info.IsDir():
		return false, nil
	case s.flags.Recursive || isRootModule(path):
		return true, nil
	}
	err := fmt.Errorf("%s is a directory without configuration, and may be meant as a provider", arg)
	return false, sources.WithHint(err, "write ./%s for the directory, with -R for root modules below it, or %s for the provider", arg, fullAddress(arg))
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

// isRootModule reports whether dir contains configuration or a lock file.
func isRootModule(dir string) bool {
	return modules.HasConfiguration(dir) || exists(filepath.Join(dir, lockfile.Name))
}

// hasBelow reports whether a directory below dir that may be that of a host contains something
// that matches a pattern.
func hasBelow(dir, pattern string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		if !e.IsDir() || e.Name()[0] == '.' {
			return false
		}
		found, _ := fs.Glob(os.DirFS(filepath.Join(dir, e.Name())), pattern)
		return len(found) > 0
	})
}

// takeRoots reads arguments that name the root modules of the command.
func (s *Session) takeRoots(args []string) error {
	for _, arg := range args {
		if _, err := Existing(s.workDir, arg, Directory, "%s", s.meantRoot(arg)); err != nil {
			if isFile(Absolute(s.workDir, arg)) {
				err = report.Usage(err)
			}
			return err
		}
	}
	s.roots = args
	return nil
}

// meantRoot returns a hint for an argument that should name a root module, and doesn't.
func (s *Session) meantRoot(arg string) string {
	if near := s.nearestDir(arg); near != "" {
		return "did you mean " + near + "?"
	}
	return "name the directory of a root module"
}

// shown returns a path that is valid in the directory where the user runs larder.
func (s *Session) shown(path string) string {
	if relative, err := filepath.Rel(s.machine.WorkDir, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// A target is the file or directory that a command writes. The other arguments select what to
// write to it.
type target struct {
	command string                                   // as typed
	what    string                                   // as in "the directory of the mirror"
	is      func(path string, info os.FileInfo) bool // reports whether an existing file may be the target
}

// pick finds the target among arguments in any order. A provider's address is never the target.
// If several arguments may be the target, that is a usage error.
func (s *Session) pick(t target, args []string) (path string, others []string, err error) {
	if len(args) == 0 || slices.Contains(args, "") {
		return "", nil, report.Usage(fmt.Errorf("%s needs %s", t.command, t.what))
	}
	if err := s.misplacedVersion(args); err != nil {
		return "", nil, err
	}
	var sure, likely []int // indices of arguments that may be the target
	for i, arg := range args {
		address, versioned := isAddressForm(arg)
		path := Absolute(s.workDir, arg)
		info, err := os.Stat(path)
		switch {
		case !isPathForm(arg) && address && versioned:
		case err == nil:
			if t.is(path, info) {
				sure = append(sure, i)
			}
		case isPathForm(arg) || !address:
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
		return "", nil, report.Usage(s.noTarget(t, args))
	}
	first, second := args[sure[0]], args[sure[1]]
	err = fmt.Errorf("%s needs %s, which may be %s or %s", t.command, t.what, first, second)
	return "", nil, report.Usage(s.ambiguous(err, first, second, slices.Equal(sure, likely)))
}

// ambiguous adds a hint to the error for two arguments that may be the target. New means that neither of
// them exists.
func (s *Session) ambiguous(err error, first, second string, isNew bool) error {
	if !isNew {
		return sources.WithHint(err, "name root modules and lock files with --from")
	}
	for _, arg := range []string{first, second} {
		if near := s.nearestDir(arg); near != "" {
			return sources.WithHint(err, "did you mean %s instead of %s?", near, arg)
		}
	}
	return sources.WithHint(err, "write ./%s for a path, and %s for a provider", first, fullAddress(second))
}

// listsProviders reports whether a file with this path is configuration or a lock file.
func listsProviders(path string) bool {
	return modules.IsConfiguration(filepath.Base(path)) || strings.HasSuffix(path, ".lock.hcl")
}

// noTarget returns the error for arguments without a target.
func (s *Session) noTarget(t target, args []string) error {
	for _, arg := range args {
		address, versioned := isAddressForm(arg)
		info, err := os.Stat(Absolute(s.workDir, arg))
		if err == nil && !info.IsDir() && !listsProviders(arg) { // otherwise it may be what to put there
			return sources.WithHint(fmt.Errorf("%s is a file, not %s", arg, t.what), "name a directory, which is created if it is missing")
		}
		if address && !versioned && err != nil {
			err := fmt.Errorf("%s needs %s, and %s may be a provider", t.command, t.what, arg)
			return sources.WithHint(err, "write ./%s if it is a directory or file", arg)
		}
	}
	if info, err := os.Stat(Absolute(s.workDir, args[0])); err == nil && info.IsDir() {
		err := fmt.Errorf("%s needs %s, and %s is a directory", t.command, t.what, args[0])
		return sources.WithHint(err, "write the name of the file too, such as %s", shellQuoted(filepath.Join(args[0], "usb.tar")))
	}
	return fmt.Errorf("%s needs %s besides %s", t.command, t.what, args[0])
}

// isFile reports whether path leads to a regular file, and not to a directory.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
