package report

import (
	"cmp"
	"slices"
	"strings"
)

// A Setup is what is configured for a root module.
type Setup struct {
	Engine    EngineChoice
	Files     []ConfigFile
	Variables []ConfigVariable
	Methods   []ConfigMethod
	Settings  []Setting

	Incomplete bool // there may be other methods, in a file that can't be read

	Tilde func(path string) string // shortens a path in the home directory
}

// An EngineChoice is the engine of a root module, and why.
type EngineChoice struct {
	Typed     `type:"engine"`
	Engine    string   `json:"engine"`
	Reason    string   `json:"reason"`
	File      string   `json:"file,omitempty"`      // that the reason is about
	Undecided []string `json:"undecided,omitempty"` // stronger criteria, which don't decide
}

// A ConfigFile is a file that configures Larder.
type ConfigFile struct {
	Typed      `type:"config_file"`
	Path       string   `json:"path"`
	What       string   `json:"what"`
	Read       bool     `json:"read"`
	State      string   `json:"state"`                // "read", "not found", or why it has no effect
	NamedBy    string   `json:"named_by,omitempty"`   // flag or variable
	Sets       []string `json:"sets,omitempty"`       // names of settings
	Overridden []string `json:"overridden,omitempty"` // names of settings that have no effect here
}

// A ConfigVariable is an environment variable that configures Larder.
type ConfigVariable struct {
	Typed     `type:"config_variable"`
	Name      string   `json:"name"`
	What      string   `json:"what"`
	Value     string   `json:"value,omitempty"`
	NoEffect  string   `json:"no_effect,omitempty"` // why
	Overrides []string `json:"overrides,omitempty"` // places of settings

	Usual bool `json:"-"` // most machines set it
}

// A ConfigMethod is an installation method.
type ConfigMethod struct {
	Typed    `type:"installation_method"`
	Method   string   `json:"method"`             // as in provider_installation
	Location string   `json:"location,omitempty"` // path or URL
	Implied  bool     `json:"implied,omitempty"`  // not configured
	NoEffect string   `json:"no_effect,omitempty"`
	Include  []string `json:"include,omitempty"`
	Exclude  []string `json:"exclude,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`

	Missing bool `json:"-"` // an implied directory that does not exist
}

// An Area is a part of the configuration, which the text has together.
type Area string

// The areas, in the order of the text.
const (
	AreaUninstalled Area = "not installed" // providers
	AreaHosts       Area = "hosts"
	AreaCache       Area = "plugin cache"
	AreaDirectories Area = "directories"
	AreaTrust       Area = "trust"
	AreaPolicy      Area = "policy" // rules; all apply
	AreaOther       Area = "other settings"
)

var areas = []Area{AreaUninstalled, AreaHosts, AreaCache, AreaDirectories, AreaTrust, AreaPolicy, AreaOther}

// ByDefault is where a setting comes from that nothing sets.
const ByDefault = "default"

// A Setting is something that is in force.
type Setting struct {
	Typed     `type:"setting"`
	Area      Area     `json:"area"`
	Name      string   `json:"name"`
	Of        string   `json:"of,omitempty"`    // host, provider or pattern; absent if it applies to everything
	Value     string   `json:"value,omitempty"` // absent for a secret
	Secret    bool     `json:"secret,omitempty"`
	From      string   `json:"from"` // place, variable or flag, or ByDefault
	Overrides []string `json:"overrides,omitempty"`
	Reason    string   `json:"reason,omitempty"`  // of a rule
	Contact   string   `json:"contact,omitempty"` // whom to ask for an exception to a rule
}

// SortSettings sorts settings by their area, and by what they apply to: those that apply to everything else are
// last. Rules keep their order.
func SortSettings(settings []Setting) {
	slices.SortStableFunc(settings, func(a, b Setting) int {
		if a.Area == AreaPolicy && b.Area == AreaPolicy {
			return 0
		}
		return cmp.Or(
			cmp.Compare(slices.Index(areas, a.Area), slices.Index(areas, b.Area)),
			strings.Compare(cmp.Or(a.Of, "\xff"), cmp.Or(b.Of, "\xff")),
		)
	})
}
