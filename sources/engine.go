package sources

// An Engine is the program whose defaults apply.
type Engine string

// The engines. The zero Engine means that the engine is not known yet.
const (
	Terraform Engine = "terraform"
	OpenTofu  Engine = "tofu"
)

// engineName matches the names of the engines' programs, such as those that version
// managers and CI systems install: terraform1.11.4, tofu_1.12.
var engineName = Regexp(`^(terraform|tofu)(?:[-_]?v?[0-9][0-9A-Za-z.+-]*)?$`)

// EngineOf returns the engine of a program with this name, or "" if the program is not an
// engine.
func EngineOf(name string) Engine {
	match := engineName().FindStringSubmatch(name)
	if match == nil {
		return ""
	}
	return Engine(match[1])
}

// DefaultHost returns the registry host for a provider source without one.
func (e Engine) DefaultHost() Host {
	if e == OpenTofu {
		return "registry.opentofu.org"
	}
	return "registry.terraform.io"
}

// Default reports whether h is the default registry host of any engine.
func (h Host) Default() bool { return h == Terraform.DefaultHost() || h == OpenTofu.DefaultHost() }
