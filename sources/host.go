package sources

import (
	"errors"
	"fmt"
	"strings"

	svchost "github.com/hashicorp/terraform-svchost"
	"golang.org/x/net/idna"
)

// A Host is a registry's host name in the form shown to people: lower case,
// Unicode, with its port unless that is 443. It is made by [ParseHost].
type Host string

// ParseHost parses "HOST" or "HOST:PORT". Names in punycode are refused, as one
// host must have one spelling; see [ParsePunycodeHost].
func ParseHost(s string) (Host, error) {
	h, err := parseHost(s)
	if err != nil {
		return "", fmt.Errorf("host name %.*q: %w", maxName, s, err)
	}
	return h, nil
}

// ParsePunycodeHost is ParseHost for places where people cannot write Unicode,
// such as the names of variables: labels may be in punycode.
func ParsePunycodeHost(s string) (Host, error) {
	if len(s) > maxName {
		return ParseHost(s)
	}
	return ParseHost(svchost.ForDisplay(s))
}

// maxName limits hosts, namespaces and types, in bytes. They are the names of
// directories, and punycode takes quadratic time.
const maxName = 255

// ASCII is the form that goes into URLs and credentials helpers: punycode.
func (h Host) ASCII() string {
	ascii, err := svchost.ForComparison(string(h))
	if err != nil { // not made by ParseHost
		return string(h)
	}
	return string(ascii)
}

func parseHost(s string) (Host, error) {
	if len(s) > maxName {
		return "", fmt.Errorf("longer than %d bytes", maxName)
	}
	if strings.Contains(s, "://") {
		return "", WithHint(errors.New("a URL, not a host name"), "give just the host name, without scheme and path")
	}
	if err := checkPort(s); err != nil {
		return "", err
	}
	ascii, err := svchost.ForComparison(s)
	if err != nil {
		return "", hostError(s, err)
	}
	name, port, hasPort := strings.Cut(string(ascii), ":")
	name, err = idna.Lookup.ToUnicode(name)
	if err != nil {
		return "", hostError(s, err)
	}
	if hasPort {
		name += ":" + port
	}
	// Mapping can yield what may not be written, such as the ".." of two
	// full-width dots. The name becomes a directory, so it must read as itself.
	if again, err := svchost.ForComparison(name); err != nil || again != ascii {
		return "", hostError(s, errors.New("ambiguous"))
	}
	return Host(name), nil
}

// checkPort allows digits alone; svchost would take a sign too.
func checkPort(s string) error {
	_, port, ok := strings.Cut(s, ":")
	if ok && (port == "" || strings.Trim(port, "0123456789") != "") {
		return fmt.Errorf("port %q is not a number", port)
	}
	return nil
}

func hostError(s string, err error) error {
	if strings.Contains(strings.ToLower(s), "xn--") {
		return WithHint(errors.New("in punycode"), "write the name in Unicode: %s", svchost.ForDisplay(s))
	}
	if strings.HasPrefix(err.Error(), "idna:") {
		return errors.New("has a character or label that host names cannot have")
	}
	return err
}
