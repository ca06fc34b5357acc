package sources

// A Provider is a provider's address, such as
// registry.terraform.io/hashicorp/aws. Its fields are normalised: values made
// by [ParseProvider] are equal if and only if they mean the same provider.
type Provider struct {
	Host      Host
	Namespace string
	Type      string
}

// ParseProvider parses a provider source, [HOST/][NAMESPACE/]TYPE. What is left
// out is filled in as engine e would.
func ParseProvider(source string, e Engine) (Provider, error) { panic("unwritten") }

// String is the canonical form: always HOST/NAMESPACE/TYPE.
func (p Provider) String() string { return string(p.Host) + "/" + p.Namespace + "/" + p.Type }

// Display is the form for messages, without the host if it is e's default.
func (p Provider) Display(e Engine) string { panic("unwritten") }

// Compare orders providers as lock files do: by host in ASCII form, namespace
// and type, bytewise.
func (p Provider) Compare(q Provider) int { panic("unwritten") }

// BuiltIn reports whether p is part of the engine and never installed.
func (p Provider) BuiltIn() bool { panic("unwritten") }

// Legacy reports whether p is an address of Terraform 0.12 with no namespace.
func (p Provider) Legacy() bool { return p.Namespace == "-" }
