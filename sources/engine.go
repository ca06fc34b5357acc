package sources

// An Engine is the program whose defaults apply: terraform or tofu.
type Engine string

// The engines there are. The zero Engine means that nobody has decided yet.
const (
	Terraform Engine = "terraform"
	OpenTofu  Engine = "tofu"
)

// DefaultHost is the registry host of a provider source that names none.
func (e Engine) DefaultHost() Host {
	if e == OpenTofu {
		return "registry.opentofu.org"
	}
	return "registry.terraform.io"
}
