package sources

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/idna"
)

// A Provider is a provider's address, such as
// registry.terraform.io/hashicorp/aws. Its fields are normalized: two values
// from [ParseProvider] are equal if and only if they mean the same provider.
type Provider struct {
	Host      Host
	Namespace string
	Type      string
}

// ParseProvider parses a provider source, [HOST/][NAMESPACE/]TYPE. Missing
// parts are filled in as by engine e.
func ParseProvider(source string, e Engine) (Provider, error) {
	p, err := parseProvider(source, e)
	if err != nil {
		return Provider{}, fmt.Errorf("provider source %q: %w", source, err)
	}
	return p, nil
}

// ParseStoredProvider parses HOST/NAMESPACE/TYPE from a path in a cache or
// mirror. It accepts every address that either engine accepts, because both use
// the same directories.
func ParseStoredProvider(address string) (Provider, error) {
	p, err := ParseProvider(address, Terraform)
	if err != nil {
		if other, otherErr := ParseProvider(address, OpenTofu); otherErr == nil {
			return other, nil
		}
	}
	return p, err
}

func parseProvider(source string, e Engine) (p Provider, err error) {
	parts, err := splitAddress(source)
	if err != nil {
		return p, err
	}
	p = Provider{Host: e.DefaultHost(), Namespace: "hashicorp"}
	if len(parts) == 3 {
		if p.Host, err = ParseHost(parts[0]); err != nil {
			return p, err
		}
	}
	if len(parts) > 1 {
		if p.Namespace, err = parseNamespace(parts[len(parts)-2], p.Host, e); err != nil {
			return p, namespaceHint(parts, err)
		}
	}
	p.Type, err = parseType(parts[len(parts)-1], e)
	return p, err
}

// splitAddress splits an address or pattern into one to three segments.
func splitAddress(s string) ([]string, error) {
	parts := strings.Split(s, "/")
	if len(parts) <= 3 && !strings.Contains("/"+s+"/", "//") {
		return parts, nil
	}
	err := errors.New("not of the form [HOST/][NAMESPACE/]TYPE")
	_, rest, isURL := strings.Cut(s, "://")
	if !isURL {
		rest = s
	}
	if page := strings.Split(rest, "/"); len(page) > 3 && page[1] == "providers" { // of the registry's site
		err = WithHint(err, "write \"%s/%s/%s\"", page[0], page[2], page[3])
	} else if isURL {
		err = WithHint(err, "a provider source is an address and not a URL: leave out the scheme")
	}
	return nil, err
}

// parseNamespace also accepts "-" on the default host. Terraform 0.12, which
// had only that host, used it for providers without a namespace.
func parseNamespace(s string, h Host, e Engine) (string, error) {
	if s == "-" && h == e.DefaultHost() {
		return s, nil
	}
	name, err := normalizeNamespace(s, e)
	if err != nil {
		return "", fmt.Errorf("namespace %q: %w", s, err)
	}
	return name, nil
}

// namespaceHint adds a hint for an address that has a host but no namespace, so
// that the host was parsed as the namespace.
func namespaceHint(parts []string, err error) error {
	if len(parts) == 2 && strings.ContainsAny(parts[0], ".:") {
		return WithHint(err, "if %s is a host, a namespace must follow it: %[1]s/NAMESPACE/%s", parts[0], parts[1])
	}
	return err
}

func parseType(s string, e Engine) (string, error) {
	name, err := normalizeName(s)
	if err != nil {
		return "", fmt.Errorf("type %q: %w", s, err)
	}
	prefixes := []string{FilePrefix, "terraform-"}
	if e == OpenTofu {
		prefixes = append(prefixes, "opentofu-provider-", "opentofu-")
	}
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			err := fmt.Errorf("type %q: starts with %s, which is for repositories and files", s, prefix)
			return "", WithHint(err, "write the type as %q", rest)
		}
	}
	return name, nil
}

// normalizeNamespace allows "_" inside a name, as Terraform does since 1.16.
func normalizeNamespace(s string, e Engine) (string, error) {
	if e == OpenTofu || strings.Trim(s, "_") != s {
		return normalizeName(s)
	}
	pieces := strings.Split(s, "_")
	for i, piece := range pieces {
		if piece == "" && len(pieces) > 1 {
			continue // between two underscores
		}
		name, err := normalizeName(piece)
		if err != nil {
			return "", err
		}
		pieces[i] = name
	}
	return strings.Join(pieces, "_"), nil
}

// normalizeName returns a name in the form of a host name's label.
func normalizeName(s string) (string, error) {
	if err := checkName(s); err != nil {
		return "", err
	}
	name, err := idna.Lookup.ToUnicode(s)
	if err != nil {
		return "", errors.New("may contain only letters, digits and dashes, and cannot start or end with a dash")
	}
	// Mapping turns full-width characters into ASCII, which must be checked
	// again.
	if err := checkName(name); err != nil {
		return "", err
	}
	if again, err := idna.Lookup.ToUnicode(name); err != nil || again != name {
		return "", errors.New("ambiguous")
	}
	return name, nil
}

func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("empty")
	case len(s) > maxName:
		return fmt.Errorf("longer than %d bytes", maxName)
	case strings.Contains(s, "."):
		return errors.New("may not contain a dot")
	case strings.Contains(s, "--"):
		return errors.New("may not contain two dashes in a row")
	default:
		return nil
	}
}

// ParseLocalName parses a module's local name for a provider, and returns its
// normal form. The rules are those for types, but no prefix is reserved.
func ParseLocalName(s string) (string, error) {
	name, err := normalizeName(s)
	if err != nil {
		return "", fmt.Errorf("provider name %q: %w", s, err)
	}
	return name, nil
}

// String returns the canonical form, always HOST/NAMESPACE/TYPE.
func (p Provider) String() string { return string(p.Host) + "/" + p.Namespace + "/" + p.Type }

// Display returns the form for messages, without the host if it is e's default.
func (p Provider) Display(e Engine) string {
	if p.Host == e.DefaultHost() {
		return p.Namespace + "/" + p.Type
	}
	return p.String()
}

// Compare orders providers as lock files do: by host in ASCII, then namespace,
// then type, by bytes.
func (p Provider) Compare(q Provider) int {
	hosts := 0
	if p.Host != q.Host { // converting a host to ASCII is much slower than the comparisons
		hosts = cmp.Compare(p.Host.ASCII(), q.Host.ASCII())
	}
	return cmp.Or(
		hosts,
		cmp.Compare(p.Namespace, q.Namespace),
		cmp.Compare(p.Type, q.Type),
	)
}

// BuiltIn reports whether p is part of the engine, so that it is never
// installed.
func (p Provider) BuiltIn() bool {
	return p.Namespace == "builtin" && (p.Host == "terraform.io" || p.Host == "opentofu.org")
}

// Implied reports whether engine e uses p for a provider without a source in
// any module.
func (p Provider) Implied(e Engine) bool {
	return p.Namespace == "hashicorp" && p.Host == e.DefaultHost()
}

// Legacy reports whether p is an address from Terraform 0.12 without a
// namespace.
func (p Provider) Legacy() bool { return p.Namespace == "-" }
