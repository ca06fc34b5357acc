package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/sources"
)

// A PayloadKind is what a payload contains.
type PayloadKind string

// The kinds of payloads.
const (
	RootModules  PayloadKind = "modules" // the modules that an engine has installed for a root module
	EngineBinary PayloadKind = "engine"  // an engine's executable
)

// A Payload is something in a bundle that does not become part of the mirror.
type Payload struct {
	Kind  PayloadKind   `json:"kind"`
	Root  string        `json:"root,omitempty"` // path of the root module, with forward slashes; empty for an engine
	Files []PayloadFile `json:"files"`          // sorted by name; an engine has one
}

// A PayloadFile is a file of a payload.
type PayloadFile struct {
	File
	Executable bool `json:"executable,omitempty"`

	source // zero in a bundle that was read
}

// A source is where something in a bundle comes from when the bundle is created.
type source struct {
	open    func() (io.ReadCloser, error)
	private string // path of the origin, if not all users can read it
}

const (
	modulesPath = ".larder/modules" // in a bundle
	enginePath  = ".larder/engine"  // in a bundle

	// DataPath is the data directory below which a bundle has the modules of each root
	// module, and an import puts them.
	DataPath = ".terraform"

	modulesName     = "modules" // in a data directory
	modulesManifest = "modules.json"

	maxFiles = 100_000 // in the payloads of a bundle
	maxName  = 4096    // bytes in the path of a file
)

// dir returns the directory in the bundle that contains the files of p.
func (p Payload) dir() string {
	if p.Kind == EngineBinary {
		return enginePath
	}
	return path.Join(modulesPath, p.Root, DataPath, modulesName)
}

// Size returns the total size of the files in bytes.
func (p Payload) Size() int64 {
	sum := int64(0)
	for _, f := range p.Files {
		sum += f.Size
	}
	return sum
}

func (p Payload) String() string {
	if p.Kind == EngineBinary {
		return "engine " + p.Files[0].Name
	}
	return "modules of " + p.Root
}

// checkPayload checks the payloads, which together may have a limited number of files.
func (m Manifest) checkPayload() error {
	n := 0
	for _, p := range m.Payload {
		if n += len(p.Files); n > maxFiles {
			return fmt.Errorf("more than %d files in modules", maxFiles)
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return inOrder(m.Payload, func(a, b Payload) int { return cmp.Compare(a.dir(), b.dir()) })
}

// check checks the kind and the names of a payload.
func (p Payload) check() error {
	switch {
	case len(p.Files) == 0:
		return errors.New("a payload has no files")
	case p.Kind == EngineBinary:
		if f := p.Files[0]; len(p.Files) != 1 || p.Root != "" || strings.Contains(f.Name, "/") || !f.Executable {
			return fmt.Errorf("engine %.99q is not a single executable", f.Name)
		} else if sources.EngineOf(strings.TrimSuffix(f.Name, ".exe")) == "" {
			return fmt.Errorf("engine %.99q does not have the name of an engine", f.Name)
		}
	case p.Kind != RootModules:
		return fmt.Errorf("unknown kind of payload %.99q", p.Kind)
	case !slices.ContainsFunc(p.Files, func(f PayloadFile) bool { return f.Name == modulesManifest }):
		return fmt.Errorf("modules of %.255q: %s is missing", p.Root, modulesManifest)
	default:
		if err := checkName(p.Root); err != nil {
			return fmt.Errorf("modules of %.255q: %w", p.Root, err)
		}
	}
	if err := checkFiles(p.Files, checkName); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// checkFiles checks the names, the sizes and the order of the files in a directory.
func checkFiles(files []PayloadFile, checkName func(string) error) error {
	for i, f := range files {
		err := cmp.Or(checkName(f.Name), f.check(maxArchive))
		if err == nil && (f.Name == "." || i > 0 && files[i-1].Name >= f.Name) {
			err = errors.New("listed twice, or out of order")
		}
		if err != nil {
			return fmt.Errorf("%.255q: %w", f.Name, err)
		}
	}
	return nil
}

// checkName refuses paths that lead elsewhere, that only some file systems can store, or
// that git would read as a repository with hooks and settings.
func checkName(name string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar }
	switch {
	case !fs.ValidPath(name) || len(name) > maxName:
		return errors.New("not a path inside a directory")
	case strings.ContainsFunc(name, odd):
		return errors.New("contains a character that some file systems cannot store")
	case slices.ContainsFunc(strings.Split(name, "/"), isRepository):
		return errors.New("part of a git repository")
	}
	return nil
}

// isRepository reports whether git takes a file or directory of this name for a repository.
func isRepository(name string) bool { return strings.EqualFold(name, ".git") }
