package bundle

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

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
	Kind  PayloadKind `json:"kind"`
	Root  string      `json:"root,omitempty"` // path of the root module, with forward slashes; empty for an engine
	Files []File      `json:"files"`          // sorted by name; an engine has one
}

const (
	modulesPath = ".larder/modules" // in a bundle
	enginePath  = ".larder/engine"  // in a bundle

	// DataPath is the data directory below which a bundle has the modules of each root
	// module, and an import puts them.
	DataPath = ".terraform"

	modulesName     = "modules" // in a data directory
	modulesManifest = "modules.json"
)

// dir returns the directory in the bundle that contains the files of p.
func (p Payload) dir() string {
	if p.Kind == EngineBinary {
		return enginePath
	}
	return path.Join(modulesPath, p.Root, DataPath, modulesName)
}

// Size returns the total size of the files in bytes.
func (p Payload) Size() int64 { return sizeOf(p.Files) }

func (p Payload) String() string {
	if p.Kind == EngineBinary {
		return "engine " + p.Files[0].Name
	}
	return "modules of " + p.Root
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
	case !slices.ContainsFunc(p.Files, func(f File) bool { return f.Name == modulesManifest }):
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
