package archive

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// checkName returns the clean relative path of a name in an archive, or an
// error if the name is not allowed.
func checkName(name string) (string, error) {
	tooLong := func(element string) bool { return len(element) > maxElement }
	switch {
	case len(name) > maxName, slices.ContainsFunc(strings.Split(name, "/"), tooLong):
		return "", errors.New("name is too long")
	case !utf8.ValidString(name): // macOS cannot store it, and io/fs cannot walk it
		return "", errors.New("name is not UTF-8")
	case strings.ContainsFunc(name, isControl):
		return "", errors.New("name has control characters")
	case slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), ".."):
		return "", errors.New(`name has a ".." element`)
	case name == "", name[0] == '/', name[0] == '\\', hasDrive(name):
		return "", errors.New("name is not relative")
	}
	clean := path.Clean(name)
	if runtime.GOOS == "windows" && clean != "." && !windowsCanHold(clean) {
		return "", errors.New("name is impossible on Windows")
	}
	return clean, nil
}

// The longest names on common file systems, in bytes.
const (
	maxName    = 4096
	maxElement = 255
)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func hasDrive(name string) bool {
	return len(name) >= 2 && name[1] == ':' && 'a' <= name[0]|0x20 && name[0]|0x20 <= 'z'
}

// windowsCanHold reports whether Windows stores a file under exactly this name.
// Windows drops dots and spaces at the end of an element.
func windowsCanHold(name string) bool {
	changed := func(element string) bool { return strings.TrimRight(element, ". ") != element }
	if strings.ContainsAny(name, `\<>:"|?*`) || slices.ContainsFunc(strings.Split(name, "/"), changed) {
		return false
	}
	return runtime.GOOS != "windows" || filepath.IsLocal(filepath.FromSlash(name))
}

// Names hold the paths in a package or another archive. Their keys are paths without
// regard to case.
type Names map[string]namedPath

type namedPath struct {
	path     string
	dir      bool
	implicit bool // occurs only as a parent of other paths
}

// Add adds the path of a file, with forward slashes. It returns an error if not every file
// system can store the file beside the others.
func (s Names) Add(file string) error { return s.add(file, false) }

// add adds p, and returns an error if p cannot exist beside the paths in s.
func (s Names) add(p string, dir bool) error {
	if p == "." && !dir {
		return errors.New("name is that of a directory")
	}
	for parent := path.Dir(p); parent != "." && !s[key(parent)].is(parent); parent = path.Dir(parent) {
		if err := s.put(namedPath{parent, true, true}); err != nil {
			return err
		}
	}
	return s.put(namedPath{p, dir, false})
}

func key(p string) string { return strings.ToLower(strings.ToUpper(p)) }

// is reports whether n is the directory p. The parents of p are then in the set
// too.
func (n namedPath) is(p string) bool { return n.dir && n.path == p }

func (s Names) put(n namedPath) error {
	key := key(n.path)
	old, exists := s[key]
	switch {
	case !exists:
		s[key] = n
	case old.path != n.path:
		return fmt.Errorf("name differs from %.255q only in case", old.path)
	case old.dir != n.dir:
		return errors.New("name is both a file and a directory")
	case !old.implicit && !n.implicit:
		return errors.New("name occurs twice")
	case old.implicit:
		s[key] = n
	}
	return nil
}
